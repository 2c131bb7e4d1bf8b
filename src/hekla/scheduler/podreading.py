"""From a pod's bytes to its row.

Pods are what there is most of. A form declares the fields the scheduler looks at, the parts of a pod that only its
shape depends on stay bytes, and pods of one template have equal bytes there: their shape is found without looking in.
What pods share (shapes, labels, keys, names) they hold once.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from hekla.api import batch, scheduling
from hekla.api.core import DEFAULT_SCHEDULER, PodPhase
from hekla.api.devices import GPU_INDEX, read_indexes
from hekla.api.duration import InvalidDuration, parse_duration
from hekla.api.kinds import Obj
from hekla.api.meta import Key, parse_timestamp
from hekla.scheduler.images import full_name
from hekla.scheduler.reading import Shapes
from hekla.scheduler.resizing import Sizes, sizes_of, tells_sizes, with_sizes
from hekla.scheduler.rows import NO_LABELS, WORKLOADS, Condition, Pod, PodImages, PodStatus, QueueGate, Shape, Workload

TASK_PRIORITY = "volcano.sh/task-priority"
PREEMPTABLE = "volcano.sh/preemptable"
COOLDOWN = "volcano.sh/cooldown-time"
_DIGITS = re.compile(r"[+-]?[0-9]{1,12}")
STRATEGY, STRATEGY_WEIGHTS = "volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_NOTHING = msgspec.Raw(b"")
_EMPTY = (b"", b"null", b"[]", b"{}")
_SPARE = 4096


class _Form(msgspec.Struct, rename="camel", gc=False):
    pass


class Annotations(_Form):
    group: str = msgspec.field(default="", name=scheduling.GROUP_NAME)
    role: str = msgspec.field(default="", name=batch.TASK_SPEC)
    priority: str = msgspec.field(default="", name=TASK_PRIORITY)
    preemptable: str | None = msgspec.field(default=None, name=PREEMPTABLE)
    cooldown: str = msgspec.field(default="", name=COOLDOWN)
    queue_gate: str = msgspec.field(default="", name=scheduling.QUEUE_GATE)
    cards: str = msgspec.field(default="", name=GPU_INDEX)
    strategy: str = msgspec.field(default="", name=STRATEGY)
    strategy_weights: str = msgspec.field(default="", name=STRATEGY_WEIGHTS)


class Metadata(_Form):
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: msgspec.Raw = _NOTHING
    annotations: Annotations | None = None
    owner_references: msgspec.Raw = _NOTHING


class ContainerForm(_Form):
    name: str = ""
    image: str | None = None
    resources: msgspec.Raw = _NOTHING
    restart_policy: str | None = None
    ports: msgspec.Raw = _NOTHING


class Spec(_Form):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduling_gates: msgspec.Raw = _NOTHING
    volumes: msgspec.Raw = _NOTHING
    containers: list[ContainerForm] | None = None
    init_containers: list[ContainerForm] | None = None
    overhead: msgspec.Raw = _NOTHING
    resources: msgspec.Raw = _NOTHING
    node_selector: msgspec.Raw = _NOTHING
    affinity: msgspec.Raw = _NOTHING
    tolerations: msgspec.Raw = _NOTHING
    topology_spread_constraints: msgspec.Raw = _NOTHING
    resource_claims: msgspec.Raw = _NOTHING


class ConditionForm(_Form):
    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class Status(_Form):
    phase: str | None = None
    nominated_node_name: str | None = None
    conditions: list[ConditionForm] | None = None
    resize: str | None = None
    container_statuses: msgspec.Raw = _NOTHING
    init_container_statuses: msgspec.Raw = _NOTHING


class PodForm(_Form):
    """What of a pod the scheduler looks at."""

    metadata: Metadata
    spec: Spec | None = None
    status: Status | None = None


_decode_form = msgspec.json.Decoder(PodForm).decode
_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode
_NO_SPEC, _NO_STATUS, _NO_ANNOTATIONS = Spec(), Status(), Annotations()


def form_of(obj: Obj) -> PodForm:
    """The form of a pod that is at hand as an object."""
    return _decode_form(msgspec.json.encode(obj))


def queue_gate_of(form: PodForm) -> QueueGate:
    """Where the pod stands, were queues minding their gates."""
    return _queue_gate(form.spec or _NO_SPEC, form.metadata.annotations or _NO_ANNOTATIONS)


class PodReader:
    """Reads forms into rows, and remembers what rows share."""

    def __init__(self, scheduler_names: Collection[str], *, queue_gates: bool = False) -> None:
        self._scheduler_names = scheduler_names
        self._in_stead_of = DEFAULT_SCHEDULER if len(scheduler_names) > 1 else ""
        self._queue_gates = queue_gates
        self._shapes = Shapes()
        self._by_bytes: dict[tuple[object, ...], Shape] = {}
        self._labels: dict[bytes, Mapping[str, str]] = {}
        self._keys: dict[tuple[str, str], Key] = {}
        self._owners: dict[tuple[str, bytes], Workload | None] = {}
        self._images: dict[PodImages, PodImages] = {}

    def read(self, form: PodForm) -> Pod:
        meta, spec, status = form.metadata, form.spec or _NO_SPEC, form.status or _NO_STATUS
        annotations = meta.annotations or _NO_ANNOTATIONS
        labels = self._labels_of(meta)
        namespace = sys.intern(meta.namespace or "")
        return Pod(
            uid=meta.uid or "",
            namespace=namespace,
            name=meta.name,
            group=self._group_of(form, namespace),
            shape=self._shape_of(form, namespace, labels),
            status=_status(meta, spec, status),
            node=sys.intern(spec.node_name or ""),
            role=sys.intern(annotations.role or labels.get(batch.TASK_SPEC) or ""),
            priority=_priority(spec, annotations),
            created=_seconds(meta.creation_timestamp),
            index=_number_in(meta.name),
            gated=bytes(spec.scheduling_gates) not in _EMPTY,
            ours=spec.scheduler_name in self._scheduler_names,
            in_stead=spec.scheduler_name == self._in_stead_of,
            preemptable=_is_preemptable(annotations, labels),
            preempts=spec.preemption_policy != "Never",
            spared_until=_spared_until(labels.get(COOLDOWN) or annotations.cooldown, status),
            queue_gate=_queue_gate(spec, annotations) if self._queue_gates else QueueGate.NONE,
            priority_class=sys.intern(spec.priority_class_name or ""),
            labels=labels,
            claims=_claim_names(meta.name, spec.volumes),
            images=self._images_of(spec),
            owner=self._owner_of(meta.owner_references, namespace),
            # Without a node it says what might have been.
            cards=read_indexes(annotations.cards) if annotations.cards and spec.node_name else (),
            revision=int(meta.resource_version or 0),
            condition=_condition(status),
        )

    @property
    def shapes(self) -> int:
        """How many shapes are remembered."""
        return len(self._shapes)

    def keep(self, shapes: Iterable[Shape]) -> None:
        """Forget all shapes but these."""
        self._shapes.keep(shapes)
        self._by_bytes.clear()

    def _group_of(self, form: PodForm, namespace: str) -> Key | None:
        """The group the pod counts for. One that succeeded and is being deleted counts no more: it is of a run that is
        over, and a new gang under the same name would start without the pod that takes its place."""
        name = form.metadata.annotations.group if form.metadata.annotations is not None else None
        ended = form.status is not None and form.status.phase == PodPhase.SUCCEEDED
        return None if not name or (ended and form.metadata.deletion_timestamp) else self._key(namespace, name)

    def _labels_of(self, meta: Metadata) -> Mapping[str, str]:
        raw = bytes(meta.labels)
        found = self._labels.get(raw)
        if found is None:
            found = (_decode_labels(raw) if raw else None) or NO_LABELS
            if len(self._labels) >= _SPARE:
                # Pods hold on to theirs; those that come may share with each other.
                self._labels.clear()
            self._labels[raw] = found
        return found

    def _key(self, namespace: str, name: str) -> Key:
        found = self._keys.get((namespace, name))
        if found is None:
            if len(self._keys) >= _SPARE:
                self._keys.clear()
            found = self._keys[namespace, name] = Key(namespace, sys.intern(name))
        return found

    def _owner_of(self, references: msgspec.Raw, namespace: str) -> Workload | None:
        raw = bytes(references)
        if raw in _EMPTY:
            return None
        key = (namespace, raw)
        if key not in self._owners:
            if len(self._owners) >= _SPARE:
                self._owners.clear()
            self._owners[key] = _workload(msgspec.json.decode(raw), namespace)
        return self._owners[key]

    def _images_of(self, spec: Spec) -> PodImages:
        containers = (*(spec.containers or ()), *(spec.init_containers or ()))
        names = (*(container.image or "" for container in containers), *_mounted_images(spec.volumes))
        named = PodImages(names, len(containers))
        found = self._images.get(named)
        if found is None:
            if len(self._images) >= _SPARE:
                self._images.clear()
            full = tuple(sys.intern(full_name(name)) for name in names)
            found = self._images[named] = PodImages(full, len(containers))
        return found

    def _shape_of(self, form: PodForm, namespace: str, labels: Mapping[str, str]) -> Shape:
        spec, said = form.spec or _NO_SPEC, form.metadata.annotations or _NO_ANNOTATIONS
        strategy = (said.strategy, said.strategy_weights)
        affinity, spread = bytes(spec.affinity), bytes(spec.topology_spread_constraints)
        sizes = _sizes(form.status or _NO_STATUS)
        key = (
            *(_container_bytes(container) for container in spec.containers or ()),
            None,
            *(_container_bytes(container) for container in spec.init_containers or ()),
            bytes(spec.overhead),
            bytes(spec.resources),
            bytes(spec.node_selector),
            affinity,
            spread,
            bytes(spec.tolerations),
            bytes(spec.resource_claims),
            sizes,
            strategy,
            # What a pod wants of others may depend on what it is itself.
            (namespace, bytes(form.metadata.labels)) if affinity or spread else None,
        )
        shape = self._by_bytes.get(key)
        if shape is None:
            if len(self._by_bytes) >= 4 * _SPARE:
                self._by_bytes.clear()
            opened = with_sizes(_opened(spec), sizes)
            shape = self._by_bytes[key] = self._shapes.shape_of(opened, namespace, labels, strategy)
        return shape


def _container_bytes(container: ContainerForm) -> tuple[object, ...]:
    return container.name, bytes(container.resources), container.restart_policy, bytes(container.ports)


def _opened(spec: Spec) -> Obj:
    """The parts a shape depends on, decoded."""
    parts = {
        "overhead": spec.overhead,
        "resources": spec.resources,
        "nodeSelector": spec.node_selector,
        "affinity": spec.affinity,
        "topologySpreadConstraints": spec.topology_spread_constraints,
        "tolerations": spec.tolerations,
        "resourceClaims": spec.resource_claims,
    }
    return {
        "containers": [_opened_container(container) for container in spec.containers or ()],
        "initContainers": [_opened_container(container) for container in spec.init_containers or ()],
        **{name: _open(raw) for name, raw in parts.items()},
    }


def _opened_container(container: ContainerForm) -> dict[str, Any]:
    opened = {"resources": _open(container.resources), "ports": _open(container.ports)}
    return {**opened, "name": container.name, "restartPolicy": container.restart_policy}


def _sizes(status: Status) -> Sizes | None:
    statuses = bytes(status.container_statuses), bytes(status.init_container_statuses)
    if not any(map(tells_sizes, statuses)):
        return None
    wishes = (item.reason for item in status.conditions or () if item.type == "PodResizePending")
    return sizes_of(statuses, (status.resize, *wishes))


def _open(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if bytes(raw) else None


def _status(meta: Metadata, spec: Spec, status: Status) -> PodStatus:
    phase = status.phase or PodPhase.PENDING
    if phase in (PodPhase.PENDING, PodPhase.RUNNING) and meta.deletion_timestamp:
        return PodStatus.RELEASING
    if phase == PodPhase.RUNNING:
        return PodStatus.RUNNING
    if phase == PodPhase.PENDING:
        return PodStatus.BOUND if spec.node_name else PodStatus.PENDING
    if phase == PodPhase.SUCCEEDED:
        return PodStatus.SUCCEEDED
    return PodStatus.FAILED if phase == PodPhase.FAILED else PodStatus.UNKNOWN


def _priority(spec: Spec, annotations: Annotations) -> int:
    value = 1 if spec.priority is None else spec.priority
    if not _DIGITS.fullmatch(annotations.priority):
        return value
    said = int(annotations.priority)
    # parity: what is no 32-bit number says nothing.
    return said if -(2**31) <= said < 2**31 else value


def _is_preemptable(annotations: Annotations, labels: Mapping[str, str]) -> bool:
    """parity: pods may be made to leave unless they say otherwise; a text that is no boolean, such as none, says so."""
    said = labels.get(PREEMPTABLE, "true") if annotations.preemptable is None else annotations.preemptable
    return said in _TRUE


@lru_cache(maxsize=_SPARE)
def _seconds(text: str | None) -> float:
    return parse_timestamp(text).timestamp() if text else 0.0


def _number_in(name: str) -> float:
    """The number at the end of `job-task-7`; names of another form come after all numbers."""
    parts = name.split("-")
    return float(parts[-1]) if len(parts) >= 3 and parts[-1].isdecimal() else math.inf


def _claim_names(pod: str, volumes: msgspec.Raw) -> tuple[str, ...]:
    if bytes(volumes) in _EMPTY:
        return ()
    names = []
    for volume in msgspec.json.decode(volumes):
        if volume.get("persistentVolumeClaim"):
            names.append(str(volume["persistentVolumeClaim"].get("claimName") or ""))
        elif volume.get("ephemeral"):
            names.append(f"{pod}-{volume.get('name')}")
    return tuple(names)


def _mounted_images(volumes: msgspec.Raw) -> list[str]:
    if b'"image"' not in bytes(volumes):
        return []
    sources = [volume["image"] for volume in msgspec.json.decode(volumes) if volume.get("image")]
    return [str(source.get("reference") or "") for source in sources]


def _workload(references: list[Obj], namespace: str) -> Workload | None:
    """Of whom pods are spread out by default, if that is who controls the pod."""
    controller = next((reference for reference in references if reference.get("controller")), {})
    kinds = [kind for kind in WORKLOADS if kind.owns_reference(controller)]
    return Workload(kinds[0].kind, Key(namespace, str(controller.get("name")))) if kinds else None


def _queue_gate(spec: Spec, annotations: Annotations) -> QueueGate:
    if annotations.queue_gate != "true":
        return QueueGate.NONE
    if bytes(spec.scheduling_gates) in _EMPTY:
        return QueueGate.OPENED
    names = [gate.get("name") for gate in msgspec.json.decode(spec.scheduling_gates)]
    return QueueGate.SHUT if names == [scheduling.QUEUE_GATE] else QueueGate.NONE


def _spared_until(cooldown: str, status: Status) -> float:
    """When the time is over that the pod asks for after it was given its node; a text that is no time asks for none."""
    if not cooldown:
        return 0.0
    try:
        seconds = parse_duration(cooldown)
    except InvalidDuration:
        return 0.0
    moments = (item.last_transition_time for item in status.conditions or () if _says_placed(item))
    return max((_seconds(moment) + seconds for moment in moments if moment), default=0.0)


def _says_placed(condition: ConditionForm) -> bool:
    return condition.type == "PodScheduled" and condition.status == "True"


def _condition(status: Status) -> Condition | None:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Condition(condition.reason or "", condition.message or "", status.nominated_node_name or "")
    # Others may name a node before any scheduler has said a word.
    return Condition("", "", status.nominated_node_name) if status.nominated_node_name else None
