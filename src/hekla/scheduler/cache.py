"""What the scheduler knows: rows from the informers, keyed by uid, plus the pods it has placed and not seen placed
yet.

An assumed pod counts on its node from the moment of the decision until the watch confirms it or the binding fails.
The node tables are kept up to date row by row, and groups are rebuilt only when something in them changed, so that
taking a snapshot does not depend on how much is running.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from hekla.api.kinds import Obj
from hekla.api.meta import Key, key_of, name_of, revision_of, uid_of
from hekla.scheduler.grouptable import GroupTable
from hekla.scheduler.images import ImageTable, read_images
from hekla.scheduler.plan import Placement, Plan
from hekla.scheduler.podreading import PodForm, PodReader, form_of
from hekla.scheduler.reading import (
    read_budget,
    read_group,
    read_labels,
    read_node,
    read_queue,
    read_quota,
)
from hekla.scheduler.rows import Budget, Node, Pod, PodGroup, PodStatus, Queue, QueueGate, Quota, Shape
from hekla.scheduler.siblings import SiblingTable
from hekla.scheduler.snapshot import Group, Snapshot
from hekla.scheduler.storagetable import StorageTable
from hekla.scheduler.tables import Tables

K = TypeVar("K")
V = TypeVar("V")

_SPARE_SHAPES = 1024
_EVICTABLE = (PodStatus.BOUND, PodStatus.RUNNING)


class Cache:
    """The `put_` and `remove_` methods answer whether a decision may come out differently.

    `generation` counts what changed at all: also what no decision follows from yet, like a gang that is being made.
    """

    def __init__(
        self,
        *,
        scheduler_names: Iterable[str] = ("volcano",),
        default_queue: str = "default",
        node_labels: Iterable[tuple[str, str]] = (),
        queue_gates: bool = False,
    ) -> None:
        self._scheduler_names = frozenset(scheduler_names)
        self._default_queue = default_queue
        self._node_labels = frozenset(node_labels)  # a node needs one of them; without any, all nodes are ours
        self._reader = PodReader(self._scheduler_names, queue_gates=queue_gates)
        self._pods: dict[str, Pod] = {}
        self._assumed: dict[str, Pod] = {}
        self._evicted: set[str] = set()
        self._let_in: set[str] = set()  # through the gate of their queue, and still seen behind it
        self._members: dict[Key, dict[str, Pod]] = {}
        self._loose: dict[str, Pod] = {}  # on nodes, and of no group
        self._nodes: dict[str, Node] = {}
        self._images = ImageTable()
        self._queues: dict[str, Queue] = {}
        self._groups = GroupTable()
        self._groupless: set[Key] = set()  # keys that pods name and no PodGroup has
        self._classes: dict[str, tuple[int, bool]] = {}
        self._budgets: dict[Key, Budget] = {}
        self._quotas: dict[Key, Quota] = {}
        self.storage = StorageTable()
        self.siblings = SiblingTable()
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._tables = Tables()
        self._stale = True
        self.generation = 0

    def put_pod(self, obj: Obj) -> bool:
        return self.put_form(form_of(obj))

    def put_form(self, form: PodForm) -> bool:
        """A pod as the watch brings it."""
        pod = self._reader.read(form)
        if not pod.ours and not pod.node:
            return False
        known = self._pods.get(pod.uid)
        if known is not None and pod.revision < known.revision:
            return False
        before = self._effective(pod.uid)
        if pod.uid in self._let_in:
            pod = self._at_its_gate(pod)
        self._pods[pod.uid] = pod
        if pod.uid in self._evicted and pod.status in _EVICTABLE:
            self._assumed[pod.uid] = replace(pod, status=PodStatus.RELEASING)
        elif pod.uid in self._assumed and (pod.node or pod.status is not PodStatus.PENDING):
            del self._assumed[pod.uid]
            self._evicted.discard(pod.uid)
            self.storage.release(pod.uid)
        changed = self._swap(before, self._effective(pod.uid))
        return changed and not (before is None and self._is_still_filling(pod))

    def pods_in(self, group: Key) -> int:
        return len(self._members.get(group, ()))

    def refresh_pod(self, obj: Obj) -> bool:
        """A pod as the server answered us: it may be gone by the time the answer is read, and then stays gone."""
        return uid_of(obj) in self._pods and self.put_pod(obj)

    def remove_pod(self, uid: str) -> bool:
        before = self._effective(uid)
        self._pods.pop(uid, None)
        self._assumed.pop(uid, None)
        self._evicted.discard(uid)
        self._let_in.discard(uid)
        self.storage.release(uid)
        return self._swap(before, None)

    def put_node(self, obj: Obj) -> bool:
        node, images = read_node(obj), read_images(obj)
        if self._node_labels and self._node_labels.isdisjoint(node.labels.items()):
            # Another scheduler's. It may have been ours until its labels changed.
            return node.name in self._nodes and self.remove_node(obj)
        self._images.put(node.name, images)
        known = self._nodes.get(node.name)
        if known == node:
            return False
        self._nodes[node.name] = node
        if known is None or not self._tables.replace_node(node):
            self._stale = True
        return self._changed()

    def remove_node(self, obj: Obj) -> bool:
        self._stale = True
        self._images.remove(obj["metadata"]["name"])
        return self._nodes.pop(obj["metadata"]["name"], None) is not None and self._changed()

    def put_queue(self, obj: Obj) -> bool:
        queue = read_queue(obj)
        known = self._queues.get(queue.name)
        if known is not None and known.uid == queue.uid and queue.revision < known.revision:
            return False
        self._queues[queue.name] = queue
        return known != queue and self._changed()

    def refresh_queue(self, obj: Obj) -> bool:
        known = self._queues.get(obj["metadata"]["name"])
        return known is not None and known.uid == uid_of(obj) and self.put_queue(obj)

    def remove_queue(self, obj: Obj) -> bool:
        return self._queues.pop(obj["metadata"]["name"], None) is not None and self._changed()

    def put_group(self, obj: Obj) -> bool:
        known = self._groups.rows.get(key_of(obj))
        if known is not None and known.uid == uid_of(obj) and revision_of(obj) <= known.revision:
            return False
        row = read_group(obj, self._default_queue)
        self._groups.put(row)
        self._groupless.discard(row.key)
        return known != row and self._changed()

    def refresh_group(self, obj: Obj) -> bool:
        known = self._groups.rows.get(key_of(obj))
        return known is not None and known.uid == uid_of(obj) and self.put_group(obj)

    def remove_group(self, obj: Obj) -> bool:
        key = key_of(obj)
        known = self._groups.rows.get(key)
        if known is None or known.uid != uid_of(obj):
            return False
        self._groups.remove(key)
        if key in self._members:
            self._groupless.add(key)
        return self._changed()

    def put_priority_class(self, obj: Obj) -> bool:
        entry = (int(obj.get("value") or 0), bool(obj.get("globalDefault")))
        if self._classes.get(obj["metadata"]["name"]) == entry:
            return False
        self._classes[obj["metadata"]["name"]] = entry
        self._groups.touch_all()
        return self._changed()

    def remove_priority_class(self, obj: Obj) -> bool:
        self._groups.touch_all()
        return self._classes.pop(obj["metadata"]["name"], None) is not None and self._changed()

    def put_budget(self, obj: Obj) -> bool:
        return self._put(self._budgets, key_of(obj), read_budget(obj))

    def remove_budget(self, obj: Obj) -> bool:
        return self._budgets.pop(key_of(obj), None) is not None and self._changed()

    def put_quota(self, obj: Obj) -> bool:
        return self._put(self._quotas, key_of(obj), read_quota(obj))

    def remove_quota(self, obj: Obj) -> bool:
        return self._quotas.pop(key_of(obj), None) is not None and self._changed()

    def put_namespace(self, obj: Obj) -> bool:
        return self._put(self._namespaces, name_of(obj), read_labels(obj))

    def remove_namespace(self, obj: Obj) -> bool:
        return self._namespaces.pop(name_of(obj), None) is not None and self._changed()

    def put_claim(self, obj: Obj) -> bool:
        return self.storage.put_claim(obj) and self._changed()

    def remove_claim(self, obj: Obj) -> bool:
        return self.storage.remove_claim(obj) and self._changed()

    def put_volume(self, obj: Obj) -> bool:
        return self.storage.put_volume(obj) and self._changed()

    def remove_volume(self, obj: Obj) -> bool:
        return self.storage.remove_volume(obj) and self._changed()

    def put_storage_class(self, obj: Obj) -> bool:
        return self.storage.put_class(obj) and self._changed()

    def remove_storage_class(self, obj: Obj) -> bool:
        return self.storage.remove_class(obj) and self._changed()

    def put_attach_limits(self, obj: Obj) -> bool:
        return self.storage.put_limits(obj) and self._changed()

    def remove_attach_limits(self, obj: Obj) -> bool:
        return self.storage.remove_limits(obj) and self._changed()

    def assume(self, placement: Placement, generation: int) -> bool:
        """Count the pods of a placement on their nodes: all of them, or none when the world has moved on since."""
        if generation != self.generation and not self._still_holds(placement):
            return False
        for pod, node in placement.pairs():
            assumed = replace(pod, status=PodStatus.BINDING, node=node)
            before = self._effective(pod.uid)
            self._assumed[pod.uid] = assumed
            self._swap(before, assumed)
            self.storage.promise(pod.uid, placement.choices.get(pod.uid, ()))
        return True

    def assume_evicted(self, pod: Pod) -> bool:
        """Count the pod as leaving its node; False when it is not there any more."""
        before = self._effective(pod.uid)
        if before is None or before.node != pod.node or before.status not in _EVICTABLE:
            return False
        self._evicted.add(pod.uid)
        self._assumed[pod.uid] = replace(before, status=PodStatus.RELEASING)
        self._swap(before, self._assumed[pod.uid])
        return True

    def let_in(self, pods: Iterable[Pod]) -> None:
        """Have pods hold their place in their queue until their gate, which is about to be removed, is seen gone."""
        for pod in pods:
            known = self._pods.get(pod.uid)
            if known is not None and known.queue_gate is QueueGate.SHUT:
                self._let_in.add(pod.uid)
                self._pods[pod.uid] = self._at_its_gate(known)
                self._swap(known, self._pods[pod.uid])

    def forget(self, uid: str) -> None:
        """The pod was not bound, or not evicted, after all: back to what the API says of it."""
        before = self._effective(uid)
        self._evicted.discard(uid)
        self.storage.release(uid)
        if self._assumed.pop(uid, None) is not None:
            self._swap(before, self._effective(uid))

    def settle(self, plan: Plan) -> None:
        """Let the groups rest about which the plan says all there is to say."""
        self._groups.settle(plan.groups)

    def look_at_everything(self) -> None:
        """Have the next cycle look at all groups: the rules have changed."""
        self._groups.wake_all()

    def group(self, key: Key) -> PodGroup | None:
        return self._groups.rows.get(key)

    def members(self, key: Key) -> list[Pod]:
        """The pods of a group as decisions see them."""
        return list(self._members.get(key, {}).values())

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def pod(self, uid: str) -> Pod | None:
        """The pod as decisions see it: an assumed one has its node already."""
        return self._effective(uid)

    def known_pods(self) -> set[str]:
        """The uids of all pods the API server has told of."""
        return set(self._pods)

    def seen_pod(self, uid: str) -> Pod | None:
        """The pod as the API server last said it is."""
        return self._pods.get(uid)

    def snapshot(self, cycle_id: str = "", *, now: float = 0.0) -> Snapshot:
        self._refresh()
        tables, siblings = self._tables, self.siblings.snapshot()
        groups = tuple(self._group(key) for key in self._groups.active())
        return Snapshot(
            cycle_id=cycle_id,
            columns=tables.columns,
            nodes=tables.nodes(),
            queues=tuple(self._queues[name] for name in sorted(self._queues)),
            groups=groups,
            now=now,
            budgets=tuple(self._budgets[key] for key in sorted(self._budgets)),
            quotas=tuple(self._quotas[key] for key in sorted(self._quotas)),
            storage=self.storage.snapshot(),
            namespaces=dict(self._namespaces),
            siblings=siblings,
            strangers=tuple(self._strangers()),
            shapes=tuple(tables.shapes),
            requests=tables.requests[: len(tables.shapes)],
            resting=self._groups.resting(),
            filed=self._groups.filed(siblings.keys),
            acquainted=self._groups.acquainted(tables.asked_keys),
            images=self._images.snapshot(groups, tables.lines),
            held=self._groups.held(),
        )

    def _put(self, table: dict[K, V], key: K, row: V) -> bool:
        known = table.get(key)
        table[key] = row
        return known != row and self._changed()

    def _effective(self, uid: str) -> Pod | None:
        return self._assumed.get(uid) or self._pods.get(uid)

    def _swap(self, before: Pod | None, after: Pod | None) -> bool:
        """One row takes another's place in the tables and in its group."""
        if before is after:
            return False
        if not self._stale and not _weigh_the_same(before, after):
            self._stale = not self._tables.charge(before, -1.0) or not self._tables.charge(after, 1.0)
        for pod in (before, after):
            if pod is not None and pod.group is not None:
                self._groups.touch(pod.group)
        if before is not None and before.group is not None and (after is None or after.group != before.group):
            members = self._members.get(before.group, {})
            members.pop(before.uid, None)
            if not members:
                self._members.pop(before.group, None)
                self._groupless.discard(before.group)
        if before is not None:
            self._loose.pop(before.uid, None)
        if after is not None and after.group is None and after.holds_node:
            self._loose[after.uid] = after
        if after is not None and after.group is not None:
            if after.group not in self._members and after.group not in self._groups.rows:
                self._groupless.add(after.group)
            self._members.setdefault(after.group, {})[after.uid] = after
        unchanged = before is not None and after is not None and before.decides_like(after)
        return not unchanged and self._changed()

    def _at_its_gate(self, pod: Pod) -> Pod:
        if pod.queue_gate is QueueGate.SHUT:
            return replace(pod, queue_gate=QueueGate.OPENING)
        self._let_in.discard(pod.uid)
        return pod

    def _is_still_filling(self, pod: Pod) -> bool:
        """Whether the pod is new to a gang that had too few pods, and has too few with it: nothing can come of it."""
        if pod.group not in self._groups.filling or pod.status is not PodStatus.PENDING:
            return False
        return len(self._members[pod.group]) < self._groups.rows[pod.group].min_member

    def _changed(self) -> bool:
        self.generation += 1
        return True

    def _still_holds(self, placement: Placement) -> bool:
        for pod, node in placement.pairs():
            now = self._effective(pod.uid)
            if now is None or now.status is not PodStatus.PENDING or now.gated or node not in self._nodes:
                return False
        return True

    def _group(self, key: Key) -> Group:
        group = self._groups.built(key)
        if group is None:
            row = self._groups.rows[key]
            pods = list(self._members.get(key, {}).values())
            group = self._tables.build_group(row, self._priority(row.priority_class), pods)
            self._groups.keep(group)
        return group

    def _strangers(self) -> Iterable[Pod]:
        yield from self._loose.values()
        for key in self._groupless:
            yield from (pod for pod in self._members[key].values() if pod.holds_node)

    def _priority(self, name: str) -> int:
        if name in self._classes:
            return self._classes[name][0]
        return max((value for value, default in self._classes.values() if default), default=0)

    def _refresh(self) -> None:
        """Make the tables hold everything again where rows alone could not do it."""
        tables = self._tables
        fresh = self._names_in_limits(self._groups.unbuilt())
        if not self._stale and tables.columns.covers(fresh) and tables.add_shapes(self._member_shapes()):
            return
        pods = [pod for uid in self._pods if (pod := self._effective(uid)) is not None]
        if self._reader.shapes > _SPARE_SHAPES + 2 * len(pods):
            self._reader.keep(pod.shape for pod in pods)
        self._tables = Tables.build(self._nodes.values(), pods, self._names_in_limits(self._groups.rows))
        self._groups.touch_all()
        self._stale = False

    def _member_shapes(self) -> Iterable[Shape]:
        for key in self._groups.unbuilt():
            for pod in self._members.get(key, {}).values():
                yield pod.shape

    def _names_in_limits(self, groups: Iterable[Key]) -> list[str]:
        amounts: list[Mapping[str, Any]] = [self._groups.rows[key].min_resources or {} for key in groups]
        for queue in self._queues.values():
            amounts += [queue.capability, queue.guarantee, queue.deserved]
        return [name for amount in amounts for name in amount]


def _weigh_the_same(before: Pod | None, after: Pod | None) -> bool:
    """Whether the two count for the same on the same node: an assumed pod that is then seen bound does."""
    if before is None or after is None or not before.holds_node or not after.holds_node:
        return False
    if before.node != after.node or before.shape is not after.shape or before.cards != after.cards:
        return False
    return (before.status is PodStatus.RELEASING) == (after.status is PodStatus.RELEASING)
