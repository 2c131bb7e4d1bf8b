"""In one cycle: which waiting pods belong together by a Service or a workload, and how many of each family are where.

Families are numbered as they are met. Who is where is counted for a family when it is first asked about, among those
who have the label its selector is filed under, and kept up to date as pods come and go in the session.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hekla.scheduler.arrays.resources import Ints
from hekla.scheduler.filing import label_with, labels_in
from hekla.scheduler.rows import Pod, PodStatus
from hekla.scheduler.siblings import Family, Label
from hekla.scheduler.snapshot import Group, Snapshot

NO_FAMILY = -1
_Filed = tuple[str, Label]


class Families:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._siblings = snapshot.siblings
        keys = snapshot.siblings.keys
        # Without anybody who selects pods of a namespace with waiting pods nothing is ever looked at or counted.
        self.active = bool(keys) and any(group.row.key.namespace in keys for group in snapshot.groups)
        self._numbers: dict[Family, int] = {}
        self._families: list[Family] = []
        self._filed: defaultdict[_Filed, list[int]] = defaultdict(list)
        self._heads: dict[int, Counter[int]] = {}  # by family: pods by node line
        self._column: tuple[int, Ints] | None = None  # the same of the family asked about last, for every line
        self._moves: defaultdict[_Filed, list[tuple[Pod, int, int]]] = defaultdict(list)
        self._residents: defaultdict[_Filed, list[Group | Pod]] | None = None
        self._lines: dict[str, int] = {}

    def number(self, pod: Pod) -> int:
        if not self.active or _has_rules_of_its_own(pod):
            return NO_FAMILY
        family = self._siblings.family_of(pod)
        if family is None:
            return NO_FAMILY
        found = self._numbers.get(family)
        if found is None:
            found = self._numbers[family] = len(self._families)
            self._families.append(family)
        return found

    def counts_itself(self, number: int) -> bool:
        """Whether pods of the family are among those that are counted for it."""
        return self._families[number].counts_itself

    def heads(self, number: int) -> Ints:
        """Pods of the family on each node, without those on their way out."""
        if self._column is None or self._column[0] != number:
            heads = self._heads_of(number)
            column: Ints = np.zeros(len(self._snapshot.nodes), dtype=np.int64)
            column[list(heads)] = list(heads.values())
            self._column = (number, column)
        return self._column[1]

    def move(self, pods: Sequence[Pod], lines: Sequence[int], sign: int) -> None:
        """Pods came onto nodes (+1) or left them (-1) in this session."""
        for pod, line in zip(pods, lines):
            for filed in self._places(pod):
                self._moves[filed].append((pod, line, sign))
                for number in self._filed.get(filed, ()):
                    self._note(number, pod, line, sign)

    def _note(self, number: int, pod: Pod, line: int, sign: int) -> None:
        if self._families[number].selector.matches(pod.labels):
            self._heads[number][line] += sign
            if self._column is not None and self._column[0] == number:
                self._column[1][line] += sign

    def _heads_of(self, number: int) -> Counter[int]:
        if number not in self._heads:
            self._heads[number] = Counter()
            family = self._families[number]
            filed = (family.namespace, family.label)
            self._filed[filed].append(number)
            for pod, line in self._settled(filed):
                self._note(number, pod, line, 1)
            for pod, line, sign in self._moves.get(filed, ()):
                self._note(number, pod, line, sign)
        return self._heads[number]

    def _settled(self, filed: _Filed) -> Iterator[tuple[Pod, int]]:
        """Who may be meant and had a node when the cycle began."""
        namespace, label = filed
        at_rest = self._snapshot.filed.get(namespace, {}).get(label, ())
        for resident in (*self._awake()[filed], *at_rest):
            for pod in resident.pods if isinstance(resident, Group) else (resident,):
                line = self._lines.get(pod.node)
                if line is not None and pod.holds_node and pod.status is not PodStatus.RELEASING:
                    yield pod, line

    def _awake(self) -> defaultdict[_Filed, list[Group | Pod]]:
        if self._residents is None:
            snapshot, keys = self._snapshot, self._siblings.keys
            self._lines = {node.name: line for line, node in enumerate(snapshot.nodes.rows)}
            self._residents = defaultdict(list)
            for group in snapshot.groups:
                namespace = group.row.key.namespace
                for key in keys.get(namespace, ()):
                    for label in labels_in(group, key):
                        self._residents[namespace, label].append(group)
            for pod in snapshot.strangers:
                for filed in self._places(pod):
                    self._residents[filed].append(pod)
        return self._residents

    def _places(self, pod: Pod) -> Iterable[_Filed]:
        return [
            (pod.namespace, label)
            for key in self._siblings.keys.get(pod.namespace, ())
            if (label := label_with(pod, key)) is not None
        ]


def _has_rules_of_its_own(pod: Pod) -> bool:
    company = pod.shape.constraints.company
    return company is not None and bool(company.spread)
