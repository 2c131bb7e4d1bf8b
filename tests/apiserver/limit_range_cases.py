"""What LimitRanges give to pods and keep from them: cases that our server and a real one are both held to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hekla.api.kinds import Obj
from tests.apiserver.quota_cases import claim, pod

NOTE = "kubernetes.io/limit-ranger"


@dataclass(frozen=True)
class Case:
    """Either it is told something, or it has this note and these resources, container by container."""

    name: str
    limits: list[Obj]
    obj: Obj
    told: str = ""
    note: str = ""
    resources: list[Obj] = field(default_factory=list)


def of(type_: str, **bounds: Any) -> list[Obj]:
    return [{"type": type_, **bounds}]


def both(amount: str, name: str = "cpu") -> Obj:
    return {"limits": {name: amount}, "requests": {name: amount}}


_INIT = [{"name": "first", "image": "none:1"}]
CASES = [
    Case(
        "defaults",
        of("Container", default={"cpu": "500m"}, defaultRequest={"cpu": "100m", "memory": "64Mi"}),
        pod("p", initContainers=_INIT),
        note=(
            "LimitRanger plugin set: cpu, memory request for container main; cpu limit for container main; "
            "cpu, memory request for init container first; cpu limit for init container first"
        ),
        resources=[{"limits": {"cpu": "500m"}, "requests": {"cpu": "100m", "memory": "64Mi"}}] * 2,
    ),
    Case(
        "a-default-is-a-request-too",
        of("Container", default={"memory": "1Gi"}),
        pod("p"),
        note="LimitRanger plugin set: memory request for container main; memory limit for container main",
        resources=[both("1Gi", "memory")],
    ),
    Case("the-most-is-a-default", of("Container", max={"cpu": "2"}), pod("p"),
         note="LimitRanger plugin set: cpu request for container main; cpu limit for container main",
         resources=[both("2")]),
    Case("what-is-said-stays", of("Container", default={"cpu": "2"}), pod("p", {"cpu": "1"}, {"cpu": "1"}),
         resources=[both("1")]),
    Case("a-limit-is-a-request-before-there-are-defaults", of("Container", defaultRequest={"cpu": "100m"}),
         pod("p", None, {"cpu": "1"}), resources=[both("1")]),
    Case("too-much", of("Container", max={"cpu": "1"}), pod("p", {"cpu": "1"}, {"cpu": "1500m"}),
         "maximum cpu usage per Container is 1, but limit is 1500m"),
    Case("too-little", of("Container", min={"memory": "1Gi"}), pod("p", {"memory": "512Mi"}),
         "minimum memory usage per Container is 1Gi, but request is 512Mi"),
    Case("the-least-is-asked-for-by-default", of("Container", min={"memory": "1Gi"}), pod("p"),
         note="LimitRanger plugin set: memory request for container main",
         resources=[{"requests": {"memory": "1Gi"}}]),
    Case("too-far-apart", of("Container", maxLimitRequestRatio={"cpu": "2"}), pod("p", {"cpu": "300m"}, {"cpu": "1"}),
         "cpu max limit to request ratio per Container is 2, but provided ratio is 3.333333"),
    Case("nothing-to-compare", of("Container", maxLimitRequestRatio={"cpu": "2"}), pod("p", {"cpu": "300m"}),
         "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"),
    Case("nor-this", of("Container", maxLimitRequestRatio={"memory": "2"}), pod("p"),
         "memory max limit to request ratio per Container is 2, but no request is specified or request is 0"),
    Case("an-init-container", of("Container", max={"cpu": "1"}),
         pod("p", initContainers=[{**_INIT[0], "resources": {"limits": {"cpu": "3"}}}]),
         "maximum cpu usage per Container is 1, but limit is 3"),
    Case("several-things", of("Container", max={"cpu": "1"}, min={"memory": "1Gi"}),
         pod("p", {"cpu": "2", "memory": "1Mi"}, {"cpu": "2"}),
         "[minimum memory usage per Container is 1Gi, but request is 1Mi, "
         "maximum cpu usage per Container is 1, but limit is 2]"),
    Case("a-pod-without-limit", of("Pod", max={"cpu": "1"}), pod("p", {"cpu": "500m"}),
         "maximum cpu usage per Pod is 1.  No limit is specified"),
    Case("a-pod-without-request", of("Pod", min={"cpu": "1"}), pod("p"),
         "minimum cpu usage per Pod is 1.  No request is specified"),
    Case("a-pod-in-all", of("Pod", max={"cpu": "1"}),
         pod("p", {"cpu": "200m"}, {"cpu": "900m"},
             initContainers=[{**_INIT[0], "restartPolicy": "Always", "resources": {"limits": {"cpu": "200m"}}}]),
         "maximum cpu usage per Pod is 1, but limit is 1100m"),
    Case("a-pod-too-far-apart", of("Pod", maxLimitRequestRatio={"memory": "1.5"}),
         pod("p", {"memory": "1Gi"}, {"memory": "2Gi"}),
         "memory max limit to request ratio per Pod is 1500m, but provided ratio is 2.000000"),
    Case("a-claim-too-large", of("PersistentVolumeClaim", max={"storage": "2Gi"}), claim("c", "3Gi"),
         "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
    Case("a-claim-too-small", of("PersistentVolumeClaim", min={"storage": "2Gi"}), claim("c", "1Gi"),
         "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
    Case("a-claim-that-fits", of("PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "1Gi"}),
         claim("c", "1Gi"), resources=[]),
    Case("bounds-of-others", of("Pod", max={"cpu": "1"}), claim("c", "1Gi"), resources=[]),
]  # fmt: skip


def limit_range(limits: list[Obj], name: str = "r") -> Obj:
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": limits}}


def shape(made: Obj) -> tuple[str, list[Obj]]:
    """The note, and what the containers may use; nothing of a claim."""
    spec = made["spec"]
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    note = (made["metadata"].get("annotations") or {}).get(NOTE, "")
    return note, [container.get("resources") or {} for container in containers]
