from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from hekla.api.kinds import Obj
from hekla.api.quota import read_quota
from hekla.api.quota_tally import Tally

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
PHASES = ("Pending", "Running", "Succeeded")
QUOTA: Obj = {"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": {"pods": "9", "cpu": "9", "secrets": "9"}}}


def pod(cpu: int = 1, phase: str = "Running", leaves: int | None = None) -> Obj:
    metadata: Obj = {"name": "p"}
    if leaves is not None:
        going = (NOW + timedelta(seconds=leaves)).isoformat().replace("+00:00", "Z")
        metadata |= {"deletionTimestamp": going, "deletionGracePeriodSeconds": 0}
    containers = [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}]
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": phase}}


def test_it_knows_only_what_it_counts() -> None:
    tally = Tally(read_quota(QUOTA), "pods")
    assert {name: str(amount) for name, amount in tally.used.items()} == {"cpu": "0", "pods": "0"}


def test_what_stops_counting_by_itself_is_let_go_of_in_time() -> None:
    tally = Tally(read_quota(QUOTA), "pods")
    tally.put("a", pod(leaves=30), NOW)
    tally.put("b", pod(leaves=10), NOW)
    tally.put("c", pod(), NOW)
    assert tally.settles_next() == NOW + timedelta(seconds=10)
    tally.settle(NOW + timedelta(seconds=10))
    assert tally.used["pods"].value == 3
    tally.settle(NOW + timedelta(seconds=11))
    assert tally.used["pods"].value == 2
    tally.drop("a")
    assert (tally.used["pods"].value, tally.settles_next()) == (1, None)


_CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.tuples(st.integers(0, 5), st.sampled_from(PHASES)))
)


@given(changes=_CHANGES)
def test_step_by_step_it_comes_to_what_counting_everything_gives(
    changes: list[tuple[str, tuple[int, str] | None]],
) -> None:
    tally, present = Tally(read_quota(QUOTA), "pods"), dict[str, Obj]()
    for name, change in changes:
        if change is None:
            tally.drop(name)
            present.pop(name, None)
        else:
            present[name] = pod(*change)
            tally.put(name, present[name], NOW)
        counted = [each for each in present.values() if each["status"]["phase"] != "Succeeded"]
        cpu = sum(int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for each in counted)
        assert (tally.used["pods"].value, tally.used["cpu"].value) == (Decimal(len(counted)), Decimal(cpu))
