"""From wire objects to rows: the scheduler's edge, the only place that knows how objects of the API look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from hekla.api.devices import GPU_MEMORY, GPU_NUMBER, UNHEALTHY_GPUS, read_indexes
from hekla.api.duration import parse_duration
from hekla.api.kinds import JOB, Obj
from hekla.api.meta import annotations_of, controller_of, key_of, labels_of, parse_timestamp, revision_of, uid_of
from hekla.api.quantity import InvalidQuantity, milli, parse, whole
from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.api.scheduling import PodGroupPhase, QueueState
from hekla.api.selector import Operator, Requirement, Selector, label_selector_from
from hekla.scheduler.arrays.resources import CPU, MEMORY, PODS
from hekla.scheduler.company import Company, read_company
from hekla.scheduler.rows import (
    Amounts,
    Budget,
    Constraints,
    HostPort,
    Node,
    NodeCards,
    NodeGroups,
    PodGroup,
    Queue,
    Quota,
    Shape,
    SubgroupPolicy,
    Taint,
    Term,
    Toleration,
)

WAITING_TIME = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
TASK_TOPOLOGY = (
    "volcano.sh/task-topology-affinity",
    "volcano.sh/task-topology-anti-affinity",
    "volcano.sh/task-topology-task-order",
)
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
NODE_GROUP_LIMITS = "volcano.sh/nodegroup-resource-limits"
# What a node lends out of what its pods asked for and do not use, in stored units.
OVERSUBSCRIPTION = ((CPU, "volcano.sh/oversubscription-cpu"), (MEMORY, "volcano.sh/oversubscription-memory"))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# What a scorer assumes of a container that asks for nothing: kube-scheduler's own figures.
ASSUMED_CPU = 100.0
ASSUMED_MEMORY = 200.0 * 1024 * 1024
_MOST_CARDS = 256  # what a node with more says of cards is not believed; all else it says is


def read_amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """A resource list in stored units; names the scheduler does not account are dropped."""
    amounts: Amounts = {}
    for name, quantity in (resources or {}).items():
        try:
            if name in (MEMORY, PODS):
                amounts[name] = float(whole(quantity))
            elif name == CPU or _is_scalar(name):
                amounts[name] = float(milli(quantity))
        except (InvalidQuantity, TypeError, OverflowError):
            raise ValueError(f"{name}: {quantity!r} is not an amount") from None
    return amounts


def read_labels(obj: Obj) -> Mapping[str, str]:
    labels = labels_of(obj)
    for name, value in labels.items():
        if not isinstance(value, str):
            raise ValueError(f"label {name}: {value!r} is not text")
    return labels


def read_node(obj: Obj) -> Node:
    spec = obj.get("spec") or {}
    taints = tuple(
        Taint(str(taint.get("key", "")), str(taint.get("value") or ""), str(taint.get("effect", "")))
        for taint in spec.get("taints") or ()
    )
    allocatable = read_amounts((obj.get("status") or {}).get("allocatable"))
    for name, amount in allocatable.items():
        if amount < 0:
            # It would count against what the other nodes have.
            raise ValueError(f"{name}: a node cannot have less than nothing")
    for name, annotation in OVERSUBSCRIPTION:
        _add(allocatable, {name: _lent(annotations_of(obj).get(annotation, ""))})
    return Node(
        name=obj["metadata"]["name"],
        uid=uid_of(obj),
        labels=read_labels(obj),
        taints=taints,
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=allocatable,
        cards=_read_cards(obj),
    )


def _lent(text: str) -> float:
    """parity: what is no number is nothing."""
    try:
        amount = float(text)
    except ValueError:
        return 0.0
    return float(int(amount)) if 0 <= amount < math.inf else 0.0


def _read_cards(obj: Obj) -> NodeCards | None:
    """From what the node has, not from what of it can be given away: cards do not shrink where one of them is ill."""
    status = obj.get("status") or {}
    names = (GPU_MEMORY, GPU_NUMBER)
    total = read_amounts(_only(status.get("capacity"), names) or _only(status.get("allocatable"), names))
    number = int(total.get(GPU_NUMBER, 0.0) // 1000)
    if not 0 < number <= _MOST_CARDS:
        return None
    ill = read_indexes(annotations_of(obj).get(UNHEALTHY_GPUS, ""))
    # Where nothing is said of memory, cards can be had as a whole.
    size = total.get(GPU_MEMORY, 0.0) // (1000 * number) * 1000 or 1.0
    return NodeCards(size, tuple(card for card in range(number) if card not in ill))


def _only(amounts: Mapping[str, Any] | None, names: Iterable[str]) -> dict[str, Any]:
    return {name: amounts[name] for name in names if amounts and name in amounts}


def read_queue(obj: Obj) -> Queue:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    weight = spec.get("weight")
    return Queue(
        name=obj["metadata"]["name"],
        uid=uid_of(obj),
        weight=1 if weight is None else int(weight),
        priority=int(spec.get("priority") or 0),
        # A queue whose controller has not looked at it yet is open.
        state=QueueState(status.get("state") or QueueState.OPEN),
        created=_seconds(obj["metadata"]),
        parent=str(spec.get("parent") or ""),
        reclaimable=spec.get("reclaimable") is not False,
        capability=read_amounts(spec.get("capability")),
        guarantee=read_amounts((spec.get("guarantee") or {}).get("resource")),
        deserved=read_amounts(spec.get("deserved")),
        allocated=status.get("allocated"),
        node_groups=_read_node_groups(spec.get("affinity") or {}),
        node_group_limits=_read_group_limits(annotations_of(obj).get(NODE_GROUP_LIMITS, "")),
        hierarchy=_read_hierarchy(annotations_of(obj)),
        revision=revision_of(obj),
    )


def _read_hierarchy(annotations: Mapping[str, str]) -> tuple[tuple[str, float], ...]:
    names = annotations.get(HIERARCHY, "").split("/")[1:]
    weights = annotations.get(HIERARCHY_WEIGHTS, "").split("/")[1:]
    weights += [""] * (len(names) - len(weights))
    return tuple((name, _weight(weight)) for name, weight in zip(names, weights))


def _weight(text: str) -> float:
    """parity: what is no number, or below one, counts as one."""
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if 1.0 <= weight < math.inf else 1.0


def read_budget(obj: Obj) -> Budget:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return Budget(
        key=key_of(obj),
        selector=label_selector_from(spec.get("selector")),
        allowed=int(status.get("disruptionsAllowed") or 0),
        disrupted=tuple(sorted(status.get("disruptedPods") or ())),
    )


def read_quota(obj: Obj) -> Quota:
    status = obj.get("status") or {}
    return Quota(key_of(obj), _quantities(status.get("hard")), _quantities(status.get("used")))


def read_group(obj: Obj, default_queue: str) -> PodGroup:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    resources = spec.get("minResources")
    roles = spec.get("minTaskMember") or {}
    return PodGroup(
        key=key_of(obj),
        uid=uid_of(obj),
        queue=str(spec.get("queue") or default_queue),
        min_member=int(spec.get("minMember") or 0),
        min_of_role=tuple(sorted((str(role), int(count)) for role, count in roles.items())),
        min_resources=None if resources is None else read_amounts(resources),
        min_quantities=_quantities(resources),
        waiting_time=_waiting_time(annotations_of(obj)),
        task_topology=_task_topology(annotations_of(obj)),
        priority_class=str(spec.get("priorityClassName") or ""),
        created=_seconds(obj["metadata"]),
        phase=PodGroupPhase(status.get("phase") or PodGroupPhase.PENDING),
        unsupported=_unsupported_group_fields(spec),
        status=status,
        subgroup_policies=tuple(map(_read_subgroup_policy, spec.get("subGroupPolicy") or ())),
        has_topology=bool(_topologies(spec)),
        waiting=_waiting(annotations_of(obj)),
        of_job=_is_of_job(obj),
        tracked_in_vain=_is_tracked_in_vain(obj),
        revision=revision_of(obj),
    )


def _is_of_job(obj: Obj) -> bool:
    owner = controller_of(obj)
    return owner is not None and JOB.owns_reference(owner)


def _is_tracked_in_vain(obj: Obj) -> bool:
    """Whether the server records who wrote which field of something that a controller made.

    The record serves those who apply objects, and nobody applies this one; without it a write costs a real server half
    as much.
    """
    managers = obj["metadata"].get("managedFields") or ()
    if not managers or controller_of(obj) is None:
        return False
    return all(one.get("operation") != "Apply" for one in managers)


class Shapes:
    """Interns shapes and constraints. Nothing refers to a shape no pod has any more, so `keep` drops the rest."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[bytes, Company | None, tuple[str, str]], Shape] = {}
        self._constraints: dict[tuple[bytes, Company | None], Constraints] = {}

    def shape_of(
        self,
        spec: Obj,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        strategy: tuple[str, str] = ("", ""),
    ) -> Shape:
        company = read_company(spec, namespace, labels or {})
        key = (_shape_key(spec), company, strategy)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._read(spec, company, strategy)
        return shape

    def keep(self, shapes: Iterable[Shape]) -> None:
        live = {id(shape) for shape in shapes}
        self._shapes = {key: shape for key, shape in self._shapes.items() if id(shape) in live}
        used = {id(shape.constraints) for shape in self._shapes.values()}
        self._constraints = {key: value for key, value in self._constraints.items() if id(value) in used}

    def __len__(self) -> int:
        return len(self._shapes)

    def _read(self, spec: Obj, company: Company | None, strategy: tuple[str, str]) -> Shape:
        request = _pod_request(spec, assume=False)
        assumed = _pod_request(spec, assume=True)
        return Shape(
            request={**{name: amount for name, amount in request.items() if amount > 0}, PODS: 1.0},
            assumed_cpu=assumed.get(CPU, 0.0),
            assumed_memory=assumed.get(MEMORY, 0.0),
            best_effort=not any(amount > 0 for amount in request.values()),
            constraints=self._constraints_of(spec, company),
            strategy=strategy,
        )

    def _constraints_of(self, spec: Obj, company: Company | None) -> Constraints:
        parts = (
            spec.get("nodeSelector") or {},
            (spec.get("affinity") or {}).get("nodeAffinity") or {},
            spec.get("tolerations") or [],
            [_port_key(port) for port in _host_ports(spec)],
            spec.get("resourceClaims") or [],
        )
        key = (msgspec.json.encode(parts, order="deterministic"), company)
        constraints = self._constraints.get(key)
        if constraints is None:
            constraints = self._constraints[key] = _read_constraints(spec, company)
        return constraints


