"""kube-scheduler's own taste in nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hekla.scheduler.arrays.greedy import Following
from hekla.scheduler.arrays.resources import Floats, Ints
from hekla.scheduler.arrays.scores import normalise
from hekla.scheduler.arrays.spread import Spread, SpreadOfClass
from hekla.scheduler.company import SpreadRule
from hekla.scheduler.crowd import NO_KIN
from hekla.scheduler.evenness import DEFAULT_RULES, Evenness
from hekla.scheduler.extension import Argument, NodeScore, PairScore, SchedulerPlugin
from hekla.scheduler.families import NO_FAMILY
from hekla.scheduler.images import NO_IMAGES
from hekla.scheduler.matching import matches
from hekla.scheduler.neighbours import liking
from hekla.scheduler.plugins.predicates import counted_nodes, tolerates
from hekla.scheduler.rows import Constraints
from hekla.scheduler.session import PodClass, Session

_GPU = "nvidia.com/gpu"
_SPREAD_WEIGHT = "podtopologyspread.weight"


class NodeOrder(SchedulerPlugin, NodeScore):
    """Spread by free room and balance; images that are there; preferred affinity, taints one would rather avoid."""

    BY_CONSTRAINTS: ClassVar[bool] = True

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        "leastrequested.weight": Argument(int, 1),
        "mostrequested.weight": Argument(int, 0),
        "balancedresource.weight": Argument(int, 1),
        "nodeaffinity.weight": Argument(int, 2),
        "podaffinity.weight": Argument(int, 2),
        "tainttoleration.weight": Argument(int, 3),
        "imagelocality.weight": Argument(int, 1),
        _SPREAD_WEIGHT: Argument(int, 2),
    }

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._nodes = session.snapshot.nodes.rows
        self._avoided = [
            line
            for line in session.snapshot.nodes.tainted
            if any(taint.effect == "PreferNoSchedule" for taint in self._nodes[line].taints)
        ]
        columns = session.snapshot.columns
        self._balanced = [0, 1, *([columns.index[_GPU]] if _GPU in columns.index else [])]
        self._spread = Spread(
            session.snapshot.nodes.allocatable,
            session.assumed,
            session.used,
            session.pipelined,
            session.changes,
            arguments["leastrequested.weight"],
            arguments["mostrequested.weight"],
            arguments["balancedresource.weight"],
        )

    def pair_score(self, shape: int) -> PairScore | None:
        if not self._spread.counts:
            return None
        kind, request = self.session.snapshot.shapes[shape], self.session.request(shape)
        # A GPU counts for the balance of a node only with pods that ask for one. With pods that ask for nothing there
        # is no balance: they would all go to the one node that has most of it.
        balanced = [(column, float(request[column])) for column in self._balanced if column < 2 or request[column] > 0]
        if not any(amount for _, amount in balanced):
            balanced = []
        crowded = self.session.has_later
        return SpreadOfClass(self._spread, (kind.assumed_cpu, kind.assumed_memory), balanced, crowded)

    def standing_score(self, of: PodClass) -> Floats | None:
        weight = self.arguments["imagelocality.weight"]
        if not weight or of.images == NO_IMAGES:
            return None
        points: Floats = self.session.images.points(of.images) * np.float64(weight)
        return points

    def has_preference(self, of: PodClass) -> bool:
        constraints = self.session.constraints(of)
        return bool(self._likes(constraints) or self._avoids() or self._is_liked(of) or self._spreads(of))

    def preference(self, of: PodClass, candidates: Ints) -> Floats:
        total = self._regardless_of_spread(of, candidates)
        if self._spreads(of):
            total += self._evenness(of, candidates).points * self.arguments[_SPREAD_WEIGHT]
        return total

    def following(self, of: PodClass, candidates: Ints) -> Following | None:
        if not self._spreads(of):
            return None
        regardless, evenness = self._regardless_of_spread(of, candidates), self._evenness(of, candidates)
        counted = self.session.families.counts_itself(of.family)
        return _Brothers(regardless, evenness, self.arguments[_SPREAD_WEIGHT], counted)

    def _regardless_of_spread(self, of: PodClass, candidates: Ints) -> Floats:
        constraints, crowd = self.session.constraints(of), self.session.crowd
        total = np.zeros(len(candidates))
        if self._likes(constraints):
            total += self._affinity(constraints, candidates)
        if self._avoids():
            total += self._taints(constraints, candidates)
        if self._is_liked(of):
            points = liking(crowd, constraints.company, of.kin, candidates, len(self._nodes))
            total += points * self.arguments["podaffinity.weight"]
        return total

    def _is_liked(self, of: PodClass) -> bool:
        company = self.session.constraints(of).company
        wishes = of.kin != NO_KIN or (company is not None and company.preferred)
        return bool(wishes and self.arguments["podaffinity.weight"])

    def _spreads(self, of: PodClass) -> bool:
        wishes = of.family != NO_FAMILY or self._soft_rules(of)
        return bool(wishes and self.arguments[_SPREAD_WEIGHT])

    def _evenness(self, of: PodClass, candidates: Ints) -> Evenness:
        session, crowd, constraints = self.session, self.session.crowd, self.session.constraints(of)
        rules = DEFAULT_RULES if of.family != NO_FAMILY else self._soft_rules(of)
        if of.family != NO_FAMILY:
            counts = [session.families.heads(of.family)] * len(rules)
        else:
            counts = [crowd.matching(rule.term, leaving=False) for rule in rules]
        counted = [counted_nodes(session, constraints, rule) for rule in rules]
        return Evenness(crowd, rules, counts, counted, candidates, needs_labels=of.family == NO_FAMILY)

    def _soft_rules(self, of: PodClass) -> Sequence[SpreadRule]:
        company = self.session.constraints(of).company
        return [rule for rule in company.spread if not rule.hard] if company is not None else ()

    def _likes(self, constraints: Constraints) -> bool:
        return bool(constraints.preferred and self.arguments["nodeaffinity.weight"])

    def _avoids(self) -> bool:
        return bool(self._avoided and self.arguments["tainttoleration.weight"])

    def _affinity(self, constraints: Constraints, candidates: Ints) -> Floats:
        raw = np.array(
            [
                float(sum(points for points, term in constraints.preferred if matches(term, self._nodes[line])))
                for line in candidates.tolist()
            ]
        )
        return normalise(raw, self.arguments["nodeaffinity.weight"], reverse=False)

    def _taints(self, constraints: Constraints, candidates: Ints) -> Floats:
        # Only tolerations for this effect, or for any, speak here.
        tolerations = [item for item in constraints.tolerations if item.effect in ("", "PreferNoSchedule")]
        raw = np.zeros(len(self._nodes))
        for line in self._avoided:
            taints = [taint for taint in self._nodes[line].taints if taint.effect == "PreferNoSchedule"]
            raw[line] = sum(1.0 for taint in taints if not tolerates(tolerations, taint))
        return normalise(raw[candidates], self.arguments["tainttoleration.weight"], reverse=True)


class _Brothers:
    """What pods of one family make of the candidates: the more of them are near, the less is a node liked."""

    def __init__(self, regardless: Floats, evenness: Evenness, weight: int, counted: bool) -> None:
        self._regardless, self._evenness, self._weight, self._counted = regardless, evenness, weight, counted
        self.points: Floats = regardless + evenness.points * weight

    def add(self, at: int) -> None:
        if self._counted:
            changed = self._evenness.add(at)
            self.points[changed] = self._regardless[changed] + self._evenness.points[changed] * self._weight
