"""What waits for a time of day is not late because the clock was set, or stood still while the machine slept."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from hekla.api.kinds import CRON_JOB, JOB
from hekla.api.meta import name_of
from tests import make
from tests.controllers.bench import Bench, on_bench
from tests.controllers.test_cronjob import cron_job
from tests.integration.faults import WrongClock

_HOUR = timedelta(hours=1)
_SOON = 15.0


async def with_a_clock_of_their_own(bench: Bench) -> WrongClock:
    """The controllers', started anew; the API server's is right."""
    await bench.stop_controllers()
    bench.clock = clock = WrongClock()
    bench.start_controllers()
    await bench.settle()
    return clock


def test_a_finished_job_goes_in_time_though_the_clock_was_an_hour_behind_for_a_while() -> None:
    async def script(bench: Bench) -> None:
        clock = await with_a_clock_of_their_own(bench)
        await bench.create(make.new_job("demo", make.task("worker", 1), ttlSecondsAfterFinished=30))
        for pod in await bench.until_running(1):
            await bench.end(name_of(pod))
        await bench.until_phase("Completed")
        clock.set(-_HOUR)
        await bench.settle()
        assert await bench.client.find(JOB, "demo", "default") is not None
        clock.set(timedelta())
        await asyncio.sleep(_SOON)
        assert await bench.client.find(JOB, "demo", "default") is None

    on_bench(script)


def test_a_cron_job_whose_time_has_passed_while_the_machine_slept_makes_its_job_when_it_wakes() -> None:
    async def script(bench: Bench) -> None:
        clock = await with_a_clock_of_their_own(bench)
        await bench.client.create(CRON_JOB, cron_job("0 * * * *"))
        await bench.settle()
        assert await bench.client.find_all(JOB) == []
        clock.set(_HOUR)
        await asyncio.sleep(_SOON)
        assert len(await bench.client.find_all(JOB)) == 1

    on_bench(script)