def _quantities(resources: Mapping[str, Any] | None) -> dict[str, Decimal]:
    return {str(name): parse(quantity) for name, quantity in (resources or {}).items()}


def _waiting_time(annotations: Mapping[str, str]) -> float | None:
    """The first of the two annotations that is a duration above zero."""
    for name in WAITING_TIME:
        try:
            seconds = parse_duration(annotations[name])
        except (KeyError, ValueError):
            continue
        if seconds > 0:
            return seconds
    return None


def _task_topology(annotations: Mapping[str, str]) -> tuple[str, str, str]:
    affinity, anti_affinity, order = (annotations.get(name, "") for name in TASK_TOPOLOGY)
    return (affinity, anti_affinity, order)


def _read_node_groups(affinity: Obj) -> NodeGroups | None:
    near, far = affinity.get("nodeGroupAffinity") or {}, affinity.get("nodeGroupAntiAffinity") or {}
    if not near and not far:
        return None
    return NodeGroups(
        required=tuple(map(str, near.get(_REQUIRED) or ())),
        preferred=tuple(map(str, near.get(_PREFERRED) or ())),
        forbidden=tuple(map(str, far.get(_REQUIRED) or ())),
        avoided=tuple(map(str, far.get(_PREFERRED) or ())),
    )


def _read_group_limits(text: str) -> dict[str, Amounts] | None:
    try:
        said = msgspec.json.decode(text or "{}", type=dict[str, dict[str, Any] | None] | None)
        return {group: read_amounts(resources) for group, resources in (said or {}).items()}
    except ValueError:
        return None


