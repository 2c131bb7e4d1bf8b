"""Kinds that this server keeps and that nobody acts on: whoever creates one is told, rather than left to wait."""

from __future__ import annotations

from hekla.api.kinds import (
    BATCH_CRON_JOB,
    BATCH_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)

_UNATTENDED = frozenset(
    {BATCH_CRON_JOB, BATCH_JOB, DAEMON_SET, DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET}
)


def unattended_warnings(kind: Kind) -> list[str]:
    """What to say to the one who creates an object of this kind; usually nothing."""
    if kind not in _UNATTENDED:
        return []
    remedy = f"a Job of {JOB.api_version} runs pods"
    return [f"nobody acts on a {kind.kind} of {kind.api_version} here, and no pod comes of it; {remedy}"]
