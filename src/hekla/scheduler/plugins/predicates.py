"""Which nodes a pod accepts and which accept it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hekla.scheduler.arrays.resources import Flags
from hekla.scheduler.extension import Argument, NodeFilter, SchedulerPlugin
from hekla.scheduler.fit import Reason, Refusal
from hekla.scheduler.rows import Constraints, Node, Taint, Term, Toleration
from hekla.scheduler.session import Session

_UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_REPELLING = ("NoSchedule", "NoExecute")


class Predicates(SchedulerPlugin, NodeFilter):
    """Node selectors and affinity, taints, cordons and host ports, with kube-scheduler's words for each refusal."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        "predicate.NodeAffinityEnable": Argument(bool, True),
        "predicate.NodePortsEnable": Argument(bool, True),
        "predicate.TaintTolerationEnable": Argument(bool, True),
        "predicate.PodAffinityEnable": Argument(bool, True),
        "predicate.NodeVolumeLimitsEnable": Argument(bool, True),
        "predicate.VolumeZoneEnable": Argument(bool, True),
        "predicate.PodTopologySpreadEnable": Argument(bool, True),
        "predicate.VolumeBindingEnable": Argument(bool, True),
        "predicate.CacheEnable": Argument(bool, False),
    }

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        nodes = session.snapshot.nodes
        self._nodes, self._cordoned, self._tainted = nodes.rows, nodes.cordoned, nodes.tainted

    def refusals(self, constraints: Constraints) -> Sequence[Refusal]:
        found: list[Refusal] = []
        self._add(found, "node(s) were unschedulable", self._cordoned_for(constraints))
        if self.arguments["predicate.NodeAffinityEnable"] and (constraints.selector or constraints.terms is not None):
            refused = [line for line, node in enumerate(self._nodes) if not accepts(constraints, node)]
            self._add(found, "node(s) didn't match Pod's node affinity/selector", refused)
        if self.arguments["predicate.TaintTolerationEnable"]:
            self._add(found, "node(s) had untolerated taint(s)", self._repelling(constraints.tolerations))
        if self.arguments["predicate.NodePortsEnable"] and constraints.ports:
            text = "node(s) didn't have free ports for the requested pod ports"
            self._add(found, text, self._ports_taken(constraints), final=False)
        for name in self._unsupported(constraints):
            text = f"node(s) cannot be judged: {name} is not supported yet"
            self._add(found, text, range(len(self._nodes)), Reason.UNSUPPORTED)
        return found

    def most_per_node(self, constraints: Constraints) -> int | None:
        return 1 if constraints.ports and self.arguments["predicate.NodePortsEnable"] else None

    def _unsupported(self, constraints: Constraints) -> list[str]:
        off = {
            "affinity.podAffinity": "predicate.PodAffinityEnable",
            "affinity.podAntiAffinity": "predicate.PodAffinityEnable",
            "topologySpreadConstraints": "predicate.PodTopologySpreadEnable",
        }
        return [name for name in constraints.unsupported if name not in off or self.arguments[off[name]]]

    def _cordoned_for(self, constraints: Constraints) -> Sequence[int]:
        if self._cordoned and tolerates(constraints.tolerations, _UNSCHEDULABLE_TAINT):
            return ()
        return self._cordoned

    def _repelling(self, tolerations: tuple[Toleration, ...]) -> list[int]:
        return [
            line
            for line in self._tainted
            if any(
                taint.effect in _REPELLING and not tolerates(tolerations, taint) for taint in self._nodes[line].taints
            )
        ]

    def _ports_taken(self, constraints: Constraints) -> list[int]:
        return [
            line
            for line, held in sorted(self.session.ports.items())
            if any(port.conflicts(other) for port in constraints.ports for other in held)
        ]

    def _add(
        self,
        found: list[Refusal],
        text: str,
        lines: Sequence[int],
        reason: Reason = Reason.NO_NODE_MATCHES,
        *,
        final: bool = True,
    ) -> None:
        if len(lines):
            nodes: Flags = np.zeros(len(self._nodes), dtype=bool)
            nodes[list(lines)] = True
            found.append(Refusal(text, reason, nodes, final))


def accepts(constraints: Constraints, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in constraints.selector):
        return False
    return constraints.terms is None or any(matches(term, node) for term in constraints.terms)


def matches(term: Term, node: Node) -> bool:
    """A term that asks for nothing matches nothing."""
    if not term.labels and not term.names:
        return False
    return term.labels.matches(node.labels) and term.names.matches({"metadata.name": node.name})


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
