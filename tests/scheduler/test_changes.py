"""What is happening to a group, and what kind of news an outcome is for one that says something already."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.changes import change_of, course_of, is_awaited
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.patches import group_status, waiting_annotations
from hekla.scheduler.plan import GroupCondition, GroupOutcome, Waiting
from hekla.scheduler.reading import read_group
from hekla.scheduler.rows import PodGroup
from hekla.scheduler.when import Change, Course
from tests.scheduler.test_cache import small_cache

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = PodGroupPhase
READY, LACKS = GroupCondition("Scheduled", "r", ""), GroupCondition("Unschedulable", "r", "2 of 3 nodes")
NO_ROOM, NO_WAIT = Waiting("NotEnoughResources", "no room"), Waiting()


def found(phase: PodGroupPhase, *, pods: int = 2, **more: Any) -> GroupOutcome:
    """An outcome in which nothing waits and nothing is on its way, but for what is said."""
    (outcome,) = run_cycle(small_cache(pods).snapshot(), default_config()).groups
    usual = {"condition": None, "settling": False, "filling": False, "waiting": NO_WAIT}
    return msgspec.structs.replace(outcome, phase=phase, **{**usual, **more})


def saying(phase: PodGroupPhase, *conditions: GroupCondition, waiting: Waiting = NO_WAIT) -> PodGroup:
    said = [
        {"type": each.type, "status": "True", "reason": each.reason, "message": each.message} for each in conditions
    ]
    annotations = {REASON_ANNOTATION: waiting.reason, MESSAGE_ANNOTATION: waiting.message}
    metadata = {"name": "a", "namespace": "default", "annotations": annotations}
    return read_group({"metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": said}}, "default")


@pytest.mark.parametrize(
    ("row", "outcome", "course"),
    [
        (saying(RUNNING), found(RUNNING), "steady"),
        (saying(INQUEUE), found(PENDING), "steady"),
        (saying(INQUEUE), found(INQUEUE, filling=True), "filling"),
        (saying(UNKNOWN), found(UNKNOWN, filling=True), "filling"),
        (saying(PENDING), found(INQUEUE, filling=True), "steady"),
        (saying(RUNNING), found(UNKNOWN, filling=True), "loss"),
        (saying(RUNNING), found(PENDING), "loss"),
        (saying(RUNNING), found(PENDING, settling=True), "steady"),
        (saying(RUNNING), found(COMPLETED), "loss"),
        (saying(RUNNING), found(COMPLETED, pods=0), "steady"),
        (saying(PENDING, READY), found(INQUEUE, settling=True), "back"),
        (saying(PENDING, READY), found(INQUEUE), "steady"),
        (saying(PENDING), found(INQUEUE, settling=True), "steady"),
    ],
)
def test_what_is_happening_to_a_gang(row: PodGroup, outcome: GroupOutcome, course: Course) -> None:
    assert course_of(row, outcome) == course


OTHER_FIGURES = GroupCondition("Unschedulable", "r", "1 of 3 nodes")
OTHER_REASON, OTHER_SENTENCE = Waiting("NoNodeMatches", "no room"), Waiting("NotEnoughResources", "no room at all")
WAITING = saying(INQUEUE, LACKS, waiting=NO_ROOM)


@pytest.mark.parametrize(
    ("row", "outcome", "change"),
    [
        (WAITING, found(INQUEUE, condition=LACKS, waiting=NO_ROOM), "nothing"),
        (WAITING, found(RUNNING, condition=READY), "phase"),
        (WAITING, found(INQUEUE, condition=READY, settling=True, waiting=None), "passing"),
        (WAITING, found(INQUEUE, condition=READY, settling=True, waiting=OTHER_REASON), "counts"),
        (WAITING, found(INQUEUE, condition=LACKS, running=1, waiting=NO_ROOM), "counts"),
        (WAITING, found(INQUEUE, condition=LACKS, waiting=OTHER_REASON), "counts"),
        (WAITING, found(INQUEUE, condition=LACKS, waiting=OTHER_SENTENCE), "remark"),
        (WAITING, found(INQUEUE, condition=OTHER_FIGURES, waiting=NO_ROOM), "figures"),
        (WAITING, found(INQUEUE, condition=OTHER_FIGURES, waiting=OTHER_SENTENCE), "figures"),
        (WAITING, found(INQUEUE, condition=OTHER_FIGURES, waiting=OTHER_REASON), "words"),
        (WAITING, found(INQUEUE, condition=OTHER_FIGURES, running=1, waiting=NO_ROOM), "words"),
        (saying(INQUEUE), found(INQUEUE, condition=LACKS, waiting=NO_ROOM), "verdict"),
        (saying(INQUEUE), found(INQUEUE, condition=READY), "verdict"),
        (saying(UNKNOWN, READY), found(UNKNOWN, condition=LACKS), "lack"),
    ],
)
def test_what_kind_of_news_an_outcome_is(row: PodGroup, outcome: GroupOutcome, change: Change) -> None:
    patches = group_status(row, outcome, "cycle", "now"), waiting_annotations(row, outcome)
    assert change_of(row, outcome, *patches) == change


@pytest.mark.parametrize(
    ("row", "outcome", "awaited"),
    [
        (saying(PENDING), found(INQUEUE), True),
        (saying(PENDING), found(INQUEUE, settling=True), False),
        (saying(INQUEUE), found(INQUEUE), False),
        (saying(PENDING), found(RUNNING), False),
    ],
)
def test_somebody_waits_for_a_group_to_enter_unless_its_pods_are_there(
    row: PodGroup, outcome: GroupOutcome, awaited: bool
) -> None:
    assert is_awaited(row, outcome) is awaited
