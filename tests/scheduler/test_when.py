"""When something is written: each rule, each two that can meet, and that nothing is held for longer than they say."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.scheduler.when import (
    AT_ONCE,
    NEVER,
    Allowance,
    Change,
    Course,
    Hold,
    Rule,
    Said,
    Timetable,
    Told,
    When,
    is_told_again,
)

CHANGES: tuple[Change, ...] = get_args(Change)
NOW = 100.0
TIMES = Timetable(1.0)
ONCE, OFTEN = Said(99.5, 1), Said(99.5, 4)  # words rest for a period, and for eight

STEADY, FILLING, FILLED = Hold("steady"), Hold("filling"), Hold("filled")
LOSS, BACK = Hold("loss", 99.5, 100.25), Hold("back", 90.0, 120.0)

GROUPS = [
    ("nothing", STEADY, OFTEN, NEVER, "said"),
    ("phase", STEADY, OFTEN, 0.0, "news"),
    ("verdict", STEADY, OFTEN, 0.0, "news"),
    ("lack", STEADY, OFTEN, 100.75, "loss"),
    ("passing", STEADY, None, 130.0, "passing"),
    ("passing", STEADY, OFTEN, 130.0, "passing"),
    ("counts", STEADY, None, 0.0, "counts"),
    ("counts", STEADY, OFTEN, 100.5, "counts"),
    ("words", STEADY, None, 101.0, "patience"),
    ("words", STEADY, OFTEN, 101.0, "patience"),
    ("figures", STEADY, None, 101.0, "patience"),
    ("figures", STEADY, ONCE, 101.0, "patience"),
    ("figures", STEADY, OFTEN, 107.5, "words"),
    ("remark", STEADY, None, 0.0, "words"),
    ("remark", STEADY, ONCE, 100.5, "words"),
    ("remark", STEADY, OFTEN, 107.5, "words"),
    ("nothing", LOSS, OFTEN, NEVER, "said"),
    ("phase", LOSS, OFTEN, 100.25, "loss"),
    ("verdict", LOSS, OFTEN, 100.25, "loss"),
    ("lack", LOSS, OFTEN, 100.75, "loss"),
    ("passing", LOSS, OFTEN, 130.0, "passing"),
    ("counts", LOSS, None, 100.25, "loss"),
    ("counts", LOSS, OFTEN, 100.5, "counts"),
    ("words", LOSS, OFTEN, 101.0, "patience"),
    ("figures", LOSS, None, 101.0, "patience"),
    ("figures", LOSS, OFTEN, 107.5, "words"),
    ("remark", LOSS, None, 100.25, "loss"),
    ("remark", LOSS, OFTEN, 107.5, "words"),
    ("phase", BACK, OFTEN, 120.0, "back"),
    ("nothing", FILLED, OFTEN, NEVER, "said"),
    ("phase", FILLED, OFTEN, 0.0, "news"),
    ("verdict", FILLED, OFTEN, 0.0, "news"),
    ("lack", FILLED, OFTEN, 100.75, "loss"),
    ("passing", FILLED, OFTEN, 130.0, "passing"),
    ("counts", FILLED, OFTEN, 100.5, "counts"),
    ("words", FILLED, OFTEN, 101.0, "patience"),
    ("figures", FILLED, OFTEN, 107.5, "words"),
    ("remark", FILLED, OFTEN, 107.5, "words"),
    *((change, FILLING, OFTEN, NEVER, "filling") for change in CHANGES if change != "phase"),
]


@pytest.mark.parametrize(("change", "hold", "last", "at", "rule"), GROUPS)
def test_when_a_group_is_written(change: Change, hold: Hold, last: Said | None, at: float, rule: Rule) -> None:
    assert TIMES.group(change, hold, last, NOW) == (at, rule)


def test_the_table_has_all_that_can_meet() -> None:
    # A gang that comes back enters, which is a phase; and one counts as being made while it has the phase it says.
    cannot = {(change, "back") for change in CHANGES} - {("phase", "back")}
    cannot.add(("phase", "filling"))
    assert {(change, hold.course) for change, hold, *_ in GROUPS} == set(product(CHANGES, get_args(Course))) - cannot


@pytest.mark.parametrize(
    ("course", "standing", "hold"),
    [
        ("steady", None, (0.0, 0.0)),
        ("steady", LOSS, (0.0, 0.0)),
        ("loss", None, (NOW, 100.75)),
        ("loss", STEADY, (NOW, 100.75)),
        ("loss", LOSS, (99.5, 100.25)),
        ("loss", BACK, (90.0, 100.75)),
        ("loss", Hold("back", 70.5, 100.5), (70.5, 100.5)),
        ("back", None, (NOW, 130.0)),
        ("back", STEADY, (NOW, 130.0)),
        ("back", LOSS, (99.5, 129.5)),
        ("back", BACK, (90.0, 120.0)),
        ("filled", None, (0.0, 0.0)),
    ],
)
def test_until_when_a_gang_is_held_back(course: Course, standing: Hold | None, hold: tuple[float, float]) -> None:
    assert TIMES.hold(course, standing, NOW) == (course, *hold)


@pytest.mark.parametrize(
    ("hold", "standing", "complaint"),
    [
        (STEADY, None, When(101.0, "patience")),
        (STEADY, When(100.4, "patience"), When(100.4, "patience")),
        (STEADY, When(100.4, "loss"), When(100.4, "loss")),
        (LOSS, None, When(100.25, "loss")),
        (LOSS, When(100.1, "patience"), When(100.1, "patience")),
        (LOSS, When(100.4, "patience"), When(100.25, "loss")),
        (BACK, None, When(101.0, "patience")),
        (FILLING, When(100.4, "patience"), When(NEVER, "filling")),
        (FILLED, None, When(NOW, "filling")),
    ],
)
def test_when_a_gang_is_complained_about(hold: Hold, standing: When | None, complaint: When) -> None:
    assert TIMES.complaint(hold, standing, NOW) == complaint


@pytest.mark.parametrize(
    ("hold", "last", "promised", "when"),
    [
        (STEADY, None, False, When(101.0, "patience")),
        (STEADY, ONCE, False, When(101.0, "patience")),
        (STEADY, OFTEN, False, When(107.5, "words")),
        (STEADY, OFTEN, True, AT_ONCE),
        (LOSS, None, False, When(100.25, "loss")),
        (LOSS, ONCE, False, When(100.5, "words")),
        (LOSS, None, True, AT_ONCE),
        (BACK, None, False, When(101.0, "patience")),
        (FILLING, None, False, When(NEVER, "filling")),
        (FILLING, None, True, When(NEVER, "filling")),
        (FILLED, None, False, When(NOW, "filling")),
        (FILLED, OFTEN, False, When(107.5, "words")),
    ],
)
def test_when_a_pod_says_why_it_waits(hold: Hold, last: Said | None, promised: bool, when: When) -> None:
    assert TIMES.pod(TIMES.patience(hold, NOW), last, promised=promised) == when


@pytest.mark.parametrize(("last", "at"), [(None, 0.0), (ONCE, 100.5), (OFTEN, 100.5)])
def test_what_a_queue_holds_is_written_once_a_period(last: Said | None, at: float) -> None:
    assert TIMES.queue(last) == (at, "counts")


@pytest.mark.parametrize(("since", "grown", "at"), [(98.0, 98.0, 99.0), (98.0, 99.8, 100.8), (70.5, 99.9, 100.5)])
def test_a_gang_counts_as_filled_when_it_has_stopped_growing(since: float, grown: float, at: float) -> None:
    assert TIMES.filling(since, grown) == (at, "filling")


@pytest.mark.parametrize(
    ("last", "reworded", "times"),
    [
        (None, True, 1),
        (ONCE, True, 2),
        (ONCE, False, 1),
        (Said(98.0, 1), True, 1),
        (Said(90.0, 4), True, 5),
        (Said(84.0, 4), True, 1),
    ],
)
def test_how_often_something_was_said_in_other_words(last: Said | None, reworded: bool, times: int) -> None:
    assert TIMES.said(last, NOW, reworded=reworded) == (NOW, times)


@pytest.mark.parametrize(
    ("last", "reason", "again"),
    [
        (None, "Unschedulable", True),
        (Told("other words", 99.0), "Unschedulable", True),
        (Told("words", 99.0), "Unschedulable", False),
        (Told("words", 40.0), "Unschedulable", True),
        (Told("words", 40.0), "Scheduled", False),
    ],
)
def test_when_an_event_is_told_again(last: Told | None, reason: str, again: bool) -> None:
    assert is_told_again(last, reason, "words", NOW) is again


def test_of_steps_on_the_way_a_hundred_are_told_at_once_and_ten_a_second() -> None:
    steps = Allowance()
    assert [sum(steps.take(now) for _ in range(1000)) for now in (5.0, 5.0, 5.5, 6.5, 600.0)] == [100, 0, 5, 10, 100]


BOUNDS = {
    "phase": 0.0,
    "verdict": 0.0,
    "lack": 0.75,
    "counts": 1.0,
    "words": 1.0,
    "passing": 30.0,
    "figures": 300.0,
    "remark": 300.0,
}
HELD = {"steady": 0.0, "filled": 0.0, "loss": 0.75, "back": 30.0}

pauses = st.floats(0.1, 2.0)  # between cycles
last_writes = st.none() | st.builds(Said, at=st.floats(NOW - 400, NOW), times=st.integers(1, 20))
changes, courses = st.sampled_from(list(BOUNDS)), st.sampled_from(list(HELD))
ROUNDS = 400  # of a few cycles, one after the other: more than the longest bound


def written_at(found: list[tuple[float, Change, Course]], last: Said | None) -> float:
    """When a group is written of which cycles find this, each so many seconds after the one before."""
    now, turn = NOW, NEVER
    hold: Hold | None = None
    for seconds, change, course in found:
        if hold is not None and turn <= now + seconds:
            # Its turn comes before the next cycle; it is put off while the gang is held back.
            turn = max(turn, hold.until)
            if turn <= now + seconds:
                return turn
        now += seconds if hold is not None else 0.0
        hold = TIMES.hold(course, hold, now)
        turn = min(turn, max(now, TIMES.group(change, hold, last, now).at))
    return max(turn, hold.until if hold is not None else 0.0)


@given(st.lists(st.tuples(pauses, changes), min_size=1, max_size=5), courses, last_writes)
def test_nothing_is_held_for_longer_than_its_rules_say(
    cycles: list[tuple[float, Change]], course: Course, last: Said | None
) -> None:
    found = [(pause, change, course) for pause, change in cycles] * ROUNDS
    assert written_at(found, last) <= NOW + max(BOUNDS[found[0][1]], HELD[course])


@given(st.lists(st.tuples(pauses, courses), min_size=1, max_size=5), last_writes)
def test_a_phase_is_written_in_the_end_whatever_happens_to_its_gang(
    cycles: list[tuple[float, Course]], last: Said | None
) -> None:
    found = [(pause, "phase", course) for pause, course in cycles] * ROUNDS
    assert written_at(found, last) <= NOW + 30.0


@given(st.lists(pauses, min_size=1, max_size=5))
def test_a_gang_counts_as_filled_in_the_end_however_it_grows(growth: list[float]) -> None:
    grown = NOW
    for pause in growth * ROUNDS:
        assert TIMES.filling(NOW, grown).at <= min(grown + 1.0, NOW + 30.0)
        grown += pause
