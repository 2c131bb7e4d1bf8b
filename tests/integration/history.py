"""What has happened in a store, commit by commit: the evidence that invariants are judged on.

It hears of every revision from the store itself. Objects are kept by uid, because a name is not an identity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from hekla.api.batch import TASK_SPEC
from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import JOB, LEASE, NODE, POD, POD_GROUP, QUEUE, Kind, Obj
from hekla.api.meta import annotations_of, controller_of, is_deleting, name_of, uid_of
from hekla.api.pod_resources import pod_requests
from hekla.api.quantity import parse
from hekla.api.scheduling import GROUP_NAME
from hekla.apiserver.store.store import ChangeType
from tests.integration.stage import Commit, storage_of

Amounts = dict[str, Decimal]
ENDED = ("Completed", "Failed", "Terminated", "Aborted")
# The labels of what a user has made for themselves: none of ours may touch it.
SOMEBODYS = {"made-by": "somebody"}
_JOBS, _PODS, _GROUPS, _NODES = map(storage_of, (JOB, POD, POD_GROUP, NODE))


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one object: `before` is None for a new one, `after` for one that is gone."""

    resource: str
    before: Obj | None
    after: Obj | None
    revision: int

    @property
    def obj(self) -> Obj:
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found

    def is_of(self, kind: Kind) -> bool:
        return self.resource == storage_of(kind)


@dataclass(frozen=True, slots=True)
class Moment:
    """A commit, read. The History it belongs to already holds the state after it."""

    at: float
    actor: str
    steps: tuple[Step, ...]

    def of(self, kind: Kind) -> Iterator[Step]:
        return (step for step in self.steps if step.is_of(kind))


