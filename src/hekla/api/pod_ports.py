"""Which port of a pod is meant where others speak of it by name: Services, network policies."""

from __future__ import annotations

from hekla.api.kinds import Obj

_TCP = "TCP"


def target_port(pod: Obj, port: Obj) -> int | None:
    """Where a Service's port leads to; None where it names a port that the pod has not."""
    target = port.get("targetPort") or port["port"]
    return target if isinstance(target, int) else named_port(pod, str(target), str(port.get("protocol") or _TCP))


def named_port(pod: Obj, name: str, protocol: str) -> int | None:
    spec = pod["spec"]
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in [*(spec.get("containers") or ()), *sidecars]:
        for port in container.get("ports") or ():
            if port.get("name") == name and str(port.get("protocol") or _TCP) == protocol:
                return int(port["containerPort"])
    return None
