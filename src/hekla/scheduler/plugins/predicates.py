"""Which nodes a pod accepts and which accept it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hekla.api.meta import Key
from hekla.api.reasons import Reason
from hekla.scheduler.arrays.resources import Flags
from hekla.scheduler.attachments import Attachments
from hekla.scheduler.company import Company, SpreadRule
from hekla.scheduler.extension import Argument, NodeFilter, SchedulerPlugin
from hekla.scheduler.fit import Refusal
from hekla.scheduler.matching import matches
from hekla.scheduler.neighbours import shunned_by_others, too_uneven, with_shunned, without_label, without_sought
from hekla.scheduler.rows import Constraints, Node, Taint, Toleration
from hekla.scheduler.session import GroupState, PodClass, Session

_UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_REPELLING = ("NoSchedule", "NoExecute")
_UNEVEN = "node(s) didn't match pod topology spread constraints"


class Predicates(SchedulerPlugin, NodeFilter):
    """Selectors, taints, cordons, host ports, the company of other pods; kube-scheduler's words for each refusal."""

    BY_CONSTRAINTS: ClassVar[bool] = True

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
        "volumebinding.bindTimeoutSeconds": Argument(int, 600),
        # parity: in upstream's files, and without effect: nodes are not scored by volumes, claims of devices not known.
        "volumebinding.weight": Argument(int, 1),
        "volumebinding.shape": Argument(list, None),
        "predicate.DynamicResourceAllocationEnable": Argument(bool, False),
        "dynamicresources.filterTimeoutSeconds": Argument(int, 10),
    }

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        nodes = session.snapshot.nodes
        self._settled: dict[int, list[Refusal]] = {}
        self._nodes, self._cordoned, self._tainted = nodes.rows, nodes.cordoned, nodes.tainted
        session.hold_slots()
        session.volume_seconds = float(arguments["volumebinding.bindTimeoutSeconds"])
        self._attachments: Attachments | None = None
        if session.snapshot.storage.claims:
            if session.snapshot.storage.limits and arguments["predicate.NodeVolumeLimitsEnable"]:
                self._attachments = Attachments(session.snapshot)
            session.movers.append(self._note_volumes)

    def refusals(self, of: PodClass) -> Sequence[Refusal]:
        constraints = self.session.constraints(of)
        if id(constraints) not in self._settled:
            self._settled[id(constraints)] = self._by_node_alone(constraints)
        found = list(self._settled[id(constraints)])
        if self.arguments["predicate.NodePortsEnable"] and constraints.ports:
            text = "node(s) didn't have free ports for the requested pod ports"
            self._add(found, text, self._ports_taken(constraints), final=False)
        # The order is that in which they are told: of a node nothing is told after what is final.
        company = (constraints.company or Company()) if self.session.is_social(of) else None
        if company is not None and self.arguments["predicate.PodAffinityEnable"]:
            self._add_by_affinity(found, company, of.kin)
        if of.claims:
            if self.arguments["predicate.VolumeZoneEnable"] or self.arguments["predicate.VolumeBindingEnable"]:
                self._add_by_what_claims_lack(found, of.claims)
            self._add_by_place_of_volumes(found, of.claims)
        if company is not None and self.arguments["predicate.PodTopologySpreadEnable"]:
            self._add_by_spread(found, constraints, company)
        if of.claims and self.arguments["predicate.VolumeBindingEnable"]:
            self._add_by_binding(found, of.claims)
        return found

    def most_per_node(self, of: PodClass) -> int | None:
        ports = self.session.constraints(of).ports
        return 1 if ports and self.arguments["predicate.NodePortsEnable"] else None

    def _by_node_alone(self, constraints: Constraints) -> list[Refusal]:
        """What the pods on the nodes have nothing to do with."""
        found: list[Refusal] = []
        self._add(found, "node(s) were unschedulable", self._cordoned_for(constraints))
        if self.arguments["predicate.NodeAffinityEnable"] and (constraints.selector or constraints.terms is not None):
            refused = [line for line, node in enumerate(self._nodes) if not accepts(constraints, node)]
            self._add(found, "node(s) didn't match Pod's node affinity/selector", refused)
        if self.arguments["predicate.TaintTolerationEnable"]:
            self._add(found, "node(s) had untolerated taint(s)", self._repelling(constraints.tolerations))
        for name in constraints.unsupported:
            text = f"node(s) cannot be judged: {name} is not supported yet"
            found.append(Refusal(text, Reason.UNSUPPORTED, self._all_nodes(), of_pod=True))
        return found

    def _add_by_what_claims_lack(self, found: list[Refusal], claims: Sequence[Key]) -> None:
        """Claims that nobody's node will settle are waited for."""
        for text in filter(None, map(self._missing, claims)):
            found.append(Refusal(text, Reason.WAITING_FOR_VOLUME, self._all_nodes(), of_pod=True))

    def _add_by_place_of_volumes(self, found: list[Refusal], claims: Sequence[Key]) -> None:
        if self._attachments is not None:
            self._mark(found, "node(s) exceed max volume count", self._attachments.full(claims), final=False)
        if self.arguments["predicate.VolumeZoneEnable"]:
            self._mark(found, "node(s) had no available volume zone", self.session.volumes.out_of_zone(claims))

    def _add_by_binding(self, found: list[Refusal], claims: Sequence[Key]) -> None:
        """Volumes that are bound are where they are; others are looked for."""
        volumes = self.session.volumes
        self._mark(found, "node(s) didn't match PersistentVolume's node affinity", volumes.out_of_reach(claims))
        text = "node(s) didn't find available persistent volumes to bind"
        self._mark(found, text, volumes.without_volume(claims))

    def _missing(self, key: Key) -> str:
        """What has to be there before any node can be judged."""
        storage = self.session.snapshot.storage
        claim = storage.claims.get(key)
        if claim is None:
            return f'persistentvolumeclaim "{key.name}" not found'
        if not claim.volume:
            waits = self.session.volumes.is_open([key])
            return "" if waits else "pod has unbound immediate PersistentVolumeClaims"
        if claim.volume not in storage.volumes:
            return "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
        return ""

    def _note_volumes(self, state: GroupState, positions: Sequence[int], lines: Sequence[int], sign: int) -> None:
        if not state.group.has_claims:
            return
        for position, line in zip(positions, lines):
            pod = state.group.pods[position]
            if self._attachments is not None:
                self._attachments.move(pod, line, sign)
            if sign > 0:
                self.session.volumes.take(pod.claim_keys, line)
            else:
                self.session.volumes.give_back(pod.claim_keys)

    def _add_by_affinity(self, found: list[Refusal], company: Company, kin: int) -> None:
        """A node is told the first of the three."""
        crowd, nodes = self.session.crowd, len(self._nodes)
        lonely = without_sought(crowd, company) if company.sought else np.zeros(nodes, dtype=bool)
        near = with_shunned(crowd, company, nodes) & ~lonely
        unwelcome = shunned_by_others(crowd, kin, nodes) & ~lonely & ~near
        self._mark(found, "node(s) didn't match pod affinity rules", lonely)
        self._mark(found, "node(s) didn't match pod anti-affinity rules", near, final=False)
        self._mark(found, "node(s) didn't satisfy existing pods anti-affinity rules", unwelcome, final=False)

    def _add_by_spread(self, found: list[Refusal], constraints: Constraints, company: Company) -> None:
        """A node is told of the first rule it breaks."""
        crowd, nodes = self.session.crowd, len(self._nodes)
        rules = [rule for rule in company.spread if rule.hard]
        if not rules:
            return
        placeless = without_label(crowd, rules, nodes)
        missing, uneven = np.zeros(nodes, dtype=bool), np.zeros(nodes, dtype=bool)
        for rule in rules:
            eligible = ~placeless & counted_nodes(self.session, constraints, rule)
            missing |= without_label(crowd, [rule], nodes) & ~uneven
            uneven |= too_uneven(crowd, rule, eligible) & ~missing
        self._mark(found, f"{_UNEVEN} (missing required label)", missing)
        self._mark(found, _UNEVEN, uneven, final=False)

    def _mark(self, found: list[Refusal], text: str, nodes: Flags, *, final: bool = True) -> None:
        if nodes.any():
            found.append(Refusal(text, Reason.NO_NODE_MATCHES, nodes, final))

    def _cordoned_for(self, constraints: Constraints) -> Sequence[int]:
        if self._cordoned and tolerates(constraints.tolerations, _UNSCHEDULABLE_TAINT):
            return ()
        return self._cordoned

    def _repelling(self, tolerations: tuple[Toleration, ...]) -> list[int]:
        return [line for line in self._tainted if is_repelled(tolerations, self._nodes[line])]

    def _ports_taken(self, constraints: Constraints) -> list[int]:
        return [
            line
            for line, held in sorted(self.session.ports.items())
            if any(port.conflicts(other) for port in constraints.ports for other in held)
        ]

    def _add(self, found: list[Refusal], text: str, lines: Sequence[int], *, final: bool = True) -> None:
        if len(lines):
            nodes: Flags = np.zeros(len(self._nodes), dtype=bool)
            nodes[list(lines)] = True
            found.append(Refusal(text, Reason.NO_NODE_MATCHES, nodes, final))

    def _all_nodes(self) -> Flags:
        return np.ones(len(self._nodes), dtype=bool)


def counted_nodes(session: Session, constraints: Constraints, rule: SpreadRule) -> Flags:
    """Nodes whose pods count for a spread rule: those the pod itself could be on, as far as the rule cares."""
    chooses = rule.honours_affinity and (bool(constraints.selector) or constraints.terms is not None)
    key = (counted_nodes, id(constraints) if chooses or rule.honours_taints else None, chooses, rule.honours_taints)
    known: Flags | None = session.memo.get(key)
    if known is not None:
        return known
    counted: Flags = np.ones(len(session.snapshot.nodes), dtype=bool)
    for line, node in enumerate(session.snapshot.nodes.rows) if chooses or rule.honours_taints else ():
        if chooses and not accepts(constraints, node):
            counted[line] = False
        if rule.honours_taints and is_repelled(constraints.tolerations, node):
            counted[line] = False
    session.memo[key] = counted
    return counted


def is_repelled(tolerations: Sequence[Toleration], node: Node) -> bool:
    return any(taint.effect in _REPELLING and not tolerates(tolerations, taint) for taint in node.taints)


def accepts(constraints: Constraints, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in constraints.selector):
        return False
    return constraints.terms is None or any(matches(term, node) for term in constraints.terms)


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
