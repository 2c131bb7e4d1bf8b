"""Pods that are made to leave."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hekla.api.kinds import POD, QUEUE
from hekla.api.meta import is_deleting
from hekla.scheduler.cache import Cache
from hekla.scheduler.plan import Eviction, Plan
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.trial.objects import queue_object
from tests.scheduler.test_binder import RUNS, binder_of, known
from tests.scheduler.test_scheduler import Stage, on_stage


def test_an_eviction_ends_the_rest_of_a_pod_that_was_bound_after_all() -> None:
    on_stage(_evict_a_resting_pod)


async def _evict_a_resting_pod(stage: Stage) -> None:
    cache = await _with_one_running(stage)
    binder = binder_of(stage.client, cache, lambda: None)
    (uid,) = cache.known_pods()
    binder._resting.begin([uid])
    binder.take(_evicting(cache), cache.generation)
    await asyncio.sleep(10)
    left = cache.pod(uid)
    assert left is not None
    assert left.status is PodStatus.RELEASING


@pytest.mark.parametrize("change", ["goes", "is ready"])
def test_of_a_pod_that_has_changed_meanwhile_what_it_is_now_counts(change: str) -> None:
    """One that somebody else has told to go is left to them, what else may have happened to it is all the same."""

    async def script(stage: Stage) -> None:
        cache = await _with_one_running(stage)
        if change == "goes":
            await stage.client.delete(POD, "a-t-0", "default")
        else:
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await stage.client.patch(POD, "a-t-0", ready, "default", subresource="status")
        changed = await stage.client.get(POD, "a-t-0", "default")
        binder = binder_of(stage.client, cache, lambda: None)
        running = asyncio.create_task(binder.run())
        binder.take(_evicting(cache), cache.generation)
        await asyncio.sleep(0.5)
        live = await stage.client.get(POD, "a-t-0", "default")
        assert is_deleting(live)
        assert (live == changed) is (change == "goes")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    on_stage(script)


async def _with_one_running(stage: Stage) -> Cache:
    await stage.client.create(QUEUE, {"apiVersion": QUEUE.api_version, **queue_object({"name": "default"})})
    await stage.add({"nodes": [{"name": "n1", "cpu": 4}], "groups": [{"name": "a", "min": 1, "pods": [RUNS]}]})
    return await known(stage.client)


def _evicting(cache: Cache) -> Plan:
    (group,) = (group for group in cache.snapshot().groups if group.pods)
    return Plan("", (), (), (), evictions=(Eviction(group, group.pods[0], "preempt"),))
