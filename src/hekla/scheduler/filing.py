"""Groups at rest, by what others look for in their pods: labels that selectors are filed under, above all.

There may be very many of them, and a cycle asks for those of a few labels. What it is given does not change any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from hekla.api.meta import Key
from hekla.scheduler.company import PodTerm
from hekla.scheduler.rows import Pod
from hekla.scheduler.siblings import ANY_LABEL, Label
from hekla.scheduler.snapshot import Acquainted, Filed, Group

K = TypeVar("K")


class Drawers(Generic[K]):
    """Groups by whatever they are looked up by; some belong into several drawers. Only drawers that have changed cost
    a snapshot anything."""

    def __init__(self) -> None:
        self._groups: dict[K, dict[Key, Group]] = {}
        self._changed: set[K] = set()
        self._view: Mapping[K, tuple[Group, ...]] = {}

    def add(self, drawer: K, group: Group) -> None:
        self._groups.setdefault(drawer, {})[group.row.key] = group
        self._changed.add(drawer)

    def remove(self, drawer: K, group: Group) -> None:
        del self._groups[drawer][group.row.key]
        self._changed.add(drawer)

    def view(self) -> Mapping[K, tuple[Group, ...]]:
        if self._changed:
            seen = dict(self._view)
            for drawer in self._changed:
                if self._groups[drawer]:
                    seen[drawer] = tuple(self._groups[drawer].values())
                else:
                    del self._groups[drawer]
                    seen.pop(drawer, None)
            self._view, self._changed = seen, set()
        return self._view


class Filing:
    """Costs something only in namespaces in which there are selectors."""

    def __init__(self) -> None:
        self._keys: Mapping[str, frozenset[str]] = {}
        self._drawers: dict[str, Drawers[Label]] = {}  # by namespace
        self._changed: set[str] = set()
        self._view: Filed = {}

    def add(self, group: Group) -> None:
        namespace = group.row.key.namespace
        for label in _labels_of(group, self._keys.get(namespace, ())):
            self._drawers.setdefault(namespace, Drawers()).add(label, group)
            self._changed.add(namespace)

    def remove(self, group: Group) -> None:
        namespace = group.row.key.namespace
        for label in _labels_of(group, self._keys.get(namespace, ())):
            self._drawers[namespace].remove(label, group)
            self._changed.add(namespace)

    def clear(self) -> None:
        self._drawers, self._changed, self._view = {}, set(), {}

    def snapshot(self, keys: Mapping[str, frozenset[str]], groups: Iterable[Group]) -> Filed:
        """`groups` are all of them, looked at where selectors are filed under other keys than before."""
        if keys is not self._keys:
            self._file_anew(keys, groups)
        if self._changed:
            self._view = {**self._view, **{namespace: self._drawers[namespace].view() for namespace in self._changed}}
            self._changed = set()
        return self._view

    def _file_anew(self, keys: Mapping[str, frozenset[str]], groups: Iterable[Group]) -> None:
        before, self._keys = self._keys, keys
        differ = {namespace for namespace in {*before, *keys} if before.get(namespace) != keys.get(namespace)}
        if not differ:
            return
        for namespace in differ:
            self._drawers.pop(namespace, None)
        self._view = {namespace: filed for namespace, filed in self._view.items() if namespace not in differ}
        self._changed -= differ
        for group in groups:
            if group.row.key.namespace in differ:
                self.add(group)


class CompanyFiling:
    """Groups at rest as those look for them to whom other pods are not all the same: by labels of their pods, and by
    what these want of newcomers."""

    def __init__(self) -> None:
        self._keys: frozenset[str] = frozenset()
        self._by_label: Drawers[Label] = Drawers()
        self._by_term: Drawers[PodTerm] = Drawers()

    def add(self, group: Group) -> None:
        for label in _labels_of(group, self._keys):
            self._by_label.add(label, group)
        for term in _terms_of(group):
            self._by_term.add(term, group)

    def remove(self, group: Group) -> None:
        for label in _labels_of(group, self._keys):
            self._by_label.remove(label, group)
        for term in _terms_of(group):
            self._by_term.remove(term, group)

    def clear(self) -> None:
        self._by_label, self._by_term = Drawers(), Drawers()

    def snapshot(self, keys: frozenset[str], groups: Iterable[Group]) -> Acquainted:
        """`groups` are all of them, looked at where labels with other keys than before are asked for."""
        if keys != self._keys:
            self._keys, self._by_label = keys, Drawers()
            for group in groups:
                for label in _labels_of(group, keys):
                    self._by_label.add(label, group)
        return Acquainted(self._by_label.view(), self._by_term.view())


def labels_in(group: Group, key: str) -> frozenset[Label]:
    """Which labels with the key pods of a group have. Groups stay the same for many cycles."""
    memo = ("labels", key)
    found = group.memo.get(memo)
    if not isinstance(found, frozenset):
        labels = (label_with(pod, key) for pod in group.pods)
        found = group.memo[memo] = frozenset(label for label in labels if label is not None)
    return found


def label_with(pod: Pod, key: str) -> Label | None:
    if key == ANY_LABEL[0]:
        return ANY_LABEL
    value = pod.labels.get(key)
    return None if value is None else (key, value)


def _labels_of(group: Group, keys: Iterable[str]) -> Iterable[Label]:
    return (label for key in keys for label in labels_in(group, key))


def _terms_of(group: Group) -> frozenset[PodTerm]:
    """What pods of the group want of those who come after them."""
    found = group.memo.get(_terms_of)
    if not isinstance(found, frozenset):
        each = {id(pod.shape): pod.shape.constraints.company for pod in group.pods}.values()
        found = group.memo[_terms_of] = frozenset(
            term for company in each if company is not None for term in company.about_newcomers()
        )
    return found
