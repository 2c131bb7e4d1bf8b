from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.client.workqueue import Urgency, WorkQueue
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


def test_what_would_be_looked_at_later_can_be_looked_at_now_and_as_urgently() -> None:
    async def work() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("late", 3600.0)
        queue.add_after("told", 7200.0, Urgency.TOLD)
        queue.add_after("awaited", 10.0, Urgency.AWAITED)
        queue.hasten()
        assert [await queue.get() for _ in range(3)] == ["awaited", "late", "told"]
        for key in ("awaited", "late", "told"):
            queue.done(key)
        await asyncio.sleep(10_000)
        assert len(queue) == 0, "each has had its turn"

    run_virtually(work())


def test_forgetting_starts_the_delays_anew() -> None:
    async def work() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first = queue.retry("a")
        queue.retry("a")
        queue.forget("a")
        assert queue.retry("a") == first
        queue.close()

    run_virtually(work())


def test_what_somebody_waits_for_goes_first_and_what_has_only_to_be_told_last() -> None:
    async def work() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("told", Urgency.TOLD)
        for key in ("new", "changed"):
            queue.add(key)
        queue.add("awaited", Urgency.AWAITED)
        return [await queue.get() for _ in range(4)]

    assert run_virtually(work()) == ["awaited", "new", "changed", "told"]


def test_a_key_in_the_line_moves_forward_when_somebody_comes_to_wait_for_it() -> None:
    async def work() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        for key in ("a", "b", "c"):
            queue.add(key)
        queue.add("c", Urgency.AWAITED)
        queue.add("c")
        found = [await queue.get() for _ in range(3)]
        assert len(queue) == 0
        return found

    assert run_virtually(work()) == ["c", "a", "b"]


def test_a_key_awaited_while_it_is_worked_on_comes_back_first() -> None:
    async def work() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        key = await queue.get()
        queue.add("b")
        queue.add("a")
        queue.add("a", Urgency.AWAITED)
        queue.done(key)
        return [await queue.get() for _ in range(2)]

    assert run_virtually(work()) == ["a", "b"]


def test_what_failed_is_as_urgent_as_it_was() -> None:
    async def work() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("awaited", Urgency.AWAITED)
        queue.add("told")
        for _ in range(2):
            key = await queue.get()
            queue.retry(key)
            queue.done(key)
        queue.add("new")
        await asyncio.sleep(1)
        return [await queue.get() for _ in range(3)]

    assert run_virtually(work()) == ["awaited", "new", "told"]


def test_what_is_awaited_later_is_so_whichever_wish_comes_first() -> None:
    async def work() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 1, Urgency.AWAITED)
        queue.add_after("b", 1)
        queue.add_after("b", 2, Urgency.AWAITED)
        queue.add_after("c", 2, Urgency.AWAITED)
        queue.add_after("c", 1)
        queue.add_after("d", 5, Urgency.AWAITED)
        queue.add("told")
        queue.add("d")
        await asyncio.sleep(1)
        return [await queue.get() for _ in range(5)]

    assert run_virtually(work()) == ["d", "a", "b", "c", "told"]


@pytest.mark.parametrize(
    ("before", "behind"),
    [(Urgency.AWAITED, Urgency.USUAL), (Urgency.AWAITED, Urgency.TOLD), (Urgency.USUAL, Urgency.TOLD)],
)
def test_who_stands_behind_gets_a_turn_however_many_go_before(before: Urgency, behind: Urgency) -> None:
    async def work() -> int:
        queue: WorkQueue[int] = WorkQueue()
        queue.add(-1, behind)
        for key in range(100):
            queue.add(key, before)
        return [await queue.get() for _ in range(101)].index(-1)

    assert run_virtually(work()) == 8


def test_what_is_told_gets_a_turn_though_there_is_always_something_awaited_and_something_usual() -> None:
    async def work() -> int:
        queue: WorkQueue[int] = WorkQueue()
        queue.add(-1, Urgency.TOLD)
        for key in range(100):
            queue.add(key, Urgency.AWAITED)
            queue.add(1000 + key)
        return [await queue.get() for _ in range(201)].index(-1)

    # Every ninth turn is not that of the first line, and of these every ninth not that of the second.
    assert run_virtually(work()) == 80


def test_only_so_much_is_told_at_a_time_and_nothing_else_waits_for_that() -> None:
    async def work() -> None:
        queue: WorkQueue[str] = WorkQueue(told_at_a_time=2)
        taken: list[str] = []

        async def take() -> None:
            while True:
                taken.append(await queue.get())

        workers = [asyncio.create_task(take()) for _ in range(8)]
        for key in ("a", "b", "c", "d"):
            queue.add(key, Urgency.TOLD)
        await asyncio.sleep(1)
        assert taken == ["a", "b"]
        queue.add("e")
        queue.add("d", Urgency.AWAITED)
        await asyncio.sleep(1)
        assert taken[2:] == ["d", "e"]
        queue.done("a")
        await asyncio.sleep(1)
        assert taken[4:] == ["c"]
        queue.add("f", Urgency.TOLD)
        queue.done("e")
        await asyncio.sleep(1)
        assert taken[5:] == []
        queue.add("g", Urgency.TOLD)
        queue.add("h", Urgency.TOLD)
        queue.widen(4)
        await asyncio.sleep(1)
        assert taken[5:] == ["f", "g"]
        for worker in workers:
            worker.cancel()

    run_virtually(work())


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 5))
def test_whatever_comes_in_whatever_order_every_key_has_its_turn_after_it_was_added(
    seed: int, told_at_a_time: int, workers: int
) -> None:
    rng = random.Random(seed)
    owed: dict[int, Urgency] = {}
    being_told = 0

    async def take(queue: WorkQueue[int]) -> None:
        nonlocal being_told
        while True:
            key = await queue.get()
            telling = owed.pop(key) is Urgency.TOLD
            being_told += telling
            assert being_told <= told_at_a_time
            await asyncio.sleep(rng.choice((0, 0.1, 1)))
            being_told -= telling
            queue.done(key)

    async def work() -> None:
        queue: WorkQueue[int] = WorkQueue(told_at_a_time=told_at_a_time)
        tasks = [asyncio.create_task(take(queue)) for _ in range(workers)]
        for _ in range(60):
            key, urgency = rng.randrange(8), rng.choice(list(Urgency))
            owed[key] = min(urgency, owed.get(key, urgency))
            queue.add(key, urgency)
            await asyncio.sleep(rng.choice((0, 0, 0.1, 0.5)))
        await asyncio.sleep(120)
        assert not owed
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()

    run_virtually(work())


def test_what_a_worker_was_woken_for_who_stops_then_goes_to_another() -> None:
    async def work() -> str:
        queue = WorkQueue[str]()
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        return await second

    assert run_virtually(work()) == "a"


def test_what_is_to_be_looked_at_later_is_so_though_it_is_to_be_told_before() -> None:
    async def work() -> list[tuple[float, bool]]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a", Urgency.TOLD)
        queue.add_after("a", 5)
        found = []
        for _ in range(2):
            key = await queue.get()
            found.append((asyncio.get_running_loop().time(), queue.has_only_to_be_told(key)))
            queue.done(key)
        return found

    assert run_virtually(work()) == [(0.0, True), (5.0, False)]