class History:
    def __init__(self) -> None:
        self.now = 0.0
        self.revision = 0
        self.live: dict[str, dict[str, Obj]] = defaultdict(dict)
        self.gone: dict[str, float] = {}  # uid -> when
        self.pods_of: dict[str, set[str]] = defaultdict(set)  # uid of a Job -> every pod it ever had
        self.started: set[str] = set()  # uids of PodGroups of which a member was ever bound
        self.thinned: set[str] = set()  # uids of PodGroups that lost a bound member
        self.disturbed: set[str] = set()  # uids of PodGroups that lost a member, bound or not, or were changed
        self.used: dict[str, Amounts] = defaultdict(lambda: defaultdict(Decimal))  # node -> what its pods ask for
        self.made: Counter[tuple[str, str]] = Counter()  # uid of a Job, name of a pod -> how often it was made
        self.leader: dict[str, str] = {}  # component -> who holds its Lease
        self.late: set[str] = set()  # uids of what was made for an ended Job by one who did not lead any more
        self.displaced: set[str] = set()  # uids of Jobs of which the scheduler removed a pod
        self.restarts: dict[str, int] = defaultdict(int)  # uid of a Job -> how often it went into Restarting
        self.evicted: dict[str, float] = {}  # uid of a pod -> when the scheduler chose it as a victim
        self.last_waiting_gone = float("-inf")  # when a pod was deleted that was on no node
        self._ran_of: dict[tuple[str, str], set[str]] = defaultdict(set)  # of a Job's task -> pods that ever ran
        self.writes: dict[tuple[str, str], list[float]] = defaultdict(list)  # object -> moments it was written

    def take(self, commit: Commit) -> Moment:
        self.now = commit.at
        steps = []
        for change in commit.changes:
            obj = change.entry.decode()
            key = (change.entry.key.resource, f"{change.entry.key.namespace}/{change.entry.key.name}")
            self.writes[key].append(commit.at)
            steps.append(self._step(key[0], obj, change.type is ChangeType.DELETED, change.entry.revision))
        moment = Moment(commit.at, commit.actor, tuple(steps))
        for step in steps:
            self._note_late(step, commit.actor)
        if "scheduler" in commit.actor:
            self._note_displaced(moment)
        return moment

    def objects(self, kind: Kind) -> list[Obj]:
        return list(self.live[storage_of(kind)].values())

    def get(self, kind: Kind, uid: str) -> Obj | None:
        return self.live[storage_of(kind)].get(uid)

    def pods_owned_by(self, job: Obj) -> list[Obj]:
        pods = self.live[_PODS]
        return [pods[uid] for uid in self.pods_of[uid_of(job)] if uid in pods]

    def has_run(self, job: Obj, task: str) -> int:
        """How many pods of a task have ever run."""
        return len(self._ran_of[uid_of(job), task])

    def members(self, group: Obj) -> list[Obj]:
        return [
            pod
            for pod in self.live[_PODS].values()
            if annotations_of(pod).get(GROUP_NAME) == name_of(group) and _same_owner(pod, group)
        ]

    def group_of(self, pod: Obj) -> Obj | None:
        name = annotations_of(pod).get(GROUP_NAME)
        return next((group for group in self.live[_GROUPS].values() if name_of(group) == name), None)

    def node(self, name: str) -> Obj | None:
        return next((node for node in self.live[_NODES].values() if name_of(node) == name), None)

    def queue(self, name: str) -> Obj | None:
        return next((queue for queue in self.objects(QUEUE) if name_of(queue) == name), None)

    def _step(self, resource: str, obj: Obj, deleted: bool, revision: int) -> Step:
        self.revision = revision
        uid = uid_of(obj)
        before = self.live[resource].get(uid)
        if deleted:
            self.live[resource].pop(uid, None)
            self.gone[uid] = self.now
        else:
            self.live[resource][uid] = obj
        step = Step(resource, before, None if deleted else obj, revision)
        if resource == _PODS:
            self._take_pod(step)
        elif resource == _GROUPS and before is not None and before.get("spec") != obj.get("spec"):
            self.disturbed.add(uid)
        elif resource == _JOBS and phase_of(step.after) == "Restarting" and phase_of(step.before) != "Restarting":
            self.restarts[uid] += 1
        return step

    def _take_pod(self, step: Step) -> None:
        owner = controller_of(step.obj)
        if owner is not None and step.before is None:
            self.pods_of[owner["uid"]].add(uid_of(step.obj))
            self.made[owner["uid"], name_of(step.obj)] += 1
        held, holds = holds_node(step.before), holds_node(step.after)
        if held != holds and step.before is not None and held:
            self._charge(step.before, -1)
        if held != holds and step.after is not None and holds:
            self._charge(step.after, 1)
        if step.after is None and not step.obj["spec"].get("nodeName"):
            self.last_waiting_gone = self.now
        if owner is not None and phase_of(step.obj) in ("Running", "Succeeded"):
            self._ran_of[owner["uid"], annotations_of(step.obj).get(TASK_SPEC, "")].add(uid_of(step.obj))
        group = self.group_of(step.obj)
        if group is not None and step.after is None:
            self.disturbed.add(uid_of(group))
        if group is not None and step.obj["spec"].get("nodeName"):
            self.started.add(uid_of(group))
            if step.after is None or not holds or is_deleting(step.after):
                self.thinned.add(uid_of(group))
        if step.after is not None and is_victim(step.after) and not is_victim(step.before):
            self.evicted[uid_of(step.after)] = self.now

    def _note_late(self, step: Step, actor: str) -> None:
        """To make something has no precondition: what a leader sent off in its last moment cannot be refused."""
        if step.is_of(LEASE) and step.after is not None:
            self.leader[name_of(step.obj)] = str(step.after["spec"].get("holderIdentity") or "")
        owner = controller_of(step.obj) if step.before is None else None
        job = self.get(JOB, owner["uid"]) if owner is not None else None
        if job is not None and phase_of(job) in ENDED and self.is_deposed(actor):
            self.late.add(uid_of(step.obj))

    def is_deposed(self, actor: str) -> bool:
        """Whether it is of those who act only with a Lease, and somebody else holds that."""
        component = actor.rpartition(" ")[2]
        return component in self.leader and self.leader[component] != actor

    def _note_displaced(self, moment: Moment) -> None:
        for step in moment.of(POD):
            owner = controller_of(step.obj)
            if owner is not None and (step.after is None or is_deleting(step.after)):
                self.displaced.add(owner["uid"])

    def _charge(self, pod: Obj, sign: int) -> None:
        used = self.used[pod["spec"]["nodeName"]]
        for name, amount in {**needs(pod), "pods": Decimal(1)}.items():
            used[name] += sign * amount


def phase_of(obj: Obj | None) -> str:
    status = (obj or {}).get("status") or {}
    return str((status.get("state") or {}).get("phase") or status.get("phase") or "")


def is_finished(pod: Obj) -> bool:
    return phase_of(pod) in FINISHED_POD_PHASES


def holds_node(pod: Obj | None) -> bool:
    return pod is not None and bool(pod["spec"].get("nodeName")) and not is_finished(pod)


def is_victim(pod: Obj | None) -> bool:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
    return any(one["type"] == "DisruptionTarget" and one["status"] == "True" for one in conditions)


def needs(pod: Obj) -> Amounts:
    return {name: amount.value for name, amount in pod_requests(pod["spec"]).items() if amount.value > 0}


def allocatable(node: Obj) -> Amounts:
    return {name: parse(amount) for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items()}


def _same_owner(pod: Obj, group: Obj) -> bool:
    mine, its = controller_of(pod), controller_of(group)
    return mine is None or its is None or mine["uid"] == its["uid"]
