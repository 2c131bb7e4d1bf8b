"""What probes ask for and what their results mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hekla.node.hooks.probes import Health, Probe, ProbeKind, Streak, initial_health, read_probes

_PROBE = Probe(ProbeKind.READINESS, {}, successes=2, failures=3)


@given(st.lists(st.booleans(), max_size=30))
def test_a_verdict_needs_as_many_equal_results_in_a_row_as_asked(results: list[bool]) -> None:
    streak = Streak()
    for index, result in enumerate(results):
        streak = streak.then(result)
        needed = _PROBE.successes if result else _PROBE.failures
        recent = results[max(0, index + 1 - needed) : index + 1]
        decided = len(recent) == needed and all(each == result for each in recent)
        assert streak.verdict(_PROBE) == (result if decided else None)


def test_numbers_not_given_are_as_in_kubernetes() -> None:
    probe = read_probes({"name": "c", "livenessProbe": {"exec": {"command": ["true"]}}})[ProbeKind.LIVENESS]
    assert (probe.initial_delay, probe.period, probe.timeout, probe.successes, probe.failures) == (0, 10, 1, 1, 3)


def test_a_container_with_something_to_wait_for_begins_unready() -> None:
    assert initial_health({"name": "c"}) == Health(started=True, ready=True)
    assert initial_health({"name": "c", "readinessProbe": {"exec": {}}}) == Health(started=True, ready=False)
    assert initial_health({"name": "c", "startupProbe": {"exec": {}}}) == Health(started=False, ready=False)
    assert initial_health({"name": "c", "lifecycle": {"postStart": {"exec": {}}}}) == Health(started=False, ready=False)
    assert initial_health({"name": "c", "readinessProbe": {"grpc": {"port": 1}}}) == Health(started=True, ready=True)
