"""The controllers are killed at each of their writes, before and after it takes effect, and the outcome is the same.

The suite takes a share of the moments of every script; `python -m tests.controllers.test_crashes` takes them all.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

from hekla.api.kinds import POD
from tests import make
from tests.controllers.bench import Bench, on_bench
from tests.controllers.crash_scripts import SCRIPTS, Summary, summary

Script = Callable[[Bench], Awaitable[Summary]]
# Of a script's moments the suite takes every seventh, beginning elsewhere in each: before and after take turns.
_SHARE = 7


def rehearse(script: Script, batches: bool, *, first: int = 0, step: int = 1) -> Iterator[str]:
    """Run a script undisturbed, then once for each moment; says of each what was different."""
    expected, writes = on_bench(script, batches=batches)
    seen = {key: expected[key] for key in SCRIPTS[script]}
    yield f"undisturbed: {seen}" if seen != SCRIPTS[script] else ""
    moments = [(number, before) for number in range(1, writes + 1) for before in (True, False)]
    for number, before in moments[first::step]:
        result = _outcome(script, batches, number, before)
        where = f"killed {'before' if before else 'after'} write {number} of {writes}"
        yield f"{where}: {result} instead of {expected}" if result != expected else ""


def _outcome(script: Script, batches: bool, number: int, before: bool) -> Summary:
    try:
        return on_bench(script, break_at=number, before=before, batches=batches)[0]
    except ExceptionGroup as group:
        return {"failed": [str(error) for error in group.exceptions]}


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_outcome_is_the_same_wherever_the_controller_dies(script: Script, batches: bool) -> None:
    first = (list(SCRIPTS).index(script) + 3 * batches) % _SHARE
    assert [problem for problem in rehearse(script, batches, first=first, step=_SHARE) if problem] == []


def test_a_pod_deleted_while_the_controller_is_away_is_evicted_when_it_returns() -> None:
    async def script(bench: Bench) -> Summary:
        policies = [make.policy("PodEvicted", "TerminateJob")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        await bench.stop_controllers()
        await bench.client.delete(POD, "demo-worker-0", "default")
        await bench.settle()
        bench.start_controllers()
        await bench.until_phase("Terminated")
        return await summary(bench)

    assert on_bench(script)[0]["pods"] == {}


def test_a_pod_that_failed_while_the_controller_was_away_restarts_the_job() -> None:
    async def script(bench: Bench) -> Summary:
        policies = [make.policy("PodFailed", "RestartJob")]
        await bench.create(make.new_job("demo", make.task("worker", 1), policies=policies))
        await bench.until_running(1)
        await bench.stop_controllers()
        await bench.end("demo-worker-0", "Failed", 1)
        bench.start_controllers()
        await bench.until_running(1)
        return await summary(bench)

    result, _ = on_bench(script)
    assert (result["phase"], result["retryCount"]) == ("Running", 1)


def main() -> int:
    runs = failures = 0
    for script in SCRIPTS:
        for batches in (True, False):
            started = time.process_time()
            found = list(rehearse(script, batches))
            problems = [problem for problem in found if problem]
            runs, failures = runs + len(found), failures + len(problems)
            how = "many at once" if batches else "one by one"
            spent = time.process_time() - started
            print(f"{script.__name__:50} {how:12} {len(found) - 1:4} kills  {spent:5.1f} s", flush=True)
            for problem in problems:
                print(f"  {problem}", flush=True)
    print(f"{len(SCRIPTS)} scripts, {runs} runs, {failures} with another outcome")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
