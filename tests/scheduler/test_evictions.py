"""Pods that are made to leave."""

from __future__ import annotations

import asyncio

from hekla.scheduler.plan import Eviction, Plan
from hekla.scheduler.rows import PodStatus
from tests.integration.virtual_loop import run_virtually
from tests.scheduler.test_binder import Server, binder_of
from tests.scheduler.test_cache import pod, small_cache


def test_an_eviction_ends_the_rest_of_a_pod_that_was_bound_after_all() -> None:
    async def main() -> None:
        cache = small_cache(pods=0)
        cache.put_pod(pod(0, node="n1", phase="Running"))
        binder = binder_of(Server(None, bool), cache, lambda: None)
        binder._resting.begin(["p0"])
        group = cache.snapshot().groups[0]
        binder.take(Plan("", (), (), (), evictions=(Eviction(group, group.pods[0], "preempt"),)), cache.generation)
        await asyncio.sleep(10)
        left = cache.pod("p0")
        assert left is not None
        assert left.status is PodStatus.RELEASING

    run_virtually(main())