def _is_scalar(name: str) -> bool:
    # What only quotas count, beside the resource itself: no node has any of it.
    if name.startswith(("count/", "requests.")):
        return False
    return "/" in name or name == "ephemeral-storage" or name.startswith(("hugepages-", "attachable-volumes-"))


def _waiting(annotations: Mapping[str, str]) -> tuple[str, str]:
    return annotations.get(REASON_ANNOTATION, ""), annotations.get(MESSAGE_ANNOTATION, "")


def _seconds(meta: Mapping[str, Any]) -> float:
    text = meta.get("creationTimestamp")
    return parse_timestamp(text).timestamp() if text else 0.0


def _read_subgroup_policy(item: Obj) -> SubgroupPolicy:
    return SubgroupPolicy(
        name=str(item.get("name") or ""),
        selector=label_selector_from(item.get("labelSelector")) or Selector(()),  # without one: any pod
        keys=tuple(map(str, item.get("matchLabelKeys") or ())),
        size=int(item.get("subGroupSize") or 1),
        minimum=int(item.get("minSubGroups") or 0),
    )


def _unsupported_group_fields(spec: Obj) -> tuple[str, ...]:
    return tuple(path for path, topology in _topologies(spec).items() if topology.get("mode") == "hard")


def _topologies(spec: Obj) -> dict[str, Obj]:
    """By path: what a group and its subgroups say of the network their pods are to share."""
    parts = {"spec": spec}
    for item in spec.get("subGroupPolicy") or ():
        parts[f"spec.subGroupPolicy[{item.get('name') or ''}]"] = item
    found = {f"{path}.networkTopology": part.get("networkTopology") for path, part in parts.items()}
    return {path: topology for path, topology in found.items() if topology is not None}


