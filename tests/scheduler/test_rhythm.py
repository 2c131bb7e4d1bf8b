from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.scheduler.rhythm import SHARE, Rhythm

SHORTEST, LONGEST = 0.005, 1.0


def cycles_in(seconds: float, took: float, rhythm: Rhythm, start: float = 100.0) -> int:
    """How many there are when there is always something new."""
    now, count = start, 0
    while now < start + seconds:
        now += rhythm.pause(now)
        rhythm.cycled(now, now + took)
        now, count = now + took, count + 1
    return count


@pytest.mark.parametrize("took", [0.0001, 0.002, 0.05, 3.0])
def test_after_a_while_of_nothing_new_a_change_waits_only_for_what_comes_with_it(took: float) -> None:
    rhythm = Rhythm(SHORTEST, LONGEST)
    cycles_in(10.0, took, rhythm)
    assert rhythm.pause(500.0) == SHORTEST


def test_a_few_cycles_follow_each_other_as_fast_as_the_news() -> None:
    """A gang that comes to an idle cluster takes several: let in, placed, told of."""
    assert cycles_in(0.1, 0.002, Rhythm(SHORTEST, LONGEST)) == pytest.approx(0.1 / 0.007, abs=1)


@pytest.mark.parametrize("took", [0.0001, 0.002, 0.02])
def test_a_trickle_of_news_gets_a_share_of_the_time(took: float) -> None:
    rhythm = Rhythm(SHORTEST, LONGEST)
    cycles_in(2.0, took, rhythm)
    assert took * cycles_in(100.0, took, rhythm, start=102.5) <= 1.05 * SHARE * 100.0


@given(st.lists(st.floats(0.0, 5.0), max_size=50))
def test_no_change_waits_longer_than_the_longest_or_less_than_the_shortest(times: list[float]) -> None:
    rhythm, now = Rhythm(SHORTEST, LONGEST), 0.0
    for took in times:
        pause = rhythm.pause(now)
        assert SHORTEST <= pause <= LONGEST + 1e-9
        now += pause
        rhythm.cycled(now, now + took)
        now += took


@given(st.lists(st.floats(0.0, 0.3), min_size=1, max_size=50))
def test_a_long_cycle_is_followed_by_twice_as_long_a_rest(times: list[float]) -> None:
    rhythm, now = Rhythm(SHORTEST, LONGEST), 0.0
    for took in times:
        rhythm.cycled(now, now + took)
        now += took
        assert rhythm.pause(now) >= min(2 * took, LONGEST) - 1e-9
        now += 0.01
