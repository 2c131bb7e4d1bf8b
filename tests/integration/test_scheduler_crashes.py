"""The scheduler is killed at each of its writes, before and after it takes effect, and the outcome is the same.

The suite takes a share of the moments; `python -m tests.integration.test_scheduler_crashes` takes them all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hekla.api.kinds import JOB, POD_GROUP, PRIORITY_CLASS, QUEUE
from hekla.client.inprocess import InProcessTransport
from hekla.scheduler.scheduler import SchedulerSettings
from tests.integration.roles import ENDLESS, job, new_job, task
from tests.integration.stage import perform
from tests.integration.world import World
from tests.transports import BreaksAtWrite, Severable

Outcome = dict[str, Any]
_EVICTING = SchedulerSettings(conf=Path(__file__).parent / "evicting-scheduler.conf")
_SHARE = 7


class CrashingWorld(World):
    """Its scheduler is cut off at one write, and started again."""

    def __init__(self, number: int, *, before: bool, batches: bool) -> None:
        super().__init__(settings=_EVICTING)
        self._number = number
        self._before = before
        self._batches = batches
        self.scheduler: BreaksAtWrite

    def connect(self, name: str) -> Severable:
        if name != "scheduler":
            return super().connect(name)
        self.scheduler = BreaksAtWrite(InProcessTransport(self.app), batches=self._batches)
        return self.scheduler

    async def rehearse(self, script: Script) -> Outcome:
        async with self:
            await self.client.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 1000})
            first = self.scheduler
            first.writes, first.number, first.before = 0, self._number, self._before
            again = asyncio.create_task(self._start_again(first))
            try:
                await script(self)
                await asyncio.sleep(60)
                return self._outcome()
            finally:
                again.cancel()

    async def _start_again(self, first: BreaksAtWrite) -> None:
        await first.cut.wait()
        await self.kill("scheduler")
        self.start("scheduler")

    def _outcome(self) -> Outcome:
        queue = (self.store.object(QUEUE, "default") or {})["status"]
        return {
            "jobs": {obj["metadata"]["name"]: self.phase(obj["metadata"]["name"]) for obj in self.store.objects(JOB)},
            "retries": [obj["status"].get("retryCount") for obj in self.store.objects(JOB)],
            "pods": self.pod_phases(),
            "groups": [obj["status"].get("phase") for obj in self.store.objects(POD_GROUP)],
            "cpu": queue["allocated"].get("cpu"),
        }


Script = Callable[[CrashingWorld], Awaitable[None]]


async def a_gang_runs(world: CrashingWorld) -> None:
    await world.client.create(JOB, job("steady", 3, seconds=5))
    await world.until_phase("Completed", "steady")


async def a_gang_waits_for_another(world: CrashingWorld) -> None:
    await world.client.create(JOB, job("first", 3, seconds=10))
    await world.until_phase("Running", "first")
    await world.client.create(JOB, job("second", 4, seconds=ENDLESS))
    await world.until_phase("Running", "second")


async def the_urgent_take_the_place_of_others(world: CrashingWorld) -> None:
    await world.client.create(JOB, new_job("elastic", [task("main", 4, ENDLESS)], minAvailable=1))
    await world.until(lambda: list(world.pod_phases().values()) == ["Running"] * 4, "all four run")
    await world.client.create(JOB, job("urgent", 2, seconds=5, priorityClassName="urgent"))
    await world.until_phase("Completed", "urgent")
    await world.until(lambda: list(world.pod_phases().values()).count("Running") == 4, "all four run again")


SCRIPTS: tuple[Script, ...] = (a_gang_runs, a_gang_waits_for_another, the_urgent_take_the_place_of_others)


def rehearse(script: Script, batches: bool, *, first: int = 0, step: int = 1) -> Iterator[str]:
    """Run a script undisturbed, then once for each moment; says of each what was different."""
    undisturbed = CrashingWorld(0, before=False, batches=batches)
    expected = perform(lambda: undisturbed.rehearse(script))
    writes = undisturbed.scheduler.writes
    for number, before in [(n, before) for n in range(1, writes + 1) for before in (True, False)][first::step]:
        world = CrashingWorld(number, before=before, batches=batches)
        result = perform(lambda world=world: world.rehearse(script))  # type: ignore[misc]
        where = f"killed {'before' if before else 'after'} write {number} of {writes}"
        yield f"{where}: {result} instead of {expected}" if result != expected else ""


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_outcome_is_the_same_wherever_the_scheduler_dies(script: Script, batches: bool) -> None:
    first = SCRIPTS.index(script) + batches
    assert [problem for problem in rehearse(script, batches, first=first, step=_SHARE) if problem] == []


def main() -> int:
    runs = failures = 0
    for script in SCRIPTS:
        for batches in (True, False):
            started = time.process_time()
            found = list(rehearse(script, batches))
            problems = [problem for problem in found if problem]
            runs, failures = runs + len(found), failures + len(problems)
            how = "as one" if batches else "one by one"
            seconds = time.process_time() - started
            print(f"{script.__name__:40} {how:10} {len(found):4} kills  {seconds:5.1f} s", flush=True)
            print(*problems, sep="\n", end="\n" if problems else "", flush=True)
    print(f"{runs} kills, {failures} with another outcome")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
