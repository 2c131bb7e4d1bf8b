"""Probes: what they ask for, and what their results mean. Pure; `tending.py` carries them out.

A probe's verdict changes only after so many equal results in a row. Readiness starts as "no", liveness as "yes"; while
a startup probe has not succeeded the other two are not asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hekla.api.kinds import Obj


class ProbeKind(StrEnum):
    STARTUP = "startupProbe"
    READINESS = "readinessProbe"
    LIVENESS = "livenessProbe"

    @property
    def title(self) -> str:  # type: ignore[override]
        return {"startupProbe": "Startup", "readinessProbe": "Readiness", "livenessProbe": "Liveness"}[self]


@dataclass(frozen=True)
class Health:
    """What a running container's probes and hooks say of it."""

    started: bool = True
    ready: bool = True


@dataclass(frozen=True)
class Probe:
    kind: ProbeKind
    handler: Obj
    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3
    grace: float | None = None  # for the container it condemns; None: the pod's


@dataclass(frozen=True)
class Streak:
    """Equal results in a row."""

    success: bool = True
    length: int = 0

    def then(self, success: bool) -> Streak:
        return Streak(success, self.length + 1 if success == self.success else 1)

    def verdict(self, probe: Probe) -> bool | None:
        """None while there is nothing new to say."""
        if self.success:
            return True if self.length >= probe.successes else None
        return False if self.length >= probe.failures else None


def read_probes(container: Obj) -> dict[ProbeKind, Probe]:
    """The probes of a container that this node can carry out."""
    found = {}
    for kind in ProbeKind:
        written = container.get(kind)
        if written and not written.get("grpc"):
            found[kind] = _read(kind, written)
    return found


def initial_health(container: Obj) -> Health:
    """Of a container that has just been started."""
    probes = read_probes(container)
    started = ProbeKind.STARTUP not in probes and not (container.get("lifecycle") or {}).get("postStart")
    return Health(started=started, ready=started and ProbeKind.READINESS not in probes)


def _read(kind: ProbeKind, written: Obj) -> Probe:
    grace = written.get("terminationGracePeriodSeconds")
    return Probe(
        kind=kind,
        handler=written,
        initial_delay=float(written.get("initialDelaySeconds") or 0),
        period=float(written.get("periodSeconds") or 10),
        timeout=float(written.get("timeoutSeconds") or 1),
        successes=int(written.get("successThreshold") or 1),
        failures=int(written.get("failureThreshold") or 3),
        grace=None if grace is None else float(grace),
    )
