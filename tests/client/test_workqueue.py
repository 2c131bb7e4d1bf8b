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


def test_what_somebody_waits_for_goes_ahead_of_the_rest() -> None:
    async def work() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        for key in ("told", "new"):
            queue.add(key)
        queue.add("awaited", ahead=True)
        return [await queue.get() for _ in range(3)]

    assert run_virtually(work()) == ["awaited", "told", "new"]


def test_a_key_in_the_line_moves_ahead_when_somebody_comes_to_wait_for_it() -> None:
    async def work() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        for key in ("a", "b", "c"):
            queue.add(key)
        queue.add("c", ahead=True)
        queue.add("c")
        found = [await queue.get() for _ in range(3)]
        assert len(queue) == 0
        return found

    assert run_virtually(work()) == ["c", "a", "b"]


def test_a_key_wanted_ahead_while_it_is_worked_on_comes_back_ahead() -> None:
    async def work() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        key = await queue.get()
        queue.add("b")
        queue.add("a")
        queue.add("a", ahead=True)
        queue.done(key)
        return [await queue.get() for _ in range(2)]

    assert run_virtually(work()) == ["a", "b"]


def test_who_stands_behind_gets_a_turn_however_many_go_ahead() -> None:
    async def work() -> int:
        queue: WorkQueue[int] = WorkQueue()
        queue.add(-1)
        for key in range(100):
            queue.add(key, ahead=True)
        return [await queue.get() for _ in range(101)].index(-1)

    assert run_virtually(work()) == 8
