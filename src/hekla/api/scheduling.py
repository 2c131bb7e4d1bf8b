"""Words of scheduling.volcano.sh: PodGroup and Queue phases, condition types and reasons, keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

GROUP_NAME = "scheduling.k8s.io/group-name"
QUEUE_NAME_ANNOTATION = "scheduling.volcano.sh/queue-name"
BARE_GROUP_PREFIX = "podgroup-"
# The name of a scheduling gate, and of the annotation by which a pod asks to be held back by it.
QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"


# The `action` of an Event about a group that has been let in, or has had pods placed: nothing is wrong with it.
GROUP_STEP = "Step"


class PodGroupPhase(StrEnum):
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class PodGroupCondition(StrEnum):
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULED = "Scheduled"


class PodGroupReason(StrEnum):
    POD_FAILED = "PodFailed"
    POD_DELETED = "PodDeleted"
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    NOT_ENOUGH_TASKS = "NotEnoughTasks"
    NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"


class QueueState(StrEnum):
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


def last_word(conditions: Iterable[Mapping[str, Any]], phase: str | None) -> Mapping[str, Any] | None:
    """Which of a PodGroup's conditions holds; they stay when the other has become true.

    Of two of one second it is the one that the phase bears out.
    """
    runs = phase in (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED)
    said = (one for one in conditions if one.get("status") == "True")
    return max(said, key=lambda one: (str(one.get("lastTransitionTime") or ""), is_good(one) == runs), default=None)


def is_good(condition: Mapping[str, Any]) -> bool:
    return bool(condition.get("type") == PodGroupCondition.SCHEDULED)
