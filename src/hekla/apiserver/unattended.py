"""Kinds that this server keeps and that nobody acts on: whoever creates one is told, rather than left to wait."""

from __future__ import annotations

from hekla.api.kinds import (
    BATCH_CRON_JOB,
    BATCH_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    LIMIT_RANGE,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)

_UNATTENDED = frozenset(
    {BATCH_CRON_JOB, BATCH_JOB, DAEMON_SET, DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET}
)
# What limits others; a cluster's own controllers would count for it, or its API server apply it.
_TOOTHLESS = {
    LIMIT_RANGE: "nobody acts on a LimitRange here: pods get no defaults or limits from it",
}


def unattended_warnings(kind: Kind) -> list[str]:
    """What to say to the one who creates an object of this kind; usually nothing."""
    if kind in _TOOTHLESS:
        return [_TOOTHLESS[kind]]
    if kind not in _UNATTENDED:
        return []
    remedy = f"a Job of {JOB.api_version} runs pods"
    return [f"nobody acts on a {kind.kind} of {kind.api_version} here, and no pod comes of it; {remedy}"]
