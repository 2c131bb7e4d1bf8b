from __future__ import annotations

from datetime import timedelta

from hekla.api.kinds import JOB, POD
from hekla.api.meta import name_of, parse_timestamp
from hekla.controllers.garbage import expiry
from tests import make
from tests.controllers.bench import Bench, on_bench


def test_only_finished_jobs_with_a_limit_expire() -> None:
    job = make.job(ttlSecondsAfterFinished=60)
    ended = parse_timestamp(make.CREATED)
    for phase in ("Completed", "Failed", "Terminated"):
        job["status"] = {"state": {"phase": phase, "lastTransitionTime": make.CREATED}}
        assert expiry(job) == ended + timedelta(seconds=60)
    for phase in ("Running", "Aborted", "Pending"):
        job["status"]["state"]["phase"] = phase
        assert expiry(job) is None
    unlimited = make.job()
    unlimited["status"] = {"state": {"phase": "Completed", "lastTransitionTime": make.CREATED}}
    assert expiry(unlimited) is None


def test_a_finished_job_goes_when_its_time_is_over_and_its_pods_with_it() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 1), ttlSecondsAfterFinished=100))
        for pod in await bench.until_running(1):
            await bench.end(name_of(pod))
        await bench.until_phase("Completed")
        await bench.settle()
        assert await bench.client.find(JOB, "demo", "default") is not None
        await bench.settle()
        assert await bench.client.find(JOB, "demo", "default") is None
        assert await bench.client.find_all(POD) == []

    on_bench(script)
