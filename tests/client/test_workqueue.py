from __future__ import annotations

import asyncio

from hekla.client.workqueue import WorkQueue
from tests.integration.virtual_loop import run_virtually


def test_a_key_added_twice_is_handed_out_once() -> None:
    async def work() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        assert await queue.get() == "a"
        assert len(queue) == 0

    run_virtually(work())


def test_a_key_added_while_it_is_worked_on_comes_back_when_that_is_done() -> None:
    async def work() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        assert len(queue) == 0
        queue.done(key)
        assert await queue.get() == "a"

    run_virtually(work())


def test_failures_come_back_later_and_later_but_never_stop() -> None:
    async def work() -> list[float]:
        queue: WorkQueue[str] = WorkQueue()
        delays = []
        queue.add("a")
        for _ in range(40):
            key = await queue.get()
            delays.append(queue.retry(key))
            queue.done(key)
        return delays

    delays = run_virtually(work())
    assert delays == sorted(delays)
    assert delays[0] < 0.01
    assert delays[-1] == 30.0


def test_an_earlier_wish_beats_a_later_timer() -> None:
    async def work() -> float:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 60)
        queue.add_after("a", 5)
        await queue.get()
        return asyncio.get_running_loop().time()

    assert run_virtually(work()) == 5


def test_forgetting_starts_the_delays_anew() -> None:
    async def work() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first = queue.retry("a")
        queue.retry("a")
        queue.forget("a")
        assert queue.retry("a") == first
        queue.close()

    run_virtually(work())
