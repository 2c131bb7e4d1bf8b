"""Words of the core API that more than one component uses."""

from __future__ import annotations

from enum import StrEnum

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
HOSTNAME_LABEL = "kubernetes.io/hostname"
DEFAULT_SCHEDULER = "default-scheduler"


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


FINISHED_POD_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
