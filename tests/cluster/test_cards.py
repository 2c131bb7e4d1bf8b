"""Parts of GPU cards on a real kube-apiserver: which card a pod has got is written with its node."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hekla.api.devices import GPU_INDEX, PREDICATE_TIME
from hekla.api.kinds import NODE, POD, POD_GROUP, Obj
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.scheduler.scheduler import SchedulerSettings, run
from hekla.scheduler.trial.objects import group_object, node_object, pod_object
from tests.cluster.control_plane import ControlPlane
from tests.eventually import until
from tests.scheduler.test_scheduler import CARDS

pytestmark = pytest.mark.cluster


def test_pods_are_told_their_cards_with_their_node(bare_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(CARDS)
    asyncio.run(_two_halves(bare_plane, tmp_path / "conf"))


async def _two_halves(plane: ControlPlane, conf: Path) -> None:
    async with client_from_files([plane.kubeconfig]) as client, _objects(client), _scheduler(plane, conf):
        await until(lambda: _all_placed(client), seconds=60)
        for number in range(2):
            told = (await client.get(POD, f"cards-t-{number}", "default"))["metadata"]["annotations"]
            assert told[GPU_INDEX] == "0"
            assert int(told[PREDICATE_TIME]) > 0


@contextlib.asynccontextmanager
async def _scheduler(plane: ControlPlane, conf: Path) -> AsyncIterator[None]:
    async with client_from_files([plane.kubeconfig]) as client:
        settings = SchedulerSettings(conf=conf)
        task = asyncio.create_task(run(client, clock=SystemClock(), rng=random.Random(1), settings=settings))
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def _objects(client: Client) -> AsyncIterator[None]:
    node: Obj = {"apiVersion": "v1", **node_object({"name": "cards", "gpu-number": 2, "gpu-memory": 2000})}
    made = await client.create(NODE, node)
    await client.update_status(NODE, {**made, "status": node["status"] | {"capacity": node["status"]["allocatable"]}})
    # A server without controllers taints what nobody has called ready.
    await client.patch(NODE, "cards", {"spec": {"taints": None}})
    group: Obj = {"apiVersion": POD_GROUP.api_version, **group_object({"name": "cards", "min": 2})}
    group["metadata"]["namespace"] = "default"
    await client.create(POD_GROUP, group)
    for number in range(2):
        pod: Obj = {"apiVersion": "v1", **pod_object({"name": f"cards-t-{number}", "gpu-memory": 500}, "cards")}
        pod["metadata"]["namespace"] = "default"
        pod["spec"]["containers"][0]["image"] = "any"
        await client.create(POD, pod)
    yield
    for number in range(2):
        await client.delete(POD, f"cards-t-{number}", "default", grace_seconds=0)
    await client.delete(POD_GROUP, "cards", "default")
    await client.delete(NODE, "cards")


async def _all_placed(client: Client) -> bool:
    pods = (await client.list(POD, "default")).items
    return len(pods) == 2 and all(pod["spec"].get("nodeName") == "cards" for pod in pods)
