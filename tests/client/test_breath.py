"""When a busy client takes a breath, and how long, in virtual time."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from hekla.client.breath import Breath
from hekla.client.turns import Turns
from tests.integration.virtual_loop import VirtualLoop, run_virtually

UNDER_WAY = 64
LONGEST = 0.03


@dataclass
class Line:
    """Who waits for a turn, and the breaths that were taken."""

    crowded: bool = True
    taken: list[float] = field(default_factory=list)

    def breath(self) -> Breath:
        """Of one who knows that the server is busy: one answer was fast, most are not."""
        breath = Breath(UNDER_WAY, lambda: self.crowded, sleep=self.taken.append)
        for seconds in (0.001, *[0.1] * UNDER_WAY):
            breath.answered(seconds)
        return breath


async def work(seconds: float, breath: Breath | None = None, *, answers_each_millisecond: int = 0) -> None:
    for _ in range(round(seconds * 1000)):
        await asyncio.sleep(0.001)
        for _ in range(answers_each_millisecond if breath is not None else 0):
            breath.answered(0.1)


def test_where_nobody_waits_for_a_turn_none_is_taken() -> None:
    async def alone() -> list[float]:
        line = Line(crowded=False)
        breath = line.breath()
        await work(1, breath, answers_each_millisecond=1)
        breath.crowd()
        await work(1)
        return line.taken

    assert run_virtually(alone()) == []


def test_behind_a_slow_server_breaths_become_longer_up_to_a_bound() -> None:
    async def behind() -> list[float]:
        line = Line()
        line.breath().crowd()
        await work(1)
        return line.taken

    taken = run_virtually(behind())
    assert taken == sorted(taken)
    assert taken[0] < LONGEST / 5
    assert taken[-1] == LONGEST


def test_they_end_with_the_crowd_and_begin_with_the_next() -> None:
    async def twice() -> tuple[int, int, int]:
        line = Line()
        breath = line.breath()
        breath.crowd()
        await work(0.1)
        line.crowded = False
        await work(0.01)
        first = len(line.taken)
        await work(1)
        idle = len(line.taken)
        line.crowded = True
        breath.crowd()
        await work(0.1)
        return first, idle, len(line.taken)

    first, idle, both = run_virtually(twice())
    assert 0 < first == idle < both


def test_a_server_that_is_faster_than_we_are_is_kept_busy() -> None:
    async def in_front() -> tuple[list[float], int]:
        line = Line()
        breath = line.breath()
        breath.crowd()
        await work(1)
        long = len(line.taken)
        # More than half of what it has is answered between two breaths.
        await work(0.5, breath, answers_each_millisecond=UNDER_WAY // 9)
        return line.taken[long:], len(line.taken)

    taken, before = run_virtually(in_front())
    assert taken == sorted(taken, reverse=True)
    assert taken[-1] < LONGEST / 5
    # It took some to find out, and from then on there were none.
    assert len(taken) < 10 < before


def test_who_has_too_much_to_do_himself_takes_none() -> None:
    async def overwhelmed() -> list[float]:
        loop, line = asyncio.get_running_loop(), Line()
        assert isinstance(loop, VirtualLoop)
        line.breath().crowd()
        for _ in range(100):
            loop.jump(0.05)
            await asyncio.sleep(0)
        return line.taken

    assert run_virtually(overwhelmed()) == []


Answer = Callable[[], Awaitable[None]]


def far(seconds: float) -> Answer:
    """A server that answers any number at once, each after about so long."""
    rng = random.Random(1)

    async def answer() -> None:
        await asyncio.sleep(seconds * rng.uniform(0.3, 1.7))

    return answer


def busy(each_second: int) -> Answer:
    """A server that answers one after another."""
    free = 0.0

    async def answer() -> None:
        nonlocal free
        now = asyncio.get_running_loop().time()
        free = max(free, now) + 1 / each_second
        await asyncio.sleep(free - now)

    return answer


async def answered_each_second(answer: Answer, *, breathes: bool, seconds: float = 10) -> float:
    """By a server that is asked by four times as many as may ask at a time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    turns, count = Turns(UNDER_WAY), 0
    breath = Breath(UNDER_WAY, lambda: breathes and turns.awaited, sleep=loop.jump)

    async def ask_again_and_again() -> None:
        nonlocal count
        while loop.time() < seconds:
            if not turns.take_at_once():
                breath.crowd()
                await turns.take(math.inf)
            began = loop.time()
            await answer()
            breath.answered(loop.time() - began)
            turns.give_back()
            count += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4 * UNDER_WAY):
            tasks.create_task(ask_again_and_again())
    return count / loop.time()


@pytest.mark.parametrize("milliseconds", [1, 3, 10, 30, 100, 300])
def test_a_server_that_is_far_away_does_as_much_as_without_breaths(milliseconds: int) -> None:
    with_them, without = (
        run_virtually(answered_each_second(far(milliseconds / 1000), breathes=breathes)) for breathes in (True, False)
    )
    assert with_them > 0.999 * without


@pytest.mark.parametrize("each_second", [100, 600, 1500, 6000])
def test_a_server_that_has_more_to_do_than_it_can_loses_nothing(each_second: int) -> None:
    with_them, without = (
        run_virtually(answered_each_second(busy(each_second), breathes=breathes)) for breathes in (True, False)
    )
    assert with_them > 0.999 * without
