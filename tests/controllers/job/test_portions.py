"""The pods of a big Job are made in portions, and no more of them when the Job has changed meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from hekla.api.kinds import COMMAND, JOB, POD, QUEUE, Obj
from hekla.api.meta import owner_reference
from hekla.client.recorder import Recorder
from hekla.client.rest import PatchStyle
from hekla.clock import LoopClock
from hekla.controllers.job.model import read_job
from hekla.controllers.job.podindex import PodIndex
from hekla.controllers.job.podmaker import PodMaker
from hekla.controllers.job.writer import JobWriter
from hekla.controllers.runner import Runner
from hekla.controllers.sources import Sources
from hekla.local.bootstrap import install_crds
from tests import make
from tests.apiserver.rig import Rig, with_server

PODS, PORTION = 200, 5


async def leave(rig: Rig, job: Obj) -> None:
    """Nothing happens to the Job."""


async def delete(rig: Rig, job: Obj) -> None:
    await rig.client.delete(JOB, "big", "default")


async def scale(rig: Rig, job: Obj) -> None:
    patch = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3}]
    await rig.client.patch(JOB, "big", patch, "default", style=PatchStyle.JSON)


async def suspend(rig: Rig, job: Obj) -> None:
    command = {
        "metadata": {"name": "stop", "namespace": "default"},
        "action": "AbortJob",
        "target": owner_reference(job, JOB),
    }
    await rig.client.create(COMMAND, command)


async def made_while(rig: Rig, meddle: Callable[[Rig, Obj], Awaitable[None]]) -> int:
    """How many of the pods are made when something happens to the Job as soon as there are some."""
    await install_crds(rig.client)
    await rig.client.create(QUEUE, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
    obj = await rig.client.create(JOB, make.new_job("big", make.task("worker", PODS)))
    clock, rng = LoopClock(), random.Random(1)
    sources = Sources(rig.client, rng)
    watches = [asyncio.create_task(informer.run()) for informer in sources]
    await sources.synced()
    recorder = Recorder(rig.client, "test", clock=clock, rng=rng)
    writer = JobWriter(rig.client, sources, Runner("test", _nothing), recorder, clock, PodIndex(), portion=PORTION)
    job = read_job(obj)
    maker = PodMaker(job, claims={}, plugins=[], evicted={}, rng=rng)
    first = asyncio.Event()
    sources.pods.subscribe(lambda _: first.set())
    creating = asyncio.create_task(writer.create_pods(job, maker, [(job.tasks[0], index) for index in range(PODS)]))
    await first.wait()
    await meddle(rig, obj)
    created, failed = await creating
    assert failed == []
    assert len((await rig.client.list(POD)).items) == len(created)
    for watch in watches:
        watch.cancel()
    return len(created)


async def _nothing(_: object) -> float | None:
    return None


def test_all_are_made_when_nothing_happens() -> None:
    assert with_server(lambda rig: made_while(rig, leave)) == PODS


@pytest.mark.parametrize("meddle", [delete, scale, suspend])
def test_no_more_are_made_when_the_job_has_changed(meddle: Callable[[Rig, Obj], Awaitable[None]]) -> None:
    assert 0 < with_server(lambda rig: made_while(rig, meddle)) < PODS
