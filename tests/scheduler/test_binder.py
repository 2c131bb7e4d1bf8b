"""What the server's answers mean for the cache."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, cast

import pytest

from hekla.api.kinds import Kind, Obj
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import LoopClock
from hekla.errors import ApiError, Conflict, NotFound
from hekla.scheduler.binder import Binder
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.trial.objects import queue_object
from tests.integration.virtual_loop import run_virtually
from tests.scheduler.test_cache import made, pod, small_cache


class Server:
    """Knows one object, which it refuses to bind; `meanwhile` happens while an answer about it is on its way."""

    def __init__(self, obj: Obj | None, meanwhile: Callable[[], object]) -> None:
        self._obj = obj
        self._meanwhile = meanwhile

    async def offers_batches(self) -> bool:
        return False

    async def bind_many(self, bindings: list[Any], **_: Any) -> list[ApiError | None]:
        return [Conflict("no")] * len(bindings)

    async def find(self, *_: Any) -> Obj | None:
        self._meanwhile()
        return self._obj

    async def patch(self, kind: Kind, *_: Any, **__: Any) -> Obj:
        if self._obj is None or self._obj["kind"] != kind.kind:
            raise NotFound("gone")
        self._meanwhile()
        return self._obj


class Events:
    def event(self, *_: Any, **__: Any) -> None:
        pass


def binder_of(server: Server, cache: Cache, wake: Callable[[], None]) -> Binder:
    return Binder(
        cast(Client, server), cache, cast(Recorder, Events()), clock=LoopClock(), period=1.0, in_flight=1,
        scheduled_events=0, scheduler_name="volcano", torn_seconds=20.0, metrics=None, wake=wake,
    )  # fmt: skip


def carry_out(cache: Cache, answer: Obj | None, meanwhile: Callable[[], object] = bool) -> int:
    """Run a cycle and what follows from it; how often another cycle was asked for."""

    async def main() -> int:
        woken: list[None] = []
        binder = binder_of(Server(answer, meanwhile), cache, lambda: woken.append(None))
        generation = cache.generation
        binder.take(run_cycle(cache.snapshot(), default_config()), generation)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(binder.run(), 1.5)
        return len(woken)

    return run_virtually(main())


def waiting_cache() -> Cache:
    """With a pod for which there is no room."""
    cache = small_cache(pods=0, minimum=1)
    cache.put_pod(pod(0, cpu=100))
    return cache


def test_a_pod_deleted_while_its_condition_is_written_stays_away() -> None:
    cache = waiting_cache()
    carry_out(cache, pod(0, revision=2, cpu=100), lambda: cache.remove_pod("p0"))
    assert cache.known_pods() == set()


@pytest.mark.parametrize("uid", ["", "another"])
def test_a_pod_found_gone_or_replaced_when_it_is_refused_is_forgotten(uid: str) -> None:
    cache = small_cache(pods=1, minimum=1)
    carry_out(cache, made(pod(0), uid) if uid else None)
    assert cache.known_pods() == set()


def test_a_change_of_somebody_else_that_comes_with_an_answer_is_news() -> None:
    cache = waiting_cache()
    assert carry_out(cache, pod(0, revision=2, cpu=100)) == 0
    assert carry_out(cache, pod(0, revision=3, cpu=1)) == 1


def test_a_queue_that_comes_back_with_our_own_counts_is_no_news() -> None:
    cache = small_cache(pods=0, minimum=1)
    cache.put_pod(pod(0, node="n1", phase="Running"))
    queue = made(queue_object({"name": "default"}), "q", 2)
    queue["status"]["allocated"] = {"cpu": "1", "pods": "1"}
    assert carry_out(cache, queue) == 0
    cache.put_queue(made(queue_object({"name": "default"}), "q", 3))
    assert carry_out(cache, made(queue_object({"name": "default", "weight": 7}), "q", 4)) == 1
