"""Why something waits: the codes people see in lists, in `why` and on PodGroups. One table for all of them.

The scheduler writes the code of a waiting group into an annotation of its PodGroup; the conditions keep upstream's
words, which know one reason only. `docs/reasons.md` says what to do about each.
"""

from __future__ import annotations

from enum import StrEnum

REASON_ANNOTATION = "hekla.dev/waiting-reason"
MESSAGE_ANNOTATION = "hekla.dev/waiting-message"


class Reason(StrEnum):
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    NO_NODE_MATCHES = "NoNodeMatches"
    GANG_NOT_COMPLETE = "GangNotComplete"
    QUEUE_OVER_QUOTA = "QueueOverQuota"
    QUEUE_NOT_OPEN = "QueueNotOpen"
    QUEUE_UNUSABLE = "QueueUnusable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    WAITING_FOR_ROOM = "WaitingForRoom"
    WAITING_FOR_GATE = "WaitingForGate"
    WAITING_FOR_VOLUME = "WaitingForVolume"
    WAITING_FOR_DEPENDENCY = "WaitingForDependency"
    WAITING_FOR_PREDECESSOR = "WaitingForPredecessor"
    WAITING_FOR_SCHEDULER = "WaitingForScheduler"
    PLUGIN_FAILED = "PluginFailed"
    JOB_PLUGIN_FAILED = "JobPluginFailed"
    UNSUPPORTED = "Unsupported"
