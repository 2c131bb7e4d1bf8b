from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from hekla.client.alarm import Alarm
from tests.integration.virtual_loop import run_virtually


def rings(script: Callable[[Alarm], None], *, seconds: float = 100) -> list[float]:
    """When an alarm rings that nobody sets again."""

    async def listen() -> list[float]:
        heard: list[float] = []
        loop = asyncio.get_running_loop()
        script(Alarm(lambda: heard.append(loop.time())))
        await asyncio.sleep(seconds)
        return heard

    return run_virtually(listen())


def set_to(*moments: float) -> Callable[[Alarm], None]:
    def script(alarm: Alarm) -> None:
        for moment in moments:
            alarm.set(moment)

    return script


@given(moments=st.lists(st.integers(1, 90), min_size=1))
def test_it_rings_once_at_the_earliest_moment_asked_for(moments: list[int]) -> None:
    assert rings(set_to(*moments)) == [min(moments)]


def test_one_that_was_stopped_does_not_ring() -> None:
    def script(alarm: Alarm) -> None:
        alarm.set(10)
        alarm.stop()

    assert rings(script) == []


def test_one_that_was_stopped_can_be_set_to_a_later_moment() -> None:
    def script(alarm: Alarm) -> None:
        alarm.set(10)
        alarm.stop()
        alarm.set(20)

    assert rings(script) == [20]


def test_who_rings_may_set_it_again_for_the_others() -> None:
    async def listen() -> list[float]:
        heard: list[float] = []
        loop = asyncio.get_running_loop()
        waiting = [30.0, 10.0, 20.0]

        def ring() -> None:
            heard.append(loop.time())
            waiting.remove(loop.time())
            if waiting:
                alarm.set(min(waiting))

        alarm = Alarm(ring)
        for moment in waiting:
            alarm.set(moment)
        await asyncio.sleep(100)
        return heard

    assert run_virtually(listen()) == [10, 20, 30]
