"""What a pod wants of the company of other pods: affinity, anti-affinity, even spread; and how it is read.

`Company` is a value: pods that want the same share one, whatever else distinguishes them. Whether a pod would meet
its own wishes is part of it, so that nobody needs the pod itself later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.selector import Operator, Requirement, Selector, label_selector_from

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods of some namespaces (None: of all) with some labels (None: nobody), near or far by a label of nodes."""

    key: str
    selector: Selector | None
    namespaces: tuple[str, ...] | None
    others: Selector | None = None  # pods of namespaces with such labels as well

    def matches(self, namespace: str, labels: Mapping[str, str], about: Mapping[str, str] | None = None) -> bool:
        """`about` are the labels of the namespace."""
        return self.selects(labels) and self.includes(namespace, about)

    @property
    def labels(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Everybody it selects has one label of each of these sets."""
        requirements = self.selector.requirements if self.selector is not None else ()
        return tuple(
            tuple((requirement.key, value) for value in requirement.values)
            for requirement in requirements
            if requirement.operator is Operator.IN
        )

    def selects(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and self.selector.matches(labels)

    def includes(self, namespace: str, about: Mapping[str, str] | None = None) -> bool:
        if self.namespaces is None or namespace in self.namespaces:
            return True
        return self.others is not None and self.others.matches(about)


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """No part of the cluster may have more than `max_skew` pods more than another; soft rules are wishes."""

    term: PodTerm
    max_skew: int
    hard: bool
    min_domains: int
    honours_affinity: bool
    honours_taints: bool
    counts_itself: bool


@dataclass(frozen=True, slots=True)
class Company:
    sought: tuple[PodTerm, ...] = ()
    seeks_itself: bool = False  # it is itself what it seeks, so the first of its kind may go anywhere
    home: str = ""  # its namespace, where that decides about the above: labels of namespaces change
    shunned: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[int, PodTerm], ...] = ()  # with points, negative for those it would rather not meet
    spread: tuple[SpreadRule, ...] = ()

    def toward_others(self) -> Iterator[tuple[int, PodTerm]]:
        """What it means to newcomers, in points, once it is there: what it seeks it likes to see coming."""
        yield from ((1, term) for term in self.sought)
        yield from self.preferred

    def about_newcomers(self) -> Iterator[PodTerm]:
        yield from self.shunned
        yield from (term for _, term in self.toward_others())

    def label_keys(self) -> Iterator[str]:
        """By which the pods are found that it is about."""
        spread = (rule.term for rule in self.spread)
        preferred = (term for _, term in self.preferred)
        for term in (*self.sought, *self.shunned, *preferred, *spread):
            yield from (key for labels in term.labels for key, _ in labels)


def read_company(spec: Obj, namespace: str, labels: Mapping[str, str]) -> Company | None:
    """None for a pod to which other pods are all the same."""
    affinity = spec.get("affinity") or {}
    near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    rules = spec.get("topologySpreadConstraints") or ()
    if not near and not far and not rules:
        return None
    read = _Reader(namespace, labels)
    sought = tuple(read.term(item) for item in near.get(_REQUIRED) or ())
    company = Company(
        sought=sought,
        seeks_itself=all(
            term.selects(labels) and (term.others is not None or term.includes(namespace)) for term in sought
        ),
        home=namespace if any(term.others is not None for term in sought) else "",
        shunned=tuple(read.term(item) for item in far.get(_REQUIRED) or ()),
        preferred=(*read.preferred(near, 1), *read.preferred(far, -1)),
        spread=tuple(read.rule(item) for item in rules),
    )
    return None if company == Company(seeks_itself=True) else company


class _Reader:
    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self._namespace = namespace
        self._labels = labels

    def term(self, item: Obj) -> PodTerm:
        selector = self._selector(item)
        others = label_selector_from(item.get("namespaceSelector"))
        if others is not None and not others:
            return PodTerm(str(item.get("topologyKey") or ""), selector, None)
        namespaces = tuple(sorted(map(str, item.get("namespaces") or ())))
        if not namespaces and others is None:
            namespaces = (self._namespace,)
        return PodTerm(str(item.get("topologyKey") or ""), selector, namespaces, others)

    def preferred(self, affinity: Obj, sign: int) -> list[tuple[int, PodTerm]]:
        return [
            (sign * int(item.get("weight") or 0), self.term(item.get("podAffinityTerm") or {}))
            for item in affinity.get(_PREFERRED) or ()
        ]

    def rule(self, item: Obj) -> SpreadRule:
        selector = self._selector(item)
        term = PodTerm(str(item.get("topologyKey") or ""), selector, (self._namespace,))
        return SpreadRule(
            # parity: to kube-scheduler a selector that selects everybody selects nobody, apart from the pod itself.
            term=replace(term, selector=selector or None),
            max_skew=int(item.get("maxSkew") or 1),
            hard=item.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
            min_domains=int(item.get("minDomains") or 1),
            honours_affinity=item.get("nodeAffinityPolicy", "Honor") == "Honor",
            honours_taints=item.get("nodeTaintsPolicy", "Ignore") == "Honor",
            counts_itself=term.matches(self._namespace, self._labels),
        )

    def _selector(self, item: Mapping[str, Any]) -> Selector | None:
        selector = label_selector_from(item.get("labelSelector"))
        if selector is None:
            return None
        extra = [
            Requirement(key, operator, (self._labels[key],))
            for field, operator in (("matchLabelKeys", Operator.IN), ("mismatchLabelKeys", Operator.NOT_IN))
            for key in item.get(field) or ()
            if key in self._labels
        ]
        return Selector((*selector.requirements, *(one for one in extra if one not in selector.requirements)))