def _shape_key(spec: Obj) -> bytes:
    parts = [
        [_container_key(container) for container in spec.get("containers") or ()],
        [_container_key(container) for container in spec.get("initContainers") or ()],
        spec.get("overhead"),
        spec.get("resources"),
        spec.get("nodeSelector"),
        (spec.get("affinity") or {}).get("nodeAffinity"),
        spec.get("tolerations"),
        spec.get("resourceClaims"),
    ]
    return msgspec.json.encode(parts, order="deterministic")


def _container_key(container: Obj) -> list[Any]:
    ports = [_port_key(port) for port in container.get("ports") or () if port.get("hostPort")]
    return [(container.get("resources") or {}).get("requests"), container.get("restartPolicy"), ports]


def _port_key(port: Mapping[str, Any]) -> list[Any]:
    return [port.get("hostIP"), port.get("protocol"), port.get("hostPort")]


def _pod_request(spec: Obj, *, assume: bool) -> Amounts:
    """What a pod holds: its containers together, or its hungriest moment of start-up where that is more."""
    running: Amounts = {}
    for container in spec.get("containers") or ():
        _add(running, _container_request(container, assume=assume))
    sidecars: Amounts = {}
    startup: Amounts = {}
    for container in spec.get("initContainers") or ():
        request = _container_request(container, assume=assume)
        if container.get("restartPolicy") == "Always":
            _add(running, request)
            _add(sidecars, request)
        else:
            _add(request, sidecars)
            _raise(startup, request)
    _raise(running, startup)
    running.update(read_amounts((spec.get("resources") or {}).get("requests")))
    _add(running, read_amounts(spec.get("overhead")))
    return running


def _container_request(container: Obj, *, assume: bool) -> Amounts:
    request = read_amounts((container.get("resources") or {}).get("requests"))
    if assume:
        request.setdefault(CPU, ASSUMED_CPU)
        request.setdefault(MEMORY, ASSUMED_MEMORY)
    return request


def _add(total: Amounts, more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount


def _raise(total: Amounts, other: Mapping[str, float]) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, 0.0), amount)


def _host_ports(spec: Obj) -> list[Mapping[str, Any]]:
    """Of the containers that run as long as the pod does: its own, and sidecars."""
    sidecars = [item for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"]
    containers = [*(spec.get("containers") or ()), *sidecars]
    return [port for container in containers for port in container.get("ports") or () if port.get("hostPort")]


def _read_constraints(spec: Obj, company: Company | None) -> Constraints:
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return Constraints(
        selector=tuple(sorted((str(key), str(value)) for key, value in (spec.get("nodeSelector") or {}).items())),
        terms=None if required is None else tuple(map(read_term, required.get("nodeSelectorTerms") or ())),
        preferred=tuple((int(item.get("weight") or 0), read_term(item.get("preference") or {})) for item in preferred),
        tolerations=tuple(map(_read_toleration, spec.get("tolerations") or ())),
        ports=tuple(map(_read_port, _host_ports(spec))),
        company=company,
        unsupported=_unsupported_pod_fields(spec),
    )


def read_term(term: Obj) -> Term:
    return Term(_requirements(term.get("matchExpressions")), _requirements(term.get("matchFields")))


def _requirements(expressions: Iterable[Obj] | None) -> Selector:
    return Selector(
        tuple(
            Requirement(
                str(item.get("key", "")),
                Operator(item.get("operator")),
                tuple(str(value) for value in item.get("values") or ()),
            )
            for item in expressions or ()
        )
    )


def _read_toleration(item: Obj) -> Toleration:
    return Toleration(
        str(item.get("key") or ""),
        str(item.get("operator") or "Equal"),
        str(item.get("value") or ""),
        str(item.get("effect") or ""),
    )


def _read_port(port: Mapping[str, Any]) -> HostPort:
    return HostPort(str(port.get("hostIP") or "0.0.0.0"), str(port.get("protocol") or "TCP"), int(port["hostPort"]))


def _unsupported_pod_fields(spec: Obj) -> tuple[str, ...]:
    """Required placement rules this scheduler cannot judge yet; such a pod waits and is told why."""
    return ("resourceClaims",) if spec.get("resourceClaims") else ()
