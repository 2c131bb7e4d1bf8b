"""Who goes next when only so many may go at a time, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from hekla.client.turns import Turns
from tests.integration.virtual_loop import run_virtually


async def go(turns: Turns, seconds: float, *, patience: float = 1000) -> float:
    """Take a turn and keep it for so long. Returns when it came."""
    loop = asyncio.get_running_loop()
    if not turns.take_at_once():
        await turns.take(loop.time() + patience)
    came = loop.time()
    try:
        await asyncio.sleep(seconds)
    finally:
        turns.give_back()
    return came


def test_so_many_at_a_time_and_in_order() -> None:
    async def work() -> list[float]:
        turns = Turns(2)
        return await asyncio.gather(*(go(turns, 10) for _ in range(6)))

    assert run_virtually(work()) == pytest.approx([0, 0, 10, 10, 20, 20])


def test_who_waits_too_long_is_told_when_it_is_too_late_and_the_others_wait_on() -> None:
    async def work() -> list[float]:
        turns, loop = Turns(1), asyncio.get_running_loop()
        first = asyncio.create_task(go(turns, 10))
        await asyncio.sleep(0)
        patient = asyncio.create_task(go(turns, 0, patience=50))
        await asyncio.sleep(0)
        late: list[float] = []
        for patience in (5, 2):
            with pytest.raises(TimeoutError):
                await go(turns, 0, patience=patience)
            late.append(loop.time())
        return [await first, await patient, *late]

    assert run_virtually(work()) == pytest.approx([0, 10, 5, 7])


def test_a_turn_that_was_given_to_one_who_has_just_gone_is_the_next_ones() -> None:
    async def work() -> None:
        turns, loop = Turns(1), asyncio.get_running_loop()
        assert turns.take_at_once()
        gone, waiting = (asyncio.create_task(turns.take(loop.time() + 1)) for _ in range(2))
        await asyncio.sleep(0)
        turns.give_back()
        gone.cancel()
        await waiting
        assert gone.cancelled()
        turns.give_back()
        assert turns.take_at_once()
        assert not turns.take_at_once()

    run_virtually(work())


def test_who_goes_while_waiting_and_who_goes_at_the_last_moment_leave_no_turn_behind() -> None:
    async def work() -> None:
        turns, loop = Turns(1), asyncio.get_running_loop()
        assert turns.take_at_once()
        early, late = (asyncio.create_task(turns.take(loop.time() + 1)) for _ in range(2))
        await asyncio.sleep(0.5)
        early.cancel()
        # After the waiting was ended, before who waited has heard of it.
        loop.call_later(0.5, late.cancel)
        await asyncio.wait([early, late])
        turns.give_back()
        assert turns.take_at_once()
        assert not turns.take_at_once()

    run_virtually(work())
