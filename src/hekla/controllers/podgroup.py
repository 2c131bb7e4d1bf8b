"""Gives a PodGroup to pods of our scheduler that have none: bare pods, ReplicaSets, StatefulSets, Kubernetes Jobs.

Pods of one controlling owner share one group, named after the owner's uid. It says what the newest of them says: a
workload whose template or annotations have changed brings its group up to date with its next pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hekla.api import batch
from hekla.api.core import PodPhase
from hekla.api.kinds import BATCH_JOB, DAEMON_SET, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, Kind, Obj
from hekla.api.meta import (
    Key,
    annotations_of,
    controller_of,
    count_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from hekla.api.pod_resources import Amounts, add, as_text, quota_usage
from hekla.api.scheduling import BARE_GROUP_PREFIX, GROUP_MIN_MEMBER, GROUP_NAME, QUEUE_NAME_ANNOTATION, PodGroupPhase
from hekla.client.informer import Update
from hekla.client.rest import Client
from hekla.controllers.runner import Runner
from hekla.controllers.sources import BARE_OWNER, Sources, owned_in
from hekla.errors import AlreadyExists, NotFound

_OWNERS: tuple[Kind, ...] = (REPLICA_SET, DAEMON_SET, STATEFUL_SET, BATCH_JOB)
_TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
_REVISION = "controller-revision-hash"
# What follows the pods of a workload; a queue that the namespace gave stays unless a pod names another.
_FOLLOWED = ("minMember", "minResources", "priorityClassName", "networkTopology")
_TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"


class PodGroupController:
    def __init__(
        self,
        client: Client,
        sources: Sources,
        *,
        schedulers: tuple[str, ...] = (batch.SCHEDULER_NAME,),
        inherit: bool = True,
    ) -> None:
        self._client = client
        self._pods = sources.pods
        self._groups = sources.groups
        self._schedulers = schedulers
        self._inherit = inherit  # whether groups have the annotations of their pods' owners
        self.runner = Runner("podgroup", self.reconcile)
        sources.pods.subscribe(self._changed)
        sources.groups.subscribe(self._group_changed)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is None or not (self._needs_group(pod) or self._lost_group(pod)):
            return None
        owners = await self._owners(pod)
        if self._lost_group(pod) and not _has_its_owner(pod, owners):
            # Both go with it.
            return None
        group = build_group(pod, _inherited(owners) if self._inherit else {})
        try:
            await self._client.create(POD_GROUP, group)
        except AlreadyExists:
            if all(is_current(pod, owner) for owner in owners):
                await self._refresh(group)
        patch = {"metadata": {"uid": uid_of(pod), "annotations": {GROUP_NAME: name_of(group)}}}
        try:
            self.runner.wrote(key, self._pods, await self._client.patch(POD, key.name, patch, key.namespace))
        except NotFound:
            return None
        return None

    async def _refresh(self, wanted: Obj) -> None:
        existing = await self._client.find(POD_GROUP, name_of(wanted), namespace_of(wanted))
        patch = _difference(wanted, existing) if existing is not None else None
        if existing is not None and patch:
            patch["metadata"] = {**patch.get("metadata", {}), "uid": uid_of(existing)}
            await self._client.patch(POD_GROUP, name_of(wanted), patch, namespace_of(wanted))

    async def _owners(self, pod: Obj) -> list[Obj]:
        """Those we know, in the pod's order."""
        found = []
        for reference in pod["metadata"].get("ownerReferences") or ():
            kind = next((kind for kind in _OWNERS if kind.owns_reference(reference)), None)
            owner = await self._client.find(kind, reference["name"], namespace_of(pod)) if kind else None
            if owner is not None and uid_of(owner) == reference.get("uid"):
                found.append(owner)
        return found

    def _changed(self, update: Update) -> None:
        # What was there before us may have lost its group while nobody looked.
        first = update.old is None and bool(
            update.new and annotations_of(update.new).get(GROUP_NAME, "").startswith(BARE_GROUP_PREFIX)
        )
        if update.new is not None and (first or self._needs_group(update.new)):
            self.runner.enqueue(key_of(update.new))

    def _group_changed(self, update: Update) -> None:
        """A group that goes may have been given to a pod that came meanwhile."""
        owner = controller_of(update.obj)
        if update.new is not None or owner is None or not name_of(update.obj).startswith(BARE_GROUP_PREFIX):
            return
        if POD.owns_reference(owner):
            self.runner.enqueue(Key(namespace_of(update.obj), owner["name"]))
        for pod in self._pods.by_index(BARE_OWNER, owned_in(namespace_of(update.obj), owner["uid"])):
            self.runner.enqueue(key_of(pod))

    def _needs_group(self, pod: Obj) -> bool:
        ours = (pod.get("spec") or {}).get("schedulerName") in self._schedulers
        return ours and not annotations_of(pod).get(GROUP_NAME) and not is_deleting(pod)

    def _lost_group(self, pod: Obj) -> bool:
        """Whether a pod waits in a group that we gave it and that is gone."""
        name = annotations_of(pod).get(GROUP_NAME)
        waits = (pod.get("status") or {}).get("phase") == PodPhase.PENDING and not is_deleting(pod)
        ours = (pod.get("spec") or {}).get("schedulerName") in self._schedulers
        return ours and waits and name == _bare_name(pod) and self._groups.get(name, namespace_of(pod)) is None


