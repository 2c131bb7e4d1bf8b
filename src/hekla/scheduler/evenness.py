"""How evenly pods are spread over parts of the cluster, in points for nodes: kube-scheduler's soft rules of spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.company import PodTerm, SpreadRule
from hekla.scheduler.crowd import Crowd
from hekla.scheduler.neighbours import without_label

HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_EPSILON = 1e-9
_ALL = slice(None)


def _by_default(key: str, max_skew: int) -> SpreadRule:
    return SpreadRule(
        PodTerm(key, None, ()), max_skew, hard=False, min_domains=1,
        honours_affinity=True, honours_taints=False, counts_itself=True,
    )  # fmt: skip


# What kube-scheduler wishes for pods of a family, without being asked. Whom they count the family says.
DEFAULT_RULES = (_by_default(HOSTNAME, 3), _by_default(_ZONE, 5))


class Evenness:
    """`points`, 0 … 100 for each candidate: the emptier its parts of the cluster, the better.

    For each rule: how many pods are on each node, and the nodes whose pods count. A node without the labels gets 0
    where it `needs_labels`; else it belongs, with others like it, to a part of its own that counts as empty.
    """

    def __init__(
        self,
        crowd: Crowd,
        rules: Sequence[SpreadRule],
        counts: Sequence[Ints],
        eligible: Sequence[Flags],
        candidates: Ints,
        *,
        needs_labels: bool = True,
    ) -> None:
        nodes = len(eligible[0])
        known = ~without_label(crowd, rules, nodes) if needs_labels else np.ones(nodes, dtype=bool)
        self._known: Flags = known[candidates]
        self._all_known = bool(self._known.all())
        among = np.zeros(nodes, dtype=bool)
        among[candidates] = True
        among &= known
        self._rules = [
            _Rule(crowd, rule, found, counted & known, among, candidates)
            for rule, found, counted in zip(rules, counts, eligible)
        ]
        self._raw: Floats = np.zeros(len(candidates))
        self._range = (0.0, 0.0)
        self.points: Floats = np.zeros(len(candidates))
        if self._known.any():
            self._follow(_ALL)

    def add(self, at: int) -> Ints | slice:
        """One more pod is on the candidate at that position: for which of them the points may have changed."""
        concerned: Ints | slice = np.array([at])
        for rule in self._rules:
            others = rule.add(at)
            concerned = concerned if others is None else others
        return self._follow(concerned)

    def _follow(self, concerned: Ints | slice) -> Ints | slice:
        raw: Floats = sum((rule.points(concerned) for rule in self._rules), np.zeros(()))
        self._raw[concerned] = np.floor(raw + 0.5)
        counted = self._raw if self._all_known else self._raw[self._known]
        found = (float(counted.max()), float(counted.min()))
        if found != self._range:
            self._range, concerned = found, _ALL
        highest, lowest = found
        raw = self._raw[concerned]
        score: Floats | float = np.floor(100 * (highest + lowest - raw) / highest + _EPSILON) if highest else 100.0
        self.points[concerned] = score if self._all_known else np.where(self._known[concerned], score, 0.0)
        return concerned


class _Rule:
    """What one rule has against each candidate."""

    def __init__(
        self, crowd: Crowd, rule: SpreadRule, found: Ints, counted: Flags, among: Flags, candidates: Ints
    ) -> None:
        domains = crowd.domains(rule.term.key)
        self._has: Flags = domains.has[candidates]
        self._skew = rule.max_skew - 1
        self._counted: Flags = counted[candidates]
        self._together: dict[int, Ints] = {}  # by domain
        if rule.term.key == HOSTNAME:
            self._domain: Ints | None = None
            parts = np.count_nonzero(among)
            near: Floats | Ints = found
        else:
            self._domain = domains.of_node[candidates]
            parts = np.count_nonzero(domains.present(among)) + bool(np.any(among & ~domains.has))
            near = domains.spread_out(domains.sums(found, counted))
        self._weight = np.log(parts + 2)
        self._near: Floats = near[candidates].astype(np.float64)

    def points(self, at: Ints | slice) -> Floats:
        points: Floats = np.where(self._has[at], self._near[at] * self._weight + self._skew, 0.0)
        return points

    def add(self, at: int) -> Ints | None:
        """One more pod on a candidate: the others it is counted for as well, None where there are none."""
        if self._domain is None:
            self._near[at] += 1
            return None
        if not self._counted[at] or not self._has[at]:
            return None
        domain = int(self._domain[at])
        if domain not in self._together:
            self._together[domain] = np.flatnonzero(self._domain == domain)
        self._near[self._together[domain]] += 1
        return self._together[domain]
