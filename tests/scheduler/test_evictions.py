"""Pods that are made to leave."""

from __future__ import annotations

import asyncio

from hekla.api.kinds import QUEUE
from hekla.scheduler.plan import Eviction, Plan
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.trial.objects import queue_object
from tests.scheduler.test_binder import RUNS, binder_of, known
from tests.scheduler.test_scheduler import Stage, on_stage


def test_an_eviction_ends_the_rest_of_a_pod_that_was_bound_after_all() -> None:
    on_stage(_evict_a_resting_pod)


async def _evict_a_resting_pod(stage: Stage) -> None:
    await stage.client.create(QUEUE, {"apiVersion": QUEUE.api_version, **queue_object({"name": "default"})})
    await stage.add({"nodes": [{"name": "n1", "cpu": 4}], "groups": [{"name": "a", "min": 1, "pods": [RUNS]}]})
    cache = await known(stage.client)
    binder = binder_of(stage.client, cache, lambda: None)
    (uid,) = cache.known_pods()
    binder._resting.begin([uid])
    (group,) = (group for group in cache.snapshot().groups if group.pods)
    binder.take(Plan("", (), (), (), evictions=(Eviction(group, group.pods[0], "preempt"),)), cache.generation)
    await asyncio.sleep(10)
    left = cache.pod(uid)
    assert left is not None
    assert left.status is PodStatus.RELEASING
