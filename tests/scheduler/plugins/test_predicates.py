"""Which nodes a pod accepts and which accept it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.plugins.opened import Opened

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES: list[dict[str, Any]] = [
    {"name": "cordoned", "unschedulable": True},
    {"name": "plain"},
    {"name": "ssd", "labels": {"disk": "ssd", "size": "10"}},
    {"name": "tainted", "taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}]},
]


def accepted(pod: dict[str, Any], plugin: Any = "predicates") -> list[str]:
    opened = Opened([plugin], {"nodes": NODES, "groups": [{"name": "a", "pods": [{"cpu": 1, **pod}]}]})
    of = opened.session.class_of(opened.state("a"), 0)
    mask = opened.tiers.node_mask(of)
    return [node["name"] for line, node in enumerate(NODES) if mask is None or mask[line]]


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("pod", "nodes"),
    [
        ({}, ["plain", "ssd"]),
        ({"selector": {"disk": "ssd"}}, ["ssd"]),
        ({"selector": {"disk": "hdd"}}, []),
        ({"tolerations": [{"operator": "Exists"}]}, ["cordoned", "plain", "ssd", "tainted"]),
        ({"tolerations": [{"key": "team", "value": "red"}]}, ["plain", "ssd", "tainted"]),
        ({"tolerations": [{"key": "team", "value": "blue"}]}, ["plain", "ssd"]),
        ({"tolerations": [{"key": "team", "operator": "Exists", "effect": "NoExecute"}]}, ["plain", "ssd"]),
        (affinity(expression("disk", "In", "ssd")), ["ssd"]),
        (affinity(expression("disk", "DoesNotExist")), ["plain"]),
        (affinity(expression("size", "Gt", "9")), ["ssd"]),
        (affinity(expression("disk", "In", "hdd"), expression("disk", "In", "ssd")), ["ssd"]),
        (affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["plain"]}]}), ["plain"]),
        (affinity({}), []),
        (affinity(), []),
    ],
)
def test_a_pod_is_accepted_where_it_may_go(pod: dict[str, Any], nodes: list[str]) -> None:
    assert accepted(pod) == nodes


def test_single_checks_can_be_turned_off() -> None:
    plugin = {"name": "predicates", "arguments": {"predicate.TaintTolerationEnable": False}}
    assert accepted({}, plugin) == ["plain", "ssd", "tainted"]


def test_a_host_port_is_free_once_per_node() -> None:
    groups = [
        {"name": "held", "pods": [{"cpu": 1, "port": 80, "node": "plain"}]},
        {"name": "a", "pods": [{"cpu": 1, "port": 80}]},
    ]
    opened = Opened(["predicates"], {"nodes": NODES[1:3], "groups": groups})
    of = opened.session.class_of(opened.state("a"), 0)
    mask = opened.tiers.node_mask(of)
    assert mask is not None
    assert mask.tolist() == [False, True]
    assert opened.tiers.most_per_node(of, 5) == 1


def test_what_cannot_be_judged_yet_is_refused_by_name() -> None:
    pod = {"cpu": 1, "devices": [{"name": "gpu", "resourceClaimName": "mine"}]}
    opened = Opened(["predicates"], {"nodes": NODES, "groups": [{"name": "a", "pods": [pod]}]})
    texts = [refusal.text for refusal in opened.tiers.refusals(opened.session.class_of(opened.state("a"), 0))]
    assert "node(s) cannot be judged: resourceClaims is not supported yet" in texts
