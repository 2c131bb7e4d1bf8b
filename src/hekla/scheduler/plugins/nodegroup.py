"""Groups of nodes for queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hekla.api.reasons import Reason
from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.extension import HIERARCHY, Argument, NodeFilter, NodeScore, SchedulerPlugin
from hekla.scheduler.fit import Refusal
from hekla.scheduler.grouplimits import GroupLimits
from hekla.scheduler.queuetree import QueueTree
from hekla.scheduler.rows import NodeGroups
from hekla.scheduler.session import PodClass, Session

NODE_GROUP = "volcano.sh/nodegroup-name"


class NodeGroup(SchedulerPlugin, NodeFilter, NodeScore):
    """A queue's pods go only to the groups of nodes it names, within its limits there, rather to those it prefers."""

    BY_CONSTRAINTS: ClassVar[bool] = True

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        "strict": Argument(bool, True),
        "enablePreferredOrder": Argument(bool, False),
    }
    OPTIONS: ClassVar[tuple[str, ...]] = (HIERARCHY,)

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._tree = QueueTree(session.queues) if arguments[HIERARCHY] else None
        self._groups = np.array([node.labels.get(NODE_GROUP, "") for node in session.snapshot.nodes.rows], dtype=object)
        self._limits = GroupLimits(session, self._groups.tolist())

    def refusals(self, of: PodClass) -> Sequence[Refusal]:
        found: list[Refusal] = []
        unlabelled: Flags = self._groups == ""
        wishes = self._wishes(of.queue)
        if self.session.queues[of.queue].node_group_limits is None:
            everywhere: Flags = np.ones(len(self._groups), dtype=bool)
            _add(found, "node group resource limit annotation invalid", everywhere)
            return found
        if self.arguments["strict"] or wishes is not None:
            _add(found, "node group label not found", unlabelled)
        if wishes is None:
            _add(found, "node group affinity not specified", ~unlabelled)
            return found
        # parity: a queue that only says which groups it must not use may use none.
        admitted = ({*wishes.required, *wishes.preferred} - {*wishes.forbidden}) | {*wishes.avoided}
        refused = ~unlabelled & ~np.isin(self._groups, sorted(admitted))
        _add(found, "node does not satisfy the node group affinity", refused)
        full = self._limits.exceeded(of)
        if full is not None:
            _add(found, "node group resource limit exceeded", full & ~refused, Reason.QUEUE_OVER_QUOTA)
        return found

    def has_preference(self, of: PodClass) -> bool:
        return self._wishes(of.queue) is not None

    def preference(self, of: PodClass, candidates: Ints) -> Floats:
        wishes = self._wishes(of.queue) or NodeGroups()
        points = {group: self._points(wishes, group) for group in sorted(set(self._groups[candidates].tolist()))}
        return np.array([points[group] for group in self._groups[candidates].tolist()])

    def _points(self, wishes: NodeGroups, group: str) -> float:
        if group in wishes.avoided:
            return -1.0
        points = 100.0 if group in wishes.required else 0.0
        if group in wishes.preferred:
            count, position = len(wishes.preferred), wishes.preferred.index(group)
            points += 50.0 * (count - position) / count if self.arguments["enablePreferredOrder"] else 50.0
        return points

    def _wishes(self, queue: str) -> NodeGroups | None:
        """The queue's own, or, in the tree, those of the nearest queue above that has any."""
        names = self._tree.way_up(queue) if self._tree else [queue]
        found = (self.session.queues[name].node_groups for name in names)
        return next((wishes for wishes in found if wishes is not None), None)


def _add(found: list[Refusal], text: str, nodes: Flags, reason: Reason = Reason.NO_NODE_MATCHES) -> None:
    if nodes.any():
        found.append(Refusal(text, reason, nodes))
