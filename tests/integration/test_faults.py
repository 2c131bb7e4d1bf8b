"""Jobs in a world where connections fail, watches end and components die: whatever the seed, all comes right."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hekla.api.kinds import COMMAND, JOB
from tests import make
from tests.integration.faults import FaultyWorld, broken_promises, everything, phases_of
from tests.integration.test_whole_system import job
from tests.integration.virtual_loop import run_virtually

SEEDS = 30
RESTART = [make.policy("PodFailed", "RestartJob")]

# Each job, and the ends it may come to whatever happens: kills of nodes may cost retries, never the outcome's sense.
JOBS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "steady": (job("steady", 3, seconds=5), {"Completed"}),
    "wide": (job("wide", 6, seconds=3), {"Completed"}),
    "unlucky": (job("unlucky", 2, seconds=1, exit_code=3, maxRetry=2, policies=RESTART), {"Failed"}),
    "endless": (job("endless", 2, seconds=100_000), {"Running"}),
    "stopped": (job("stopped", 2, seconds=100_000), {"Terminated"}),
}


async def rehearse(seed: int) -> tuple[dict[str, Any], list[str], FaultyWorld]:
    async with FaultyWorld(seed) as world:
        for one, _ in JOBS.values():
            created = await world.client.create(JOB, one)
        await world.rage(5)
        await world.client.create(COMMAND, make.command("TerminateJob", created))
        await world.rage(15)
        world.calm()
        await world.until_phase("stopped", "Terminated")
        for name, (_, ends) in JOBS.items():
            for end in ends:
                await world.until_phase(name, end)
        await asyncio.sleep(120)
        state = await everything(world)
        return (
            phases_of(state["jobs"]),
            broken_promises({name: one for name, (one, _) in JOBS.items()}, state, 8),
            world,
        )


def check(seed: int) -> None:
    phases, problems, world = run_virtually(rehearse(seed))
    assert problems == [], f"seed {seed}: {problems}; {world.stories[-20:]}"
    assert {name: phase in JOBS[name][1] for name, phase in phases.items()} == dict.fromkeys(JOBS, True)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_comes_right_after_any_trouble(seed: int) -> None:
    check(seed)


def test_trouble_is_repeated_by_its_seed() -> None:
    first, second = (run_virtually(rehearse(1))[2] for _ in range(2))
    assert first.stories == second.stories
    assert first.trace_hash() == second.trace_hash()


if __name__ == "__main__":
    import sys

    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        check(number)
        print(f"seed {number} is fine", flush=True)