def _bare_name(pod: Obj) -> str:
    owner = controller_of(pod)
    return BARE_GROUP_PREFIX + (owner["uid"] if owner else uid_of(pod))


def _has_its_owner(pod: Obj, owners: Iterable[Obj]) -> bool:
    owner = controller_of(pod)
    if owner is None or not any(kind.owns_reference(owner) for kind in _OWNERS):
        return True
    return any(uid_of(one) == owner["uid"] for one in owners)


def _inherited(owners: Iterable[Obj]) -> dict[str, str]:
    """The annotations of the owners; the first to have a key wins."""
    found: dict[str, str] = {}
    for owner in owners:
        found = {**annotations_of(owner), **found}
    return found


def is_current(pod: Obj, owner: Obj) -> bool:
    """Whether the pod is what its owner would make now: a StatefulSet also replaces pods of its earlier revision."""
    revision = (owner.get("status") or {}).get("updateRevision")
    return not revision or labels_of(pod).get(_REVISION) in (None, revision)


def _difference(wanted: Obj, existing: Obj) -> Obj:
    """A merge patch that has the group say what is wanted. Others' labels and annotations, and its phase, stay."""
    patch: Obj = {}
    old = existing.get("spec") or {}
    spec = {field: wanted["spec"].get(field) for field in _FOLLOWED if wanted["spec"].get(field) != old.get(field)}
    if spec.get("minResources"):
        gone = {name: None for name in old.get("minResources") or {} if name not in spec["minResources"]}
        spec["minResources"] = {**spec["minResources"], **gone}
    if wanted["spec"].get("queue") and wanted["spec"]["queue"] != old.get("queue"):
        spec["queue"] = wanted["spec"]["queue"]
    if spec:
        patch["spec"] = spec
    for field in ("labels", "annotations"):
        new, known = wanted["metadata"].get(field) or {}, existing["metadata"].get(field) or {}
        if any(known.get(key) != value for key, value in new.items()):
            patch.setdefault("metadata", {})[field] = new
    return patch


def build_group(pod: Obj, owner_annotations: Mapping[str, str]) -> Obj:
    owner = controller_of(pod)
    annotations = _annotations(pod, owner_annotations)
    labels = {key: labels_of(pod)[key] for key in (batch.PREEMPTABLE, batch.COOLDOWN_TIME) if key in labels_of(pod)}
    metadata: Obj = {
        "name": _bare_name(pod),
        "namespace": namespace_of(pod),
        "ownerReferences": pod["metadata"]["ownerReferences"] if owner else [owner_reference(pod, POD)],
        **({"annotations": annotations} if annotations else {}),
        **({"labels": labels} if labels else {}),
    }
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": metadata,
        "spec": _spec(pod, _min_member(owner_annotations)),
        "status": {"phase": PodGroupPhase.PENDING.value},
    }


def _spec(pod: Obj, min_member: int) -> Obj:
    total: Amounts = {}
    add(total, quota_usage(pod["spec"]), min_member)
    spec = {
        "minMember": min_member,
        "minResources": as_text(total),
        "queue": annotations_of(pod).get(QUEUE_NAME_ANNOTATION),
        "priorityClassName": pod["spec"].get("priorityClassName"),
        "networkTopology": _topology(annotations_of(pod)),
    }
    return {key: value for key, value in spec.items() if value}


def _min_member(owner_annotations: Mapping[str, str]) -> int:
    count = _count(owner_annotations.get(GROUP_MIN_MEMBER, ""))
    return 1 if count is None else count


def _topology(annotations: Mapping[str, str]) -> Obj | None:
    if _TOPOLOGY_MODE not in annotations and _TOPOLOGY_TIER not in annotations:
        return None
    mode = annotations.get(_TOPOLOGY_MODE, "").lower()
    topology: Obj = {"mode": mode if mode in ("hard", "soft") else "hard"}
    tier = _count(annotations.get(_TOPOLOGY_TIER, ""))
    if tier is not None:
        topology["highestTierAllowed"] = tier
    return topology


def _count(text: str) -> int | None:
    """parity: a number may come with its sign; one below zero is none."""
    count = count_of(text[1:] if text[:1] in ("+", "-") else text)
    return None if count and text.startswith("-") else count


def _annotations(pod: Obj, owner_annotations: Mapping[str, str]) -> dict[str, str]:
    given = annotations_of(pod)
    inherited = {key: value for key, value in owner_annotations.items() if key.startswith("volcano.sh/")}
    copied = [batch.PREEMPTABLE, batch.COOLDOWN_TIME, batch.REVOCABLE_ZONE]
    copied.append(batch.JDB_MIN_AVAILABLE if batch.JDB_MIN_AVAILABLE in given else batch.JDB_MAX_UNAVAILABLE)
    return {**inherited, **{key: given[key] for key in copied if key in given}}
