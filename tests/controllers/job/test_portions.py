"""The pods of a big Job are made in portions, and no more of them when the Job has changed meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from hekla.api.kinds import COMMAND, JOB, POD, QUEUE, Obj
from hekla.api.meta import owner_reference, uid_of
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
    await command(rig, job, "AbortJob")


async def command_that_goes(rig: Rig, job: Obj) -> str:
    """A Command that was carried out and is held by somebody's finalizer."""
    await command(rig, job, "AbortJob", finalizers=["example.com/hold"])
    await rig.client.delete(COMMAND, "abortjob", "default")
    return ""


async def command_in_hand(rig: Rig, job: Obj) -> str:
    """A Command that only asks for what is being done."""
    return uid_of(await command(rig, job, "SyncJob"))


async def command(rig: Rig, job: Obj, action: str, **metadata: object) -> Obj:
    metadata = {"name": action.lower(), "namespace": "default", **metadata}
    return await rig.client.create(
        COMMAND, {"metadata": metadata, "action": action, "target": owner_reference(job, JOB)}
    )


async def no_command(rig: Rig, job: Obj) -> str:
    return ""


async def made_while(
    rig: Rig, meddle: Callable[[Rig, Obj], Awaitable[None]], given: Callable[[Rig, Obj], Awaitable[str]] = no_command
) -> int:
    """How many of the pods are made when something happens to the Job as soon as there are some.

    `given` says which Command is being carried out.
    """
    await install_crds(rig.client)
    await rig.client.create(QUEUE, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
    obj = await rig.client.create(JOB, make.new_job("big", make.task("worker", PODS)))
    in_hand = await given(rig, obj)
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
    places = [(job.tasks[0], index) for index in range(PODS)]
    creating = asyncio.create_task(writer.create_pods(job, maker, places, command=in_hand))
    await asyncio.wait([creating, asyncio.create_task(first.wait())], return_when=asyncio.FIRST_COMPLETED)
    await meddle(rig, obj)
    made = await creating
    assert made.failed == []
    assert len((await rig.client.list(POD)).items) == len(made.created)
    for watch in watches:
        watch.cancel()
    return len(made.created)


async def _nothing(_: object) -> float | None:
    return None


def test_all_are_made_when_nothing_happens() -> None:
    assert with_server(lambda rig: made_while(rig, leave)) == PODS


@pytest.mark.parametrize("given", [command_that_goes, command_in_hand])
def test_a_command_that_asks_for_nothing_more_holds_no_pods_back(given: Callable[[Rig, Obj], Awaitable[str]]) -> None:
    assert with_server(lambda rig: made_while(rig, leave, given)) == PODS


@pytest.mark.parametrize("meddle", [delete, scale, suspend])
def test_no_more_are_made_when_the_job_has_changed(meddle: Callable[[Rig, Obj], Awaitable[None]]) -> None:
    assert 0 < with_server(lambda rig: made_while(rig, meddle)) < PODS
