"""What the server's answers mean for the cache."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hekla.api.kinds import NODE, POD, POD_GROUP, QUEUE
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import LoopClock
from hekla.scheduler.binder import Binder
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.trial.objects import queue_object
from tests.scheduler.test_scheduler import Stage, on_stage
from tests.transports import Disturbed

# What becomes of the world between what the cache knows and what the server answers.
Meanwhile = Callable[[Stage, Cache], Awaitable[object]]


async def nothing(stage: Stage, cache: Cache) -> None:
    """Nobody else does anything."""


def carry_out(pod: dict[str, Any], *, before: Meanwhile = nothing, during: Meanwhile = nothing) -> tuple[Cache, int]:
    """Run a cycle about a cluster with this one pod, and what follows from it: what the cache knows then, and how often
    another cycle was asked for.

    `before` happens after the cycle and before anything is written, `during` while the server's answer to a write of
    the pod is on its way.
    """
    found: list[tuple[Cache, int]] = []

    async def script(stage: Stage) -> None:
        await stage.client.create(QUEUE, {"apiVersion": QUEUE.api_version, **queue_object({"name": "default"})})
        await stage.add({"nodes": [{"name": "n1", "cpu": 4}], "groups": [{"name": "a", "min": 1, "pods": [pod]}]})
        cache, woken = await known(stage.client), list[None]()

        async def answering(request: str) -> None:
            if request.startswith("PATCH") and "/pods/" in request:
                await during(stage, cache)

        binder = binder_of(Client(Disturbed(stage.line, after=answering)), cache, lambda: woken.append(None))
        generation = cache.generation
        plan = run_cycle(cache.snapshot(), default_config())
        await before(stage, cache)
        binder.take(plan, generation)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(binder.run(), 1.5)
        found.append((cache, len(woken)))

    on_stage(script)
    return found[0]


async def known(client: Client) -> Cache:
    """A cache that has seen everything there is."""
    cache = Cache()
    for kind, put in (
        (QUEUE, cache.put_queue),
        (NODE, cache.put_node),
        (POD_GROUP, cache.put_group),
        (POD, cache.put_pod),
    ):
        for obj in (await client.list(kind)).items:
            put(obj)
    return cache


def binder_of(client: Client, cache: Cache, wake: Callable[[], None]) -> Binder:
    clock = LoopClock()
    return Binder(
        client, cache, Recorder(client, "volcano", clock=clock, rng=random.Random(1)), clock=clock, period=1.0,
        in_flight=1, scheduled_events=0, scheduler_name="volcano", torn_seconds=20.0, metrics=None, wake=wake,
    )  # fmt: skip


WAITS = {"cpu": 100}  # there is no room for it, which is written into its status
RUNS = {"node": "n1", "phase": "Running"}  # what it holds is written into the status of its queue


async def forget_pods(stage: Stage, cache: Cache) -> None:
    """The watch tells that they were deleted."""
    for uid in cache.known_pods():
        cache.remove_pod(uid)


async def delete_pod(stage: Stage, cache: Cache) -> None:
    await stage.client.delete(POD, "a-t-0", "default", grace_seconds=0)


async def replace_pod(stage: Stage, cache: Cache) -> None:
    await delete_pod(stage, cache)
    await stage.add_pod({"name": "a-t-0", "cpu": 1}, "a")


async def tell_pod_to_stay(stage: Stage, cache: Cache) -> None:
    stays = {"metadata": {"annotations": {"volcano.sh/preemptable": "false"}}}
    await stage.client.patch(POD, "a-t-0", stays, "default")


async def weigh_queue(stage: Stage, cache: Cache) -> None:
    await stage.client.patch(QUEUE, "default", {"spec": {"weight": 7}})


def test_a_pod_that_stays_is_known_after_its_condition_is_written() -> None:
    cache, _ = carry_out(WAITS)
    assert len(cache.known_pods()) == 1


def test_a_pod_deleted_while_its_condition_is_written_stays_away() -> None:
    cache, _ = carry_out(WAITS, during=forget_pods)
    assert cache.known_pods() == set()


@pytest.mark.parametrize("before", [delete_pod, replace_pod])
def test_a_pod_found_gone_or_replaced_when_it_is_refused_is_forgotten(before: Meanwhile) -> None:
    cache, _ = carry_out({"cpu": 1}, before=before)
    assert cache.known_pods() == set()


@pytest.mark.parametrize(("before", "news"), [(nothing, 0), (tell_pod_to_stay, 1)])
def test_a_change_of_somebody_else_that_comes_with_an_answer_is_news(before: Meanwhile, news: int) -> None:
    _, woken = carry_out(WAITS, before=before)
    assert woken == news


@pytest.mark.parametrize(("before", "news"), [(nothing, 0), (weigh_queue, 1)])
def test_a_queue_that_comes_back_with_our_own_counts_is_no_news(before: Meanwhile, news: int) -> None:
    _, woken = carry_out(RUNS, before=before)
    assert woken == news
