"""Which plugins are asked what, and how their answers become one.

A plugin takes part in whatever it has a method for, unless its entry in the configuration switches that off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key, partial
from typing import Any

from tests.scheduler.model.cluster import Cluster, Group, Node, Pod, Queue
from tests.scheduler.model.plugins.binpack import Binpack
from tests.scheduler.model.plugins.capacity import Capacity
from tests.scheduler.model.plugins.conformance import Conformance
from tests.scheduler.model.plugins.departments import Departments
from tests.scheduler.model.plugins.drf import Drf
from tests.scheduler.model.plugins.gang import Gang
from tests.scheduler.model.plugins.overcommit import Overcommit
from tests.scheduler.model.plugins.pdb import Pdb
from tests.scheduler.model.plugins.predicates import Predicates
from tests.scheduler.model.plugins.priority import Priority
from tests.scheduler.model.plugins.proportion import Proportion

Entry = dict[str, Any]  # of the configuration: a plugin's name, its switches and arguments

PLUGINS: dict[str, Callable[[Cluster, Entry], Any]] = {
    "binpack": Binpack,
    "capacity": Capacity,
    "conformance": Conformance,
    "drf": lambda cluster, entry: (Departments if entry.get("enableHierarchy") else Drf)(cluster, entry),
    "gang": Gang,
    "overcommit": Overcommit,
    "pdb": Pdb,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
}
# What each question is called in the configuration; the others cannot be switched off.
SWITCHES = {
    "group_rank": "enableJobOrder",
    "subgroup_rank": "enabledSubJobOrder",
    "pod_rank": "enableTaskOrder",
    "compare_queues": "enableQueueOrder",
    "is_ready": "enableJobReady",
    "is_promised": "enableJobPipelined",
    "is_starving": "enableJobStarving",
    "subgroup_is_ready": "enabledSubJobReady",
    "subgroup_is_promised": "enabledSubJobPipelined",
    "is_overused": "enabledOverused",
    "has_room": "enabledAllocatable",
    "may_reclaim": "enablePreemptive",
    "may_enter": "enableJobEnqueued",
    "entered": "enableJobEnqueued",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "refusals": "enablePredicate",
    "score": "enableNodeOrder",
}


class Tiers:
    def __init__(self, cluster: Cluster, tiers: Sequence[Sequence[Entry]]) -> None:
        self._cluster = cluster
        self._tiers = [[(entry, PLUGINS[entry["name"]](cluster, entry)) for entry in tier] for tier in tiers]

    def _by_tier(self, question: str) -> list[list[Callable[..., Any]]]:
        switch = SWITCHES.get(question, "")
        return [
            [
                getattr(plugin, question)
                for entry, plugin in tier
                if hasattr(plugin, question) and entry.get(switch, True)
            ]
            for tier in self._tiers
        ]

    def _asked(self, question: str) -> list[Callable[..., Any]]:
        return [ask for tier in self._by_tier(question) for ask in tier]

    # Order: the first plugin that sees a difference decides.

    def groups_in_order(self, groups: Iterable[Group]) -> list[Group]:
        """Of those that are alike to everybody the older one first, then by name."""
        return sorted(groups, key=lambda group: (self.group_rank(group), group.created, group.key))

    def group_rank(self, group: Group) -> list[float]:
        return [rank(group) for rank in self._asked("group_rank")]

    def pods_in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        return sorted(pods, key=self.pod_rank)

    def pod_rank(self, pod: Pod) -> tuple[Any, ...]:
        """Of those that are alike to everybody the one with the smaller number at the end of its name."""
        parts = pod.name.split("-")
        number = float(parts[-1]) if len(parts) > 2 and parts[-1].isdigit() else float("inf")
        return (*(rank(pod) for rank in self._asked("pod_rank")), number, pod.created, pod.uid)

    def subgroup_rank(self, group: Group, subgroup: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """Of those that are alike to everybody the one with the smaller number; pods of no subgroup are number 0."""
        number = int(subgroup[1]) if subgroup is not None and subgroup[1].isdigit() else 0
        name = "" if subgroup is None else "-".join(subgroup[1:])
        return (*(rank(group, subgroup) for rank in self._asked("subgroup_rank")), number, name)

    def queues_in_order(self, queues: Iterable[Queue]) -> list[Queue]:
        return sorted(queues, key=cmp_to_key(self.compare_queues))

    def compare_queues(self, one: Queue, other: Queue) -> int:
        """Below zero where the one comes first. Of those that are alike to everybody the older, then by name."""
        for compare in self._asked("compare_queues"):
            if found := int(compare(one, other)):
                return found
        mine, theirs = (one.created, one.name), (other.created, other.name)
        return (mine > theirs) - (mine < theirs)

    def victims_in_order(self, pods: Iterable[Pod], contender: Pod) -> list[Pod]:
        """The least important first."""
        return sorted(pods, key=cmp_to_key(partial(self._compare_victims, contender)))

    def _compare_victims(self, contender: Pod, one: Pod, other: Pod) -> int:
        assert one.group is not None
        assert other.group is not None
        assert contender.group is not None
        mine, theirs = one.group.queue, other.group.queue
        if mine is not theirs:
            for rank in self._asked("victim_queue_rank"):
                nearer, farther = rank(mine, contender.group.queue), rank(theirs, contender.group.queue)
                if nearer != farther:
                    return -1 if nearer < farther else 1
            return -self.compare_queues(mine, theirs)
        # Which group is older does not matter here.
        first = (self.group_rank(one.group), self.pod_rank(one))
        second = (self.group_rank(other.group), self.pod_rank(other))
        return (first < second) - (first > second)

    # Groups

    def is_valid(self, group: Group) -> bool:
        return all(ask(group) for ask in self._asked("is_valid"))

    def is_ready(self, group: Group) -> bool:
        return all(ask(group) for ask in self._asked("is_ready"))

    def is_promised(self, group: Group) -> bool:
        return all(ask(group) for ask in self._asked("is_promised"))

    def subgroup_is_ready(self, group: Group, subgroup: tuple[Any, ...] | None) -> bool:
        return all(ask(group, subgroup) for ask in self._asked("subgroup_is_ready"))

    def subgroup_is_promised(self, group: Group, subgroup: tuple[Any, ...] | None) -> bool:
        return all(ask(group, subgroup) for ask in self._asked("subgroup_is_promised"))

    def is_starving(self, group: Group) -> bool:
        """All plugins of the first tier that has any who know; where nobody knows nobody starves."""
        deciding = next((tier for tier in self._by_tier("is_starving") if tier), None)
        return deciding is not None and all(ask(group) for ask in deciding)

    def may_enter(self, group: Group) -> bool:
        """All plugins of the first tier that has any with an opinion."""
        deciding = next((tier for tier in self._by_tier("may_enter") if tier), [])
        return all(ask(group) for ask in deciding)

    def entered(self, group: Group) -> None:
        for tell in self._asked("entered"):
            tell(group)

    # Queues

    def is_overused(self, queue: Queue) -> bool:
        return any(ask(queue) for ask in self._asked("is_overused"))

    def has_room(self, pod: Pod) -> bool:
        return all(ask(pod) for ask in self._asked("has_room"))

    def may_reclaim(self, pod: Pod) -> bool:
        return all(ask(pod) for ask in self._asked("may_reclaim"))

    # Nodes

    def refusals(self, pod: Pod, node: Node) -> list[tuple[str, bool]]:
        """Why the node does not take the pod, each with whether nobody's leaving would help."""
        return [refusal for ask in self._asked("refusals") for refusal in ask(pod, node)]

    def score(self, pod: Pod, node: Node) -> float:
        return float(sum(ask(pod, node) for ask in self._asked("score")))

    # Victims

    def preemptable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        return self._victims("preemptable", contender, candidates)

    def reclaimable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        return self._victims("reclaimable", contender, candidates)

    def _victims(self, question: str, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        """Those whom all plugins of a tier allow. A tier that allows nobody leaves it to the next one, which may allow
        what those before it did not."""
        for tier in self._by_tier(question):
            answers = [ask(contender, candidates) for ask in tier]
            allowed = [pod for pod in candidates if answers and all(pod in answer for answer in answers)]
            if allowed:
                return allowed
        return []
