"""What a cycle found of a group, held against what it says: what is happening to it, and what kind of news that is.

Timing is left to `when.py`, patches to `patches.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from hekla.api.scheduling import PodGroupCondition, PodGroupPhase
from hekla.scheduler.plan import GroupOutcome
from hekla.scheduler.rows import Condition, PodGroup, PodStatus
from hekla.scheduler.when import Change, Course

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = PodGroupPhase


def course_of(row: PodGroup, outcome: GroupOutcome) -> Course:
    if outcome.filling and row.status.get("phase") == outcome.phase:
        return "filling"
    if _is_back(row, outcome):
        # Next it says that it runs.
        return "back"
    if _is_loss(row, outcome):
        # Of such a gang its owner makes something else at once, as a rule.
        return "loss"
    return "steady"


def change_of(
    row: PodGroup, outcome: GroupOutcome, status: Mapping[str, Any] | None, annotations: Mapping[str, Any] | None
) -> Change:
    """The kind of change that these patches, as `patches.py` makes them of the outcome, are."""
    if status is None:
        return "nothing" if annotations is None else "remark" if _is_same_reason(row, outcome) else "counts"
    if "phase" in status:
        return "phase"
    if outcome.settling and outcome.waiting is None:
        return "passing"
    if outcome.condition is None or "conditions" not in status or outcome.settling:
        return "counts"
    wanted = outcome.condition.type
    if any(known.get("type") == wanted for known in row.status.get("conditions") or ()):
        return "figures" if len(status) == 1 and _is_same_reason(row, outcome) else "words"
    waits = outcome.waiting is not None and outcome.waiting.reason
    return "verdict" if waits or wanted == PodGroupCondition.SCHEDULED else "lack"


def is_awaited(row: PodGroup, outcome: GroupOutcome) -> bool:
    """Whether somebody waits for the write: pods are made once a group has entered. Unless they are there."""
    enters = outcome.phase is INQUEUE and row.phase is not INQUEUE
    return enters and not outcome.settling


def is_making_way(outcome: GroupOutcome) -> bool:
    """Whether pods of the group are leaving: their names are not free before they are gone."""
    return outcome.group.counts[PodStatus.RELEASING] > 0


def with_what_is_awaited(outcome: GroupOutcome, earlier: GroupOutcome) -> GroupOutcome:
    """What a gang on its way waits for only the cycle knows that placed it: no later one unsays it."""
    if earlier.settling and earlier.waiting is not None and outcome.settling and outcome.waiting is None:
        return msgspec.structs.replace(outcome, waiting=earlier.waiting)
    return outcome


def with_promised_node(condition: Condition, earlier: Condition) -> Condition:
    """For which node others left is not taken back by what a later cycle finds."""
    if earlier.nominated and not condition.nominated:
        return replace(condition, nominated=earlier.nominated)
    return condition


def _is_same_reason(row: PodGroup, outcome: GroupOutcome) -> bool:
    return outcome.waiting is not None and outcome.waiting.reason == row.waiting[0]


def _is_back(row: PodGroup, outcome: GroupOutcome) -> bool:
    """Whether a gang that fell to Pending is let in again with its pods being bound already."""
    if row.phase is not PENDING or outcome.phase is not INQUEUE or not outcome.settling:
        return False
    conditions = row.status.get("conditions") or ()
    return any(known.get("type") == PodGroupCondition.SCHEDULED for known in conditions)


def _is_loss(row: PodGroup, outcome: GroupOutcome) -> bool:
    if outcome.phase is PENDING:
        return row.phase in (RUNNING, UNKNOWN, COMPLETED) and not outcome.settling
    ended = outcome.phase is COMPLETED and len(outcome.group.pods) > 0
    return ended or outcome.phase is UNKNOWN
