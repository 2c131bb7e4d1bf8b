"""Groups at rest, by the labels of their pods that selectors are filed under.

There may be very many of them, and a cycle asks for those of a few labels. What it is given does not change any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hekla.api.meta import Key
from hekla.scheduler.rows import Pod
from hekla.scheduler.siblings import ANY_LABEL, Label
from hekla.scheduler.snapshot import Filed, Group


class Filing:
    """Costs something only in namespaces in which there are selectors. One copy of a namespace's labels a snapshot."""

    def __init__(self) -> None:
        self._keys: Mapping[str, frozenset[str]] = {}
        self._groups: dict[str, dict[Label, dict[Key, Group]]] = {}  # by namespace
        self._changed: dict[str, set[Label]] = {}
        self._view: Filed = {}

    def add(self, group: Group) -> None:
        key = group.row.key
        for label in _labels_of(group, self._keys.get(key.namespace, ())):
            self._groups.setdefault(key.namespace, {}).setdefault(label, {})[key] = group
            self._changed.setdefault(key.namespace, set()).add(label)

    def remove(self, group: Group) -> None:
        key = group.row.key
        filed = self._groups.get(key.namespace, {})
        for label in _labels_of(group, self._keys.get(key.namespace, ())):
            del filed[label][key]
            self._changed.setdefault(key.namespace, set()).add(label)

    def clear(self) -> None:
        self._groups, self._changed, self._view = {}, {}, {}

    def snapshot(self, keys: Mapping[str, frozenset[str]], groups: Iterable[Group]) -> Filed:
        """`groups` are all of them, looked at where selectors are filed under other keys than before."""
        if keys is not self._keys:
            self._file_anew(keys, groups)
        if self._changed:
            self._view = {**self._view, **{namespace: self._seen(namespace) for namespace in self._changed}}
            self._changed = {}
        return self._view

    def _file_anew(self, keys: Mapping[str, frozenset[str]], groups: Iterable[Group]) -> None:
        before, self._keys = self._keys, keys
        differ = {namespace for namespace in {*before, *keys} if before.get(namespace) != keys.get(namespace)}
        if not differ:
            return
        for namespace in differ:
            self._groups.pop(namespace, None)
        self._view = {namespace: filed for namespace, filed in self._view.items() if namespace not in differ}
        self._changed = {namespace: filed for namespace, filed in self._changed.items() if namespace not in differ}
        for group in groups:
            if group.row.key.namespace in differ:
                self.add(group)

    def _seen(self, namespace: str) -> dict[Label, tuple[Group, ...]]:
        filed, seen = self._groups[namespace], dict(self._view.get(namespace, {}))
        for label in self._changed[namespace]:
            if filed[label]:
                seen[label] = tuple(filed[label].values())
            else:
                del filed[label]
                seen.pop(label, None)
        return seen


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
