"""What a PodGroup, a pod or a Queue has to say, held against what it says: the patch, or that there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.api.scheduling import PodGroupPhase, last_word
from hekla.scheduler.plan import GroupCondition, GroupOutcome, QueueOutcome
from hekla.scheduler.rows import Condition, Pod, PodGroup, Queue, show_amount


def group_patch(row: PodGroup, outcome: GroupOutcome, cycle_id: str, now: str) -> dict[str, Any] | None:
    status, annotations = group_status(row, outcome, cycle_id, now), waiting_annotations(row, outcome)
    if status is None and annotations is None:
        return None
    # The revision guards what others write into the status: a conflict means look again.
    metadata: dict[str, Any] = {"uid": row.uid, "resourceVersion": str(row.revision)}
    if row.tracked_in_vain:
        metadata["managedFields"] = [{}]
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "status": status or {}}


def group_status(row: PodGroup, outcome: GroupOutcome, cycle_id: str, now: str) -> dict[str, Any] | None:
    """The merge patch for a PodGroup's status, None when it already says all this."""
    patch: dict[str, Any] = {}
    if row.status.get("phase") != outcome.phase:
        patch["phase"] = str(outcome.phase)
    for name, count in (("running", outcome.running), ("succeeded", outcome.succeeded), ("failed", outcome.failed)):
        if (row.status.get(name) or 0) != count:
            patch[name] = count or None
    conditions = list(row.status.get("conditions") or ())
    if outcome.condition is not None and not _is_said(conditions, outcome.condition, outcome.phase, now):
        patch["conditions"] = _with_condition(conditions, outcome.condition, cycle_id, now)
    return patch or None


def waiting_annotations(row: PodGroup, outcome: GroupOutcome) -> dict[str, str | None] | None:
    """The merge patch for what a PodGroup's annotations say of its waiting, None when they already say it."""
    wanted = outcome.waiting
    if wanted is None or row.waiting == (wanted.reason, wanted.message):
        return None
    return {REASON_ANNOTATION: wanted.reason or None, MESSAGE_ANNOTATION: wanted.message or None}


def pod_patch(pod: Pod, condition: Condition, now: str) -> dict[str, Any]:
    entry = {
        "type": "PodScheduled",
        "status": "False",
        "reason": condition.reason,
        "message": condition.message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    status: dict[str, Any] = {"conditions": [entry]}
    if condition.nominated:
        status["nominatedNodeName"] = condition.nominated
    return {"metadata": {"uid": pod.uid}, "status": status}


def is_said_by_pod(known: Condition | None, wanted: Condition) -> bool:
    """Whether a pod's condition says all of `wanted`; a node named earlier may stay."""
    if known is None or (known.reason, known.message) != (wanted.reason, wanted.message):
        return False
    return not wanted.nominated or known.nominated == wanted.nominated


def queue_patch(queue: Queue, outcome: QueueOutcome) -> dict[str, Any] | None:
    known, wanted = dict(queue.allocated or {}), shown_amounts(outcome)
    if known == wanted:
        return None
    gone = dict.fromkeys(name for name in known if name not in wanted)
    return {"metadata": {"uid": queue.uid}, "status": {"allocated": {**gone, **wanted}}}


def shown_amounts(outcome: QueueOutcome) -> dict[str, str]:
    return {name: show_amount(name, amount) for name, amount in outcome.allocated.items()}


def _is_said(conditions: list[Mapping[str, Any]], wanted: GroupCondition, phase: PodGroupPhase, now: str) -> bool:
    """Whether the last word is all of `wanted`; one that was said before something else has to be said again.

    Not in the second in which it was said: it would be no later than the other for that.
    """
    last = last_word(conditions, phase)
    said = [one for one in conditions if one is last or one.get("lastTransitionTime") == now]
    words = wanted.type, wanted.reason, wanted.message
    return any((one.get("type"), one.get("reason"), one.get("message") or "") == words for one in said)


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
