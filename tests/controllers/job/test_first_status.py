"""A Job's first status waits for its gang to be let in, so that one write tells of both; but it never waits long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hekla.api.kinds import JOB, POD, POD_GROUP
from hekla.client.informer import Update
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.client.transport import Answer, Request, Transport
from hekla.controllers import controllers
from hekla.controllers.job.first_status import is_due
from hekla.controllers.job.model import read_job, read_pods
from hekla.controllers.job.scene import Scene
from tests import make
from tests.controllers.bench import Bench, on_bench
from tests.transports import Counting, Line, Stalling


def follow_statuses(bench: Bench) -> list[dict[str, Any]]:
    """Every status of a Job from here on."""
    seen: list[dict[str, Any]] = []

    def hear(update: Update) -> None:
        status = (update.new or {}).get("status")
        if status and (not seen or seen[-1] != status):
            seen.append(status)

    bench.watch(JOB, hear)
    return seen


def phases_of(job: dict[str, Any]) -> list[str]:
    return [condition["status"] for condition in job["status"]["conditions"]]


GROUP = make.pod_group("demo", phase="Inqueue")
SMALL = make.job("demo", make.task("worker", 3))


def a_scene(job: dict[str, Any], *pods: dict[str, Any], group: dict[str, Any] | None = GROUP) -> Scene:
    return Scene(read_job(job), read_pods(pods), group)


@pytest.mark.parametrize(
    ("scene", "due", "due_before_a_kill"),
    [
        (a_scene(SMALL), False, True),
        (a_scene(SMALL, group=None), False, False),
        (a_scene({**SMALL, "status": {"state": {"phase": "Pending"}}}), False, False),
        (a_scene(make.job(plugins={"env": []})), True, True),
        (a_scene(make.job("demo", make.task("worker", 100))), False, True),
        (a_scene(make.job("demo", make.task("worker", 101))), True, True),
        (a_scene(make.job("demo", make.task("worker", 3), minAvailable=0)), True, True),
        (a_scene(SMALL, make.job_pod(SMALL, phase="Pending")), False, True),
        (a_scene(SMALL, make.job_pod(SMALL)), True, True),
    ],
)
def test_the_first_status_waits_where_nobody_needs_it_before(scene: Scene, due: bool, due_before_a_kill: bool) -> None:
    assert is_due(scene, kills=False) is due
    assert is_due(scene, kills=True) is due_before_a_kill


def test_the_first_status_of_a_job_that_is_let_in_counts_its_pods() -> None:
    async def script(bench: Bench) -> None:
        statuses = follow_statuses(bench)
        await bench.create(make.new_job("demo", make.task("worker", 2)))
        await bench.until_running(2)
        first = statuses[0]
        assert (first["state"]["phase"], first["pending"]) == ("Pending", 2)
        assert phases_of(bench.job("demo")) == ["Pending", "Running"]

    on_bench(script)


def test_a_job_that_is_not_let_in_is_pending_soon() -> None:
    async def script(bench: Bench) -> None:
        bench.lets_gangs_in = False
        await bench.create(make.new_job())
        began = bench.clock.monotonic()
        await bench.until_phase("Pending")
        assert bench.clock.monotonic() - began <= 1.0
        assert bench.store.objects(POD_GROUP)
        assert not bench.pods()

    on_bench(script)


def test_a_job_that_cannot_begin_is_pending_at_once() -> None:
    async def script(bench: Bench) -> None:
        began = bench.clock.monotonic()
        await bench.create(make.new_job(volumes=[{"mountPath": "/d", "volumeClaimName": "nothere"}]))
        await bench.until_phase("Pending")
        assert bench.clock.monotonic() == began
        assert not bench.store.objects(POD_GROUP)

    on_bench(script)


def test_what_plugins_will_make_is_told_before_it_is_made() -> None:
    async def script(bench: Bench) -> None:
        bench.lets_gangs_in = False
        await bench.create(make.new_job(plugins={"svc": []}))
        await bench.until(lambda: bench.store.objects(POD_GROUP), "there is a gang")
        assert bench.job("demo")["status"]["controlledResources"] == {"plugin-svc": "svc"}

    on_bench(script)


def test_a_job_suspended_before_its_first_status_was_pending() -> None:
    async def script(bench: Bench) -> None:
        bench.lets_gangs_in = False
        job = await bench.create(make.new_job())
        await bench.until(lambda: bench.store.objects(POD_GROUP), "there is a gang")
        assert not bench.phase("demo")
        await bench.command("AbortJob", job)
        assert phases_of(await bench.until_phase("Aborted")) == ["Pending", "Aborting", "Aborted"]

    on_bench(script)


def test_a_job_whose_pods_take_their_time_is_pending_before_they_are_made() -> None:
    async def script(bench: Bench) -> None:
        phases: list[str] = []
        bench.watch(POD, lambda update: phases.append(bench.phase("demo")))
        await bench.create(make.new_job("demo", make.task("worker", 300)))
        await bench.until(lambda: phases, "there are pods")
        assert phases[0] == "Pending"

    on_bench(script)


def test_a_job_without_pods_was_pending_before_it_runs() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 0), minAvailable=0))
        assert phases_of(await bench.until_phase("Running")) == ["Pending", "Running"]

    on_bench(script)


def test_a_job_whose_pods_ran_before_its_first_status_was_pending() -> None:
    async def script(bench: Bench) -> list[str]:
        await bench.create(make.new_job())
        await bench.until_running(1)
        return phases_of(bench.job("demo"))

    # The gang and the pod are written; the status comes from the controllers that were started next.
    phases, _ = on_bench(script, break_at=3, before=True)
    assert phases == ["Pending", "Running"]


def test_a_job_whose_pods_ran_before_they_were_heard_of_was_pending() -> None:
    async def script(bench: Bench) -> list[str]:
        await bench.stop_controllers()
        line = Line(InProcessTransport(bench.app), batches=False)
        line.fault = lambda write: "lose" if write.endswith("/pods") and not line.count("/pods") else ""
        deaf = Stalling(line, "/pods")
        bench.start(controllers.run(Client(deaf), clock=bench.clock, rng=bench.rng))
        deaf.stall()
        await bench.create(make.new_job())
        await bench.until_running(1)
        return phases_of(bench.job("demo"))

    phases, _ = on_bench(script)
    assert phases == ["Pending", "Running"]


class Slow(Counting):
    """Each write is a request of its own and takes a while; notes how many Jobs are told of, and at a time."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner, batches=False)
        self.statuses = self.told = self.most_told = 0

    async def send(self, request: Request) -> Answer:
        is_status = request.method == "PUT" and "/jobs/" in request.path
        self.told += is_status
        self.most_told = max(self.most_told, self.told)
        self.statuses += is_status
        if request.writes:
            await asyncio.sleep(0.1)
        answer = await super().send(request)
        self.told -= is_status
        return answer


def test_where_each_write_is_a_request_of_its_own_pods_are_made_before_jobs_are_told_of() -> None:
    async def script(bench: Bench) -> None:
        await bench.stop_controllers()
        bench.runs_pods = False
        for name in names:
            await bench.create(make.new_job(name, make.task("worker", 1)))
        slow = Slow(InProcessTransport(bench.app))
        told_before: list[int] = []
        bench.watch(POD, lambda update: told_before.append(slow.statuses) if update.old is None else None)
        bench.start(controllers.run(Client(slow), clock=bench.clock, rng=bench.rng))
        await bench.until(lambda: all(map(bench.phase, names)), "every Job is Pending")
        assert [bench.job(name)["status"]["pending"] for name in names] == [1] * 40
        assert (slow.statuses, slow.most_told) == (40, 4)
        assert told_before == [0] * 40

    names = [f"demo-{number}" for number in range(40)]
    on_bench(script)
