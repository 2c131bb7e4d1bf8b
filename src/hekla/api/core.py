"""Words of the core API that more than one component uses."""

from __future__ import annotations

from enum import StrEnum

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
NODE_NOTES = "hekla.dev/notes"  # annotation: what the node's machine does not allow, one sentence a line
POD_USED = "hekla.dev/Used"  # pod condition: what each container has used until it ended, as JSON (node/status.py)
HOSTNAME_LABEL = "kubernetes.io/hostname"
DEFAULT_SCHEDULER = "default-scheduler"


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


FINISHED_POD_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})

# How pods of a local cluster reach the API server: the Service `kubernetes`, its address and its names.
API_SERVICE = "kubernetes"
API_SERVICE_ADDRESS = "10.96.0.1"
API_SERVICE_NAMES = tuple(API_SERVICE + rest for rest in ("", ".default", ".default.svc", ".default.svc.cluster.local"))

# Secrets that hold a service account's token, and how they name their account.
ACCOUNT_TOKEN_SECRET = "kubernetes.io/service-account-token"  # noqa: S105 - a type
ACCOUNT_NAME_ANNOTATION = "kubernetes.io/service-account.name"
ACCOUNT_UID_ANNOTATION = "kubernetes.io/service-account.uid"
