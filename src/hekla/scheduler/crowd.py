"""Who is where, by labels: what affinity, anti-affinity and spread are judged by.

Counts are columns with one entry a node, made when first asked for and kept up to date as pods come and go in the
session. A cluster where no pod cares about others never counts anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hekla.scheduler.arrays.resources import Floats, Ints
from hekla.scheduler.arrays.topology import Domains, domains_of
from hekla.scheduler.company import Company, PodTerm
from hekla.scheduler.rows import Pod, PodStatus
from hekla.scheduler.snapshot import Group, Snapshot

NO_KIN = 0


class _Wanted(NamedTuple):
    terms: tuple[PodTerm, ...]
    leaving: bool


class _Answer(NamedTuple):
    wanted: _Wanted
    found: tuple[tuple[str, int], ...]

    def is_to(self, wanted: _Wanted) -> bool:
        """Asked with the very same terms: to compare what they say would take longer than to look."""
        mine = self.wanted
        if mine.leaving != wanted.leaving or len(mine.terms) != len(wanted.terms):
            return False
        return all(one is other for one, other in zip(mine.terms, wanted.terms))


class Crowd:
    """`kin` numbers pods by which of the terms about others they match: equal numbers are treated alike."""

    def __init__(self, snapshot: Snapshot) -> None:
        companies = [shape.constraints.company for shape in snapshot.shapes if shape.constraints.company is not None]
        self.active = bool(companies)
        self._snapshot = snapshot
        terms = [term for company in companies for _, term in company.toward_others()]
        terms += [term for company in companies for term in company.shunned]
        self._terms = list(dict.fromkeys(terms))
        self._kins: dict[tuple[bool, ...], int] = {(False,) * len(self._terms): NO_KIN}
        self._met: dict[int, frozenset[PodTerm]] = {NO_KIN: frozenset()}
        self._kin_of: dict[str, int] = {}
        self._placed: list[tuple[Pod, int]] | None = None
        self._moves: list[tuple[Pod, int, int]] = []
        self._matching: dict[tuple[PodTerm, bool], Ints] = {}
        self._sought_together: dict[tuple[PodTerm, ...], Ints] = {}
        self._shunning: dict[PodTerm, Ints] | None = None
        self._liking: dict[PodTerm, Floats] | None = None
        self._with_resting: set[tuple[str, PodTerm]] = set()  # which of the two counts those at rest already
        self._domains: dict[str, Domains] = {}
        self._lines: dict[str, int] | None = None

    def kin(self, pod: Pod) -> int:
        if not self._terms:
            return NO_KIN
        found = self._kin_of.get(pod.uid)
        if found is None:
            matched = tuple(self._is_meant(term, pod) for term in self._terms)
            found = self._kin_of[pod.uid] = self._kins.setdefault(matched, len(self._kins))
            self._met[found] = frozenset(term for term, met in zip(self._terms, matched) if met)
        return found

    def includes_home(self, company: Company) -> bool:
        """Whether the pods a pod seeks may be of its own namespace, where that depends on labels of namespaces."""
        if not company.home:
            return True
        about = self._snapshot.namespaces.get(company.home)
        return all(term.includes(company.home, about) for term in company.sought)

    def domains(self, key: str) -> Domains:
        """The parts of the cluster a label of nodes makes."""
        if key not in self._domains:
            self._domains[key] = domains_of([node.labels.get(key) for node in self._snapshot.nodes.rows])
        return self._domains[key]

    def matching(self, term: PodTerm, *, leaving: bool) -> Ints:
        """Pods on each node that match; those on their way out count or do not."""
        found = self._matching.get((term, leaving))
        if found is None:
            found = self._matching[term, leaving] = self._count([term], leaving=leaving)
        return found

    def matching_all(self, terms: tuple[PodTerm, ...]) -> Ints:
        """Pods on each node that match every one of the terms."""
        if terms not in self._sought_together:
            self._sought_together[terms] = self._count(terms, leaving=True)
        return self._sought_together[terms]

    def shunning(self, kin: int) -> list[tuple[PodTerm, Ints]]:
        """Terms by which pods that are there refuse newcomers of this kin, with how many of them are on each node."""
        if self._shunning is None:
            self._shunning = {}
            for pod, line, sign in self._awake():
                self._note_shunning(self._shunning, pod, line, sign)
        for term in self._unheard("shunning", kin):
            for pod, line in self._at_rest(self._snapshot.acquainted.by_term.get(term, ())):
                self._note_shunning(self._shunning, pod, line, 1, only=term)
        return [(term, count) for term, count in self._shunning.items() if self._is_met_by(term, kin)]

    def liking(self, kin: int) -> list[tuple[PodTerm, Floats]]:
        """Likewise the terms by which they like, or would rather not see, newcomers of this kin, in points."""
        if self._liking is None:
            self._liking = {}
            for pod, line, sign in self._awake():
                self._note_liking(self._liking, pod, line, sign)
        for term in self._unheard("liking", kin):
            for pod, line in self._at_rest(self._snapshot.acquainted.by_term.get(term, ())):
                self._note_liking(self._liking, pod, line, 1, only=term)
        return [(term, points) for term, points in self._liking.items() if self._is_met_by(term, kin)]

    def move(self, pods: Sequence[Pod], lines: Sequence[int], sign: int) -> None:
        """Pods came onto nodes (+1) or left them (-1) in this session."""
        for pod, line in zip(pods, lines):
            self._moves.append((pod, line, sign))
            for (term, _), count in self._matching.items():
                count[line] += sign * self._is_meant(term, pod)
            for terms, count in self._sought_together.items():
                count[line] += sign * all(self._is_meant(term, pod) for term in terms)
            if self._shunning is not None:
                self._note_shunning(self._shunning, pod, line, sign)
            if self._liking is not None:
                self._note_liking(self._liking, pod, line, sign)

    def _is_meant(self, term: PodTerm, pod: Pod) -> bool:
        return term.matches(pod.namespace, pod.labels, self._snapshot.namespaces.get(pod.namespace))

    def _is_met_by(self, term: PodTerm, kin: int) -> bool:
        return term in self._met[kin]

    def _unheard(self, what: str, kin: int) -> list[PodTerm]:
        """The terms this kin meets of which nobody has asked those at rest yet."""
        terms = [term for term in self._met[kin] if (what, term) not in self._with_resting]
        self._with_resting.update((what, term) for term in terms)
        return terms

    def _count(self, terms: Iterable[PodTerm], *, leaving: bool) -> Ints:
        wanted = _Wanted(tuple(terms), leaving)
        count: Ints = np.zeros(len(self._snapshot.nodes), dtype=np.int64)
        for pod, line, sign in self._awake():
            if self._is_wanted(wanted, pod):
                count[line] += sign
        lines = self._lines_by_name()
        for group in self._possibly_meant(wanted.terms):
            for node, number in self._wanted_in(wanted, group):
                if node in lines:
                    count[lines[node]] += number
        return count

    def _is_wanted(self, wanted: _Wanted, pod: Pod) -> bool:
        if not wanted.leaving and pod.status is PodStatus.RELEASING:
            return False
        return all(self._is_meant(term, pod) for term in wanted.terms)

    def _possibly_meant(self, terms: tuple[PodTerm, ...]) -> Iterable[Group]:
        """The groups at rest that have one of the labels without which nobody is meant."""
        filed = self._snapshot.acquainted.by_label
        found: Collection[Group] = self._snapshot.resting
        for labels in (labels for term in terms for labels in term.labels):
            if sum(len(filed.get(label, ())) for label in labels) < len(found):
                found = {group.row.key: group for label in labels for group in filed.get(label, ())}.values()
        return found if all(term.selector is not None for term in terms) else ()

    def _wanted_in(self, wanted: _Wanted, group: Group) -> Sequence[tuple[str, int]]:
        """How many of a group at rest are meant on which node. It remembers what it was asked last: pods of one
        template ask the same."""
        known = group.memo.get(_Wanted)
        if isinstance(known, _Answer) and known.is_to(wanted):
            return known.found
        pods = (pod for pod in group.pods if pod.holds_node and self._is_wanted(wanted, pod))
        found = tuple(Counter(pod.node for pod in pods).items())
        # Labels of namespaces may change while groups rest.
        if all(term.others is None for term in wanted.terms):
            group.memo[_Wanted] = _Answer(wanted, found)
        return found

    def _note_shunning(
        self, table: dict[PodTerm, Ints], pod: Pod, line: int, sign: int, only: PodTerm | None = None
    ) -> None:
        company = pod.shape.constraints.company
        for term in company.shunned if company is not None else ():
            if only is not None and term != only:
                continue
            if term not in table:
                table[term] = np.zeros(len(self._snapshot.nodes), dtype=np.int64)
            table[term][line] += sign

    def _note_liking(
        self, table: dict[PodTerm, Floats], pod: Pod, line: int, sign: int, only: PodTerm | None = None
    ) -> None:
        company = pod.shape.constraints.company
        for points, term in company.toward_others() if company is not None else ():
            if only is not None and term != only:
                continue
            if term not in table:
                table[term] = np.zeros(len(self._snapshot.nodes))
            table[term][line] += sign * points

    def _awake(self) -> list[tuple[Pod, int, int]]:
        """Who had a node when the cycle began, those at rest aside, and who has moved since."""
        if self._placed is None:
            pods = (pod for group in self._snapshot.groups for pod in group.pods)
            self._placed = [*self._with_lines(pods), *self._with_lines(self._snapshot.strangers)]
        return [*((pod, line, 1) for pod, line in self._placed), *self._moves]

    def _at_rest(self, groups: Iterable[Group]) -> Iterator[tuple[Pod, int]]:
        return self._with_lines(pod for group in groups for pod in group.pods)

    def _with_lines(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, int]]:
        lines = self._lines_by_name()
        return ((pod, lines[pod.node]) for pod in pods if pod.holds_node and pod.node in lines)

    def _lines_by_name(self) -> dict[str, int]:
        if self._lines is None:
            self._lines = {node.name: line for line, node in enumerate(self._snapshot.nodes.rows)}
        return self._lines
