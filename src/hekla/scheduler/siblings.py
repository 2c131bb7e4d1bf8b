"""Pods that a Service, a ReplicaSet, a StatefulSet or a ReplicationController holds together.

Such pods are spread over hosts and zones, as kube-scheduler does it unasked. Who belongs together is found by label:
each selector is filed under one label it wants, so that a pod nobody selects costs a look for each of its labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict, TypeVar

from hekla.api.kinds import REPLICATION_CONTROLLER, Kind, Obj
from hekla.api.meta import Key, key_of
from hekla.api.selector import Operator, Selector, label_selector_from
from hekla.scheduler.rows import Pod, Workload

Label = tuple[str, str]
ANY_LABEL: Label = ("", "")

K = TypeVar("K")


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str


class _Spec(TypedDict, total=False):
    selector: Any


class SelectingView(TypedDict, total=False):
    """What of a Service or a workload is looked at: there may be many, and their templates are large."""

    metadata: _Metadata
    spec: _Spec | None


class Family(NamedTuple):
    """Whose pods belong together: those of a namespace that a selector selects, all of which have `label`."""

    namespace: str
    selector: Selector
    label: Label
    counts_itself: bool = True  # a workload may own pods that its selector does not select


@dataclass(frozen=True, slots=True, eq=False)
class Siblings:
    """As one cycle sees it: selectors of Services by namespace and one of their labels, those of workloads by name."""

    services: Mapping[str, Mapping[Label, tuple[Selector, ...]]] = field(default_factory=dict)
    workloads: Mapping[Workload, Selector] = field(default_factory=dict)
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by namespace: of the labels they are filed under

    def family_of(self, pod: Pod) -> Family | None:
        """None for a pod that nobody selects."""
        filed = self.services.get(pod.namespace) or {}
        found = [
            requirement
            for label in pod.labels.items()
            for selector in filed.get(label, ())
            if selector.matches(pod.labels)
            for requirement in selector.requirements
        ]
        owner = self.workloads.get(pod.owner, _NOBODY) if pod.owner is not None else _NOBODY
        found += owner.requirements
        if not found:
            return None
        selector = Selector(tuple(dict.fromkeys(found)))
        return Family(pod.namespace, selector, label_of(selector, self.keys[pod.namespace]), owner.matches(pod.labels))


_NOBODY = Selector()
NO_SIBLINGS = Siblings()


class SiblingTable:
    """As the informers tell it. The cost of a change is that of copying a dict of its namespace.

    The `put_` and `remove_` methods answer, as others do, whether a decision may come out differently: who is selected
    together only makes some nodes better than others, and nobody has to be looked at again for that.
    """

    def __init__(self) -> None:
        self._services: dict[Key, Selector] = {}
        self._workloads: dict[Workload, Selector] = {}
        self._filed: dict[str, dict[Label, tuple[Selector, ...]]] = {}
        self._keys: dict[str, Counter[str]] = {}
        self._changed: set[str] = set()
        self._view = NO_SIBLINGS

    def put_service(self, obj: Obj) -> bool:
        self._put_service(key_of(obj), _of_labels((obj.get("spec") or {}).get("selector")))
        return False

    def remove_service(self, obj: Obj) -> bool:
        self._put_service(key_of(obj), None)
        return False

    def put_workload(self, kind: Kind, obj: Obj) -> bool:
        wanted = (obj.get("spec") or {}).get("selector")
        selector = _of_labels(wanted) if kind == REPLICATION_CONTROLLER else label_selector_from(wanted)
        self._put(self._workloads, Workload(kind.kind, key_of(obj)), key_of(obj).namespace, selector or None)
        return False

    def remove_workload(self, kind: Kind, obj: Obj) -> bool:
        self._put(self._workloads, Workload(kind.kind, key_of(obj)), key_of(obj).namespace, None)
        return False

    def snapshot(self) -> Siblings:
        if self._changed:
            services, keys = dict(self._view.services), dict(self._view.keys)
            for namespace in self._changed:
                services[namespace] = dict(self._filed.get(namespace, {}))
                keys[namespace] = frozenset(self._keys.get(namespace, ()))
                if not keys[namespace]:
                    del services[namespace], keys[namespace]
            self._view = Siblings(services, dict(self._workloads), keys)
            self._changed.clear()
        return self._view

    def _put_service(self, key: Key, selector: Selector | None) -> None:
        filed = self._filed.setdefault(key.namespace, {})
        before = self._services.get(key)
        if before == selector:
            return
        if before is not None:
            label = label_of(before)
            rest = list(filed[label])
            rest.remove(before)
            if rest:
                filed[label] = tuple(rest)
            else:
                del filed[label]
        if selector is not None:
            filed[label_of(selector)] = (*filed.get(label_of(selector), ()), selector)
        self._put(self._services, key, key.namespace, selector)

    def _put(self, table: dict[K, Selector], key: K, namespace: str, selector: Selector | None) -> None:
        before = table.pop(key, None)
        keys = self._keys.setdefault(namespace, Counter())
        if before is not None:
            keys[label_of(before)[0]] -= 1
        if selector is not None:
            table[key] = selector
            keys[label_of(selector)[0]] += 1
        self._keys[namespace] = +keys
        self._changed.add(namespace)


def label_of(selector: Selector, keys: Container[str] | None = None) -> Label:
    """A label that all pods have which the selector selects: the first, or the first with one of these keys."""
    for requirement in selector.requirements:
        one = requirement.operator is Operator.IN and len(requirement.values) == 1
        if one and (keys is None or requirement.key in keys):
            return (requirement.key, requirement.values[0])
    return ANY_LABEL


def _of_labels(wanted: Mapping[str, str] | None) -> Selector | None:
    """No labels at all select nobody."""
    return label_selector_from({"matchLabels": wanted}) if wanted else None
