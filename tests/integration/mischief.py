"""Accidents beyond connections: components killed or running twice, nodes lost or shrunk, pods failing or deleted,
webhooks down, clocks wrong, limits lowered below what is used."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from hekla.api.kinds import NODE, POD, QUEUE, Obj
from hekla.api.meta import is_deleting, name_of, namespace_of, uid_of
from hekla.api.scheduling import DEFAULT_QUEUE
from hekla.errors import Conflict, NotFound
from tests import make
from tests.integration.faulty_world import LED, FaultyWorld
from tests.integration.history import is_finished
from tests.integration.world import COMPONENTS

Mischief = Callable[[FaultyWorld], Awaitable[None]]

_UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


async def somebody_dies(world: FaultyWorld) -> None:
    rng = world.trouble.rng
    await world.crash(rng.choice(COMPONENTS), rng.choice((0.0, rng.uniform(0, 2), rng.uniform(0, 20))))


async def all_die(world: FaultyWorld) -> None:
    away = world.trouble.rng.uniform(0, 5)
    await asyncio.gather(*(world.crash(name, away) for name in COMPONENTS))


async def two_are_at_work(world: FaultyWorld) -> None:
    """Two of one kind that have no Lease, for up to half a minute."""
    rng = world.trouble.rng
    # Two schedulers can both be right about the same room, and only a server that looks can tell them.
    name = "scheduler" if world.trouble.batches and not world.trouble.leases and rng.random() < 0.5 else "builtins"
    async with _another(world, name, f"old {name}") as began:
        if began:
            await world.trouble.hold(rng.uniform(1, 30))


async def a_leader_is_stopped(world: FaultyWorld) -> None:
    """It stands still, with its requests on their way, for so long that another may lead; then it goes on."""
    trouble, rng = world.trouble, world.trouble.rng
    name = rng.choice(LED)
    if not trouble.leases or name not in world.running:
        return
    async with _another(world, name, f"other {name}"):
        await trouble.hold(rng.uniform(0, 5))
        if name in trouble.stopped:
            return
        trouble.tell(f"{name} is stopped")
        trouble.stopped[name] = asyncio.Event()
        await asyncio.sleep(rng.choice((3.0, 12.0, 20.0, 40.0)))
        trouble.stopped.pop(name).set()
        trouble.tell(f"{name} goes on")
        await trouble.hold(rng.uniform(0, 20))


@asynccontextmanager
async def _another(world: FaultyWorld, component: str, name: str) -> AsyncIterator[bool]:
    """One more of a component, for a while; False when there is one already."""
    if name in world.running:
        yield False
        return
    world.trouble.tell(f"{name} begins")
    world.start(component, name)
    yield True
    if name in world.running:
        await world.kill(name)
    world.trouble.tell(f"{name} ends")


async def a_node_is_lost(world: FaultyWorld) -> None:
    """It falls silent; after a while what ran there is taken away; then it is back."""
    name = world.trouble.rng.choice(world.nodes).name
    world.trouble.tell(f"{name} is lost")
    await _write_node(world, name, {"spec": {"taints": [_UNREACHABLE]}})
    await world.trouble.hold(world.trouble.rng.uniform(0, 10))
    for pod in world.pods():
        if pod["spec"].get("nodeName") == name:
            await _delete(world, pod, grace=0)
    await world.trouble.hold(world.trouble.rng.uniform(0, 20))
    await _write_node(world, name, {"spec": {"taints": None}})
    world.trouble.tell(f"{name} is back")


async def a_node_shrinks(world: FaultyWorld) -> None:
    if not world.trouble.batches:
        # A decision made before the scheduler heard of it would be carried out.
        return
    node = world.trouble.rng.choice(world.nodes)
    world.trouble.tell(f"{node.name} shrinks")
    await _write_node(world, node.name, {"status": {"allocatable": {"cpu": "2"}}}, "status")
    await world.trouble.hold(world.trouble.rng.uniform(0, 20))
    await _write_node(world, node.name, {"status": {"allocatable": {"cpu": node.cpu}}}, "status")
    world.trouble.tell(f"{node.name} is whole")


async def a_pod_fails(world: FaultyWorld) -> None:
    pod = _some_pod(world, running=True)
    if pod is not None:
        world.trouble.tell(f"{name_of(pod)} fails")
        await _end(world, pod, "Failed", 137)


async def a_pod_is_deleted(world: FaultyWorld) -> None:
    pod = _some_pod(world)
    if pod is not None:
        world.trouble.tell(f"{name_of(pod)} is deleted")
        await _delete(world, pod, grace=world.trouble.rng.choice((None, 0)))


async def a_pod_finishes_while_it_is_deleted(world: FaultyWorld) -> None:
    pod = _some_pod(world, running=True)
    if pod is not None:
        world.trouble.tell(f"{name_of(pod)} is deleted and finishes")
        await _delete(world, pod)
        await _end(world, pod, "Succeeded", 0)


async def the_webhook_fails(world: FaultyWorld) -> None:
    trouble = world.trouble
    trouble.webhook = trouble.rng.choice(("down", "slow"))
    trouble.tell(f"the webhook is {trouble.webhook}")
    await trouble.hold(trouble.rng.uniform(0, 20))
    trouble.webhook = "up"
    trouble.tell("the webhook is up")


async def a_clock_is_wrong(world: FaultyWorld) -> None:
    """It jumps, by as much as an hour, and after a while back."""
    rng = world.trouble.rng
    name, ahead = rng.choice(("controllers", "scheduler", "builtins")), rng.choice((-3600, -60, 60, 3600))
    world.trouble.tell(f"the clock of {name} jumps by {ahead} s")
    world.clocks[name].set(timedelta(seconds=ahead))
    await world.trouble.hold(rng.uniform(0, 20))
    world.clocks[name].set(timedelta())
    world.trouble.tell(f"the clock of {name} is right again")


async def a_queue_may_have_less(world: FaultyWorld) -> None:
    """A limit is set below what is used already."""
    cores = world.trouble.rng.choice(("1", "3"))
    world.trouble.tell(f"the default queue may have {cores} cores")
    await _limit_queue(world, {"cpu": cores})
    await world.trouble.hold(world.trouble.rng.uniform(0, 20))
    await _limit_queue(world, None)
    world.trouble.tell("the default queue may have what it wants")


MENU: tuple[Mischief, ...] = (
    somebody_dies,
    somebody_dies,
    all_die,
    two_are_at_work,
    a_leader_is_stopped,
    a_leader_is_stopped,
    a_node_is_lost,
    a_node_shrinks,
    a_pod_fails,
    a_pod_is_deleted,
    a_pod_finishes_while_it_is_deleted,
    the_webhook_fails,
    a_clock_is_wrong,
    a_queue_may_have_less,
)


def _some_pod(world: FaultyWorld, *, running: bool = False) -> Obj | None:
    pods = [pod for pod in world.pods() if not is_finished(pod) and not is_deleting(pod)]
    pods = [pod for pod in pods if not running or pod["status"].get("phase") == "Running"]
    return world.trouble.rng.choice(pods) if pods else None


async def _end(world: FaultyWorld, pod: Obj, phase: str, exit_code: int) -> None:
    world.touch(pod)
    status = {"phase": phase, "containerStatuses": [make.container_status(phase, exit_code=exit_code)]}
    patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
    with contextlib.suppress(NotFound, Conflict):
        await world.client.patch(POD, name_of(pod), patch, namespace_of(pod), subresource="status")


async def _delete(world: FaultyWorld, pod: Obj, grace: int | None = None) -> None:
    world.touch(pod)
    with contextlib.suppress(NotFound, Conflict):
        await world.client.delete(POD, name_of(pod), namespace_of(pod), uid=uid_of(pod), grace_seconds=grace)


async def _limit_queue(world: FaultyWorld, capability: dict[str, str] | None) -> None:
    await world.client.patch(QUEUE, DEFAULT_QUEUE, {"spec": {"capability": capability}})


async def _write_node(world: FaultyWorld, name: str, patch: Obj, subresource: str = "") -> None:
    await world.client.patch(NODE, name, patch, subresource=subresource)
