"""What the status of a PodGroup or a Queue has to say, held against what it says: the patch, or that there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.scheduler.plan import GroupCondition, GroupOutcome, QueueOutcome
from hekla.scheduler.rows import PodGroup, show_amount


def group_status(row: PodGroup, outcome: GroupOutcome, cycle_id: str, now: str) -> dict[str, Any] | None:
    """The merge patch for a PodGroup's status, None when it already says all this."""
    patch: dict[str, Any] = {}
    if row.status.get("phase") != outcome.phase:
        patch["phase"] = str(outcome.phase)
    for name, count in (("running", outcome.running), ("succeeded", outcome.succeeded), ("failed", outcome.failed)):
        if (row.status.get(name) or 0) != count:
            patch[name] = count or None
    conditions = list(row.status.get("conditions") or ())
    if outcome.condition is not None and not is_said(conditions, outcome.condition):
        patch["conditions"] = _with_condition(conditions, outcome.condition, cycle_id, now)
    return patch or None


def waiting_annotations(row: PodGroup, outcome: GroupOutcome) -> dict[str, str | None] | None:
    """The merge patch for what a PodGroup's annotations say of its waiting, None when they already say it."""
    wanted = outcome.waiting
    if wanted is None or row.waiting == (wanted.reason, wanted.message):
        return None
    return {REASON_ANNOTATION: wanted.reason or None, MESSAGE_ANNOTATION: wanted.message or None}


def is_said(conditions: list[Mapping[str, Any]], wanted: GroupCondition) -> bool:
    """Whether one of the conditions says all of `wanted`."""
    same = (wanted.type, "True", wanted.reason, wanted.message)
    return any(
        same == (known.get("type"), known.get("status"), known.get("reason"), known.get("message") or "")
        for known in conditions
    )


def shown_amounts(outcome: QueueOutcome) -> dict[str, str]:
    return {name: show_amount(name, amount) for name, amount in outcome.allocated.items()}


def _with_condition(
    conditions: list[Mapping[str, Any]], wanted: GroupCondition, cycle_id: str, now: str
) -> list[Mapping[str, Any]]:
    """The list with the condition in the place of an earlier one of its type, or at the end."""
    entry = {
        "type": str(wanted.type),
        "status": "True",
        "transitionID": cycle_id,
        "lastTransitionTime": now,
        "reason": str(wanted.reason),
        **({"message": wanted.message} if wanted.message else {}),
    }
    if any(condition.get("type") == wanted.type for condition in conditions):
        return [entry if condition.get("type") == wanted.type else condition for condition in conditions]
    return [*conditions, entry]
