"""Volumes whose labels say in which zone or region they are, as those of old drivers do; kube-scheduler's rules."""

from __future__ import annotations

from collections.abc import Mapping

_TODAY = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS = (*_TODAY, *_TODAY.values())
_OR = "__"

Zones = tuple[tuple[str, frozenset[str]], ...]


def read_zones(labels: Mapping[str, str]) -> Zones:
    """By label: the values that will do. A label that names an empty zone says nothing."""
    named = [(label, frozenset(map(str.strip, labels[label].split(_OR)))) for label in _LABELS if label in labels]
    return tuple((label, values) for label, values in named if "" not in values)


def is_reached(zones: Zones, node: Mapping[str, str]) -> bool:
    """From a node with these labels. One that does not say at all where it is reaches everything: where nobody says so
    there is one zone."""
    if not any(label in node for label in _LABELS):
        return True
    return all(_value(node, label) in values for label, values in zones)


def _value(node: Mapping[str, str], label: str) -> str | None:
    return node[label] if label in node else node.get(_TODAY.get(label, label))
