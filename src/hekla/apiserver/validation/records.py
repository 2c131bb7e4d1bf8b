"""Events and Leases: what comes by the thousand is asked little."""

from __future__ import annotations

from hekla.api.field import Problem, invalid
from hekla.api.field_rules import no_less_than_zero
from hekla.api.kinds import Obj


def validate_event(event: Obj) -> list[Problem]:
    """It lies beside what it is about; what has no namespace has its events in the first one.

    Newer ones, which tell their time to the microsecond, may lie in any other, and in the system's.
    """
    namespace = event["metadata"].get("namespace") or ""
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    if event.get("eventTime"):
        right = bool(about) or namespace in ("default", "kube-system")
    else:
        right = about == namespace or (not about and namespace == "default")
    return [] if right else [invalid("involvedObject.namespace", about, "does not match event.namespace")]


def validate_lease(lease: Obj) -> list[Problem]:
    spec = lease.get("spec") or {}
    problems = no_less_than_zero(spec, "leaseTransitions", "spec")
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        problems.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return problems
