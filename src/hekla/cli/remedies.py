"""What would help a job that waits: each answer was tried, by running the scheduler's core on a changed copy of the
cluster's objects. Pure: objects in, sentences out. What was not tried, or did not help, is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Any

from hekla.api.kinds import NODE, QUEUE, Obj
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.api.quantity import parse
from hekla.api.reasons import Reason
from hekla.api.scheduling import ROOT_QUEUE, QueueState
from hekla.cli.hints import (
    exceeded_limits,
    likely_to_do,
    queues_above,
    readable,
    selected_labels,
    shown,
    taint_text,
    taints_of_nodes,
    toleration_of,
    too_much,
)
from hekla.cli.pod_changes import (
    required_affinity,
    with_at_most,
    with_toleration,
    without_required_affinity,
    without_selector,
)
from hekla.cli.supposing import (
    Other,
    Scene,
    capability_of,
    is_placed,
    job_of,
    opened,
    parents,
    uncordoned,
    with_capability,
)
from hekla.scheduler.blame import PluginFailure
from hekla.scheduler.config import Config
from hekla.scheduler.plan import Plan
from hekla.scheduler.rehearsal import rehearse

# What a job may wait for that a change of the cluster or of the job mends.
MENDABLE = frozenset(
    {
        Reason.NOT_ENOUGH_RESOURCES,
        Reason.NO_NODE_MATCHES,
        Reason.QUEUE_OVER_QUOTA,
        Reason.QUEUE_NOT_OPEN,
        Reason.QUEUE_UNUSABLE,
        Reason.QUOTA_EXCEEDED,
    }
)
# An empty cluster changes nothing about these, and they say so themselves.
_ABOUT_QUEUES = (Reason.QUEUE_NOT_OPEN, Reason.QUEUE_UNUSABLE)
_MOST_JOBS_TRIED, _MOST_JOBS_TOLD = 5, 2
_MOST_QUEUES = 5
_MOST_OF_A_KIND = 3  # of taints, of cordoned nodes, of labels in a selector


class Help(StrEnum):
    """What kind of change it is that helps."""

    NOT_EVEN_EMPTY = "NotEvenEmpty"
    JOB_ENDS = "JobEnds"
    JOB_GONE = "JobGone"
    OTHERS_END = "OthersEnd"
    OTHER_QUEUE = "OtherQueue"
    MIN_AVAILABLE = "MinAvailable"
    QUEUE_LIMIT = "QueueLimit"
    NODE_SELECTOR = "NodeSelector"
    NODE_AFFINITY = "NodeAffinity"
    TOLERATION = "Toleration"
    UNCORDON = "Uncordon"
    REQUEST = "Request"
    OPEN_QUEUE = "OpenQueue"


@dataclass(frozen=True, slots=True)
class Remedy:
    kind: Help
    sentence: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"kind": str(self.kind), "sentence": self.sentence, **self.details}


def find_remedies(
    cluster: Iterable[Obj],
    group: Obj,
    pods: Iterable[Obj],
    config: Config,
    *,
    plan: Plan,
    limit: int,
    now: float,
) -> list[Remedy]:
    """What would help the group, with these pods, after at most `limit` rehearsals; nothing if it does not wait.

    `plan` is that of the cluster as it is, which may have the group and its pods among its objects or not yet.
    """
    slow = {failure.plugin: failure for failure in plan.failures if failure.slow}
    scene, trials = Scene.of(cluster, group, pods), Trials(config, now, limit, slow)
    decision = _decision(plan, group)
    if decision.get("reason") not in MENDABLE or starts(plan, scene):
        return []
    found: list[Remedy] = []
    alone = scene.alone()
    for look in _looks(decision):
        helps = list(look(scene, trials)) if trials.left else []
        if not helps and trials.left and _is_permanent(decision, found):
            # What nobody's end mends may have others before it that end: it has to be mended all the same.
            helps = [replace(one, details={**one.details, "onceThereIsRoom": True}) for one in look(alone, trials)]
        found += helps
    return found


def _looks(decision: Mapping[str, Any]) -> list[_Look]:
    """Where to look, in this order: first for the end of what is in the way, then for what the reason is about."""
    reason = decision["reason"]
    about = _ABOUT.get(reason, ())
    others = (
        _other_queue,
        _smaller_gang,
        _queue_limit,
        _nodes_refused,
        _cordoned_nodes,
        partial(_smaller_request, decision=decision),
        _closed_queue,
    )
    first = () if reason in _ABOUT_QUEUES else (partial(_time, decision=decision),)
    return [*first, *about, *(look for look in others if look not in about)]


class Trials:
    """Rehearsals, as many as may be made; without the plugins that were too slow already."""

    def __init__(self, config: Config, now: float, most: int, lost: Mapping[str, PluginFailure]) -> None:
        self._config = config
        self._now = now
        self._lost = lost
        self.left = most

    def run(self, scene: Scene) -> Plan | None:
        """None where no more may be made."""
        if self.left <= 0:
            return None
        self.left -= 1
        return rehearse(scene.objects, self._config, now=self._now, lost=self._lost)

    def starts(self, scene: Scene) -> bool:
        """Whether the job was seen to start."""
        plan = self.run(scene)
        return plan is not None and starts(plan, scene)


def _decision(plan: Plan, group: Obj) -> Mapping[str, Any]:
    uid = uid_of(group)
    return next((decision for decision in plan.decisions() if decision["group"]["uid"] == uid), {})


def _is_permanent(decision: Mapping[str, Any], found: Iterable[Remedy]) -> bool:
    return decision["reason"] in _ABOUT_QUEUES or any(one.kind is Help.NOT_EVEN_EMPTY for one in found)


def starts(plan: Plan, scene: Scene) -> bool:
    """Whether enough of its pods have a node, or get one now."""
    bound = plan.bindings()
    placed = sum(1 for pod in scene.pods if is_placed(pod) or uid_of(pod) in bound)
    return placed >= max(1, scene.minimum)


# Candidates. Each is one change to the cluster as it is, or without all others in it.


def _time(scene: Scene, trials: Trials, decision: Mapping[str, Any]) -> Iterator[Remedy]:
    """What stands behind what is in the way now; or for whose end it waits."""
    alone = scene.alone()
    plan = trials.run(alone)
    if plan is None:
        return
    if not starts(plan, alone):
        yield from _permanent(plan, scene, decision)
        return
    ending = [other for other in likely_to_do(scene)[:_MOST_JOBS_TRIED] if trials.starts(_ended(scene, other))]
    for other in ending[:_MOST_JOBS_TOLD]:
        name = job_of(other.group, namespace_of(scene.group))
        details = {"namespace": namespace_of(other.group), "podGroup": name_of(other.group)}
        if other.held:
            yield Remedy(Help.JOB_ENDS, f"it would start when {name} has ended", details)
        else:
            yield Remedy(Help.JOB_GONE, f"it would start if {name}, which waits itself, were not there", details)
    if ending:
        return
    yield _ends_of_many(scene, trials)


def _ends_of_many(scene: Scene, trials: Trials) -> Remedy:
    if not trials.left:
        return Remedy(Help.OTHERS_END, "it would start in an otherwise empty cluster", {"waiting": True})
    if trials.starts(scene.without_pods_of_others()):
        return Remedy(Help.OTHERS_END, "it would start when enough of what runs now has ended", {"waiting": False})
    sentence = "it would start when what runs now and what waits before it have ended"
    return Remedy(Help.OTHERS_END, sentence, {"waiting": True})


def _permanent(plan: Plan, scene: Scene, decision: Mapping[str, Any]) -> Iterator[Remedy]:
    found = _decision(plan, scene.group)
    if not found or (found["reason"] == Reason.QUOTA_EXCEEDED and scene.has_scoped_quotas()):
        return
    told = "" if found["sentence"] == decision.get("sentence") else f": {found['sentence']}"
    details = {"reason": found["reason"], "message": found["sentence"]}
    yield Remedy(Help.NOT_EVEN_EMPTY, f"not even an empty cluster would do{told}", details)


def _ended(scene: Scene, other: Other) -> Scene:
    return scene.without([other.group, *other.pods])


def _other_queue(scene: Scene, trials: Trials) -> Iterator[Remedy]:
    queues = list(scene.all(QUEUE))
    above = set(parents(queues).values())
    leaves = sorted(name_of(queue) for queue in queues if _is_open(queue) and name_of(queue) not in above)
    others = [name for name in leaves if name not in (scene.queue, ROOT_QUEUE)][:_MOST_QUEUES]
    found = [name for name in others if trials.starts(scene.in_queue(name))]
    if found:
        yield Remedy(Help.OTHER_QUEUE, f"{_when(scene)} in queue {_listed(found, 'or')}", {"queues": found})


def _smaller_gang(scene: Scene, trials: Trials) -> Iterator[Remedy]:
    """The largest part of the gang that has a place. What was tried last stays true when rehearsals run out."""
    asked = scene.minimum
    if asked < 2 or not trials.starts(scene.with_minimum(1)):
        return
    enough, too_many = 1, asked
    while too_many - enough > 1:
        middle = (enough + too_many) // 2
        if trials.starts(scene.with_minimum(middle)):
            enough = middle
        else:
            too_many = middle
    sentence = f"{_when(scene)} with minAvailable: {enough} (it asks for {asked})"
    yield Remedy(Help.MIN_AVAILABLE, sentence, {"minAvailable": enough, "asked": asked})


def _queue_limit(scene: Scene, trials: Trials) -> Iterator[Remedy]:
    """As much as the sums say is missing, in the queue and, where that is not enough, in those above it; else no limit
    at all."""
    over = exceeded_limits(scene)
    raised: Scene = scene
    for position, (name, amounts) in enumerate(over.items()):
        limits = {resource: shown(resource, most) for resource, (most, _) in amounts.items()}
        raised = raised.with_one(QUEUE, name, partial(_raised, limits=limits))
        if trials.starts(raised):
            yield _higher(scene, dict(list(over.items())[: position + 1]))
            return
    wanted = scene.wanted()
    unlimited = {
        name_of(queue): names
        for queue in queues_above(scene)
        if (names := sorted(name for name in capability_of(queue) if wanted.get(name)))
    }
    without = scene
    for name, resources in unlimited.items():
        without = without.with_one(QUEUE, name, partial(_unlimited, resources=resources))
    if unlimited and trials.starts(without):
        told = [f"queue {name} had no limit on {_listed(names, 'and')}" for name, names in unlimited.items()]
        yield Remedy(Help.QUEUE_LIMIT, f"{_when(scene)} if {_listed(told, 'and')}", {"unlimited": unlimited})


def _higher(scene: Scene, over: Mapping[str, Mapping[str, tuple[Decimal, Decimal]]]) -> Remedy:
    told, limits = [], {}
    for name, amounts in over.items():
        limits[name] = {resource: shown(resource, most) for resource, (most, _) in amounts.items()}
        each = [
            f"{limits[name][resource]} {resource} ({shown(resource, limit)} now)"
            for resource, (_, limit) in amounts.items()
        ]
        told.append(f"queue {name} allowed {_listed(each, 'and')}")
    return Remedy(Help.QUEUE_LIMIT, f"{_when(scene)} if {_listed(told, 'and')}", {"limits": limits})


def _nodes_refused(scene: Scene, trials: Trials) -> Iterator[Remedy]:
    """What of its pods keeps them from nodes: a selector, an affinity, that they do not tolerate a taint."""
    selected = selected_labels(scene)
    if selected and trials.starts(_unselected(scene, selected)):
        single = ([pair] for pair in selected[:_MOST_OF_A_KIND] if len(selected) > 1)
        enough = next((pairs for pairs in single if trials.starts(_unselected(scene, pairs))), selected)
        sentence = f"{_when(scene)} without nodeSelector {', '.join(enough)}"
        yield Remedy(Help.NODE_SELECTOR, sentence, {"labels": enough})
    bound = any(required_affinity(pod["spec"]) for pod in scene.pods)
    if bound and trials.starts(scene.with_pods(without_required_affinity)):
        yield Remedy(Help.NODE_AFFINITY, f"{_when(scene)} without its required node affinity")
    for taint in taints_of_nodes(scene)[:_MOST_OF_A_KIND]:
        toleration = toleration_of(taint)
        if trials.starts(scene.with_pods(partial(with_toleration, toleration=toleration))):
            sentence = f"{_when(scene)} with a toleration for the taint {taint_text(taint)}"
            yield Remedy(Help.TOLERATION, sentence, {"toleration": toleration})


def _unselected(scene: Scene, pairs: Iterable[str]) -> Scene:
    return scene.with_pods(partial(without_selector, keys={pair.partition("=")[0] for pair in pairs}))


def _cordoned_nodes(scene: Scene, trials: Trials) -> Iterator[Remedy]:
    cordoned = [name_of(node) for node in scene.all(NODE) if (node.get("spec") or {}).get("unschedulable")]
    for name in sorted(cordoned)[:_MOST_OF_A_KIND]:
        if trials.starts(scene.with_one(NODE, name, uncordoned)):
            sentence = f"{_when(scene)} if node {name} took pods again: kubectl uncordon {name}"
            yield Remedy(Help.UNCORDON, sentence, {"node": name})


def _smaller_request(scene: Scene, trials: Trials, decision: Mapping[str, Any]) -> Iterator[Remedy]:
    """For what no node has enough of: what the roomiest has."""
    beyond = too_much(scene, {} if scene.is_empty else decision)
    most = {name: readable(name, free) for name, (_, free) in beyond.items()}
    if not most or not all(parse(amount) for amount in most.values()):
        return
    if trials.starts(scene.with_pods(partial(with_at_most, most=most))):
        each = [f"{most[name]} {name} ({shown(name, asked)} now)" for name, (asked, _) in beyond.items()]
        yield Remedy(Help.REQUEST, f"{_when(scene)} if a pod asked for {_listed(each, 'and')}", {"requests": most})


def _closed_queue(scene: Scene, trials: Trials) -> Iterator[Remedy]:
    queue = next((queue for queue in scene.all(QUEUE) if name_of(queue) == scene.queue), None)
    if queue is None or _is_open(queue):
        return
    name = scene.queue
    if trials.starts(scene.with_one(QUEUE, name, opened)):
        command = f"hekla queue operate {name} --action open"
        yield Remedy(Help.OPEN_QUEUE, f"{_when(scene)} if queue {name} were open: {command}", {"queue": name})


_Look = Callable[[Scene, Trials], Iterable[Remedy]]
# What is told, and tried where few rehearsals may be made, before all else.
_ABOUT: Mapping[Reason, tuple[_Look, ...]] = {
    Reason.NO_NODE_MATCHES: (_nodes_refused, _cordoned_nodes),
    Reason.QUEUE_OVER_QUOTA: (_queue_limit,),
    Reason.QUEUE_NOT_OPEN: (_closed_queue,),
}


def _raised(queue: Obj, limits: Mapping[str, str]) -> Obj:
    return with_capability(queue, {**capability_of(queue), **limits})


def _unlimited(queue: Obj, resources: Collection[str]) -> Obj:
    left = {name: limit for name, limit in capability_of(queue).items() if name not in resources}
    return with_capability(queue, left)


def _is_open(queue: Obj) -> bool:
    return ((queue.get("status") or {}).get("state") or QueueState.OPEN) == QueueState.OPEN


def _when(scene: Scene) -> str:
    return "once there is room, it would start" if scene.is_empty else "it would start now"


def _listed(words: Sequence[str], last: str) -> str:
    """`a`, `a or b`, `a, b or c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
