"""Gives a PodGroup to pods of our scheduler that have none: bare pods, ReplicaSets, StatefulSets, Kubernetes Jobs.

Pods of one controlling owner share one group, named after the owner's uid.
"""

from __future__ import annotations

from collections.abc import Mapping

from hekla.api import batch
from hekla.api.kinds import BATCH_JOB, DAEMON_SET, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, Kind, Obj
from hekla.api.meta import (
    Key,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from hekla.api.pod_resources import Amounts, add, as_text, quota_usage
from hekla.api.scheduling import GROUP_MIN_MEMBER, GROUP_NAME, QUEUE_NAME_ANNOTATION, PodGroupPhase
from hekla.client.informer import Update
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.runner import Runner
from hekla.controllers.sources import Sources
from hekla.errors import AlreadyExists, Conflict, NotFound

_OWNERS: tuple[Kind, ...] = (REPLICA_SET, DAEMON_SET, STATEFUL_SET, BATCH_JOB)
_TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
_TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"


class PodGroupController:
    def __init__(
        self, client: Client, sources: Sources, *, clock: Clock, schedulers: tuple[str, ...] = (batch.SCHEDULER_NAME,)
    ) -> None:
        self._client = client
        self._pods = sources.pods
        self._schedulers = schedulers
        self.runner = Runner("podgroup", self.reconcile, clock=clock)
        sources.pods.subscribe(self._changed)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is None or not self._needs_group(pod):
            return None
        group = build_group(pod, await self._owner_annotations(pod))
        try:
            await self._client.create(POD_GROUP, group)
        except AlreadyExists:
            pass
        patch = {"metadata": {"uid": uid_of(pod), "annotations": {GROUP_NAME: name_of(group)}}}
        try:
            self.runner.wrote(key, self._pods, await self._client.patch(POD, key.name, patch, key.namespace))
        except (NotFound, Conflict):
            return None
        return None

    async def _owner_annotations(self, pod: Obj) -> dict[str, str]:
        """Of all owners we know; the first to have a key wins."""
        found: dict[str, str] = {}
        for reference in pod["metadata"].get("ownerReferences") or ():
            kind = next((kind for kind in _OWNERS if kind.owns_reference(reference)), None)
            owner = await self._client.find(kind, reference["name"], namespace_of(pod)) if kind else None
            if owner is not None and uid_of(owner) == reference.get("uid"):
                found = {**annotations_of(owner), **found}
        return found

    def _changed(self, update: Update) -> None:
        if update.new is not None and self._needs_group(update.new):
            self.runner.enqueue(key_of(update.new))

    def _needs_group(self, pod: Obj) -> bool:
        ours = (pod.get("spec") or {}).get("schedulerName") in self._schedulers
        return ours and not annotations_of(pod).get(GROUP_NAME) and not is_deleting(pod)


def build_group(pod: Obj, owner_annotations: Mapping[str, str]) -> Obj:
    owner = controller_of(pod)
    annotations = _annotations(pod, owner_annotations)
    labels = {key: labels_of(pod)[key] for key in (batch.PREEMPTABLE, batch.COOLDOWN_TIME) if key in labels_of(pod)}
    metadata: Obj = {
        "name": f"podgroup-{owner['uid'] if owner else uid_of(pod)}",
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
    return {key: value for key, value in spec.items() if value or key == "minMember"}


def _min_member(owner_annotations: Mapping[str, str]) -> int:
    text = owner_annotations.get(GROUP_MIN_MEMBER, "")
    return int(text) if text.isdigit() else 1


def _topology(annotations: Mapping[str, str]) -> Obj | None:
    if _TOPOLOGY_MODE not in annotations and _TOPOLOGY_TIER not in annotations:
        return None
    mode = annotations.get(_TOPOLOGY_MODE, "").lower()
    topology: Obj = {"mode": mode if mode in ("hard", "soft") else "hard"}
    tier = annotations.get(_TOPOLOGY_TIER, "")
    if tier.isdigit():
        topology["highestTierAllowed"] = int(tier)
    return topology


def _annotations(pod: Obj, owner_annotations: Mapping[str, str]) -> dict[str, str]:
    given = annotations_of(pod)
    inherited = {key: value for key, value in owner_annotations.items() if key.startswith("volcano.sh/")}
    copied = [batch.PREEMPTABLE, batch.COOLDOWN_TIME, batch.REVOCABLE_ZONE]
    copied.append(batch.JDB_MIN_AVAILABLE if batch.JDB_MIN_AVAILABLE in given else batch.JDB_MAX_UNAVAILABLE)
    return {**inherited, **{key: given[key] for key in copied if key in given}}
