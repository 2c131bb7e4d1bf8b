"""The checker the other tests rely on finds what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.scheduler.trial.objects import node_object, pod_object
from tests.scheduler.validity import REQUIRED, violations

NODES = [
    {"name": "n1", "cpu": 2, "labels": {"zone": "a"}},
    {"name": "n2", "cpu": 2, "labels": {"zone": "b"}},
    {"name": "off", "unschedulable": True, "labels": {"zone": "b"}},
    {"name": "red", "taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}], "labels": {"zone": "b"}},
]
ALIKE = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
X = {"labels": {"app": "x"}}


@pytest.mark.parametrize(
    ("pods", "rule"),
    [
        ([{"cpu": 1, "node": "n1"}, {"cpu": 2, "node": "n2"}], ""),
        ([{"cpu": "1500m", "node": "n1"}, {"cpu": "600m", "node": "n1"}], "n1 holds 2.1 cpu"),
        ([{"gpu": 1, "node": "n1"}], "n1 holds 1.0 nvidia.com/gpu"),
        ([{"port": 80, "node": "n1"}, {"port": 80, "node": "n1"}], "n1 has port 80 taken 2 times"),
        ([{"node": "off"}], "p0 on off: cordoned"),
        ([{"node": "red"}], "p0 on red: taint team"),
        ([{"node": "red", "tolerations": [{"key": "team", "value": "red"}]}], ""),
        ([{"node": "n1", "selector": {"zone": "b"}}], "p0 on n1: node selector"),
        (
            [{"node": "n1", **X, "affinity": {"podAntiAffinity": {REQUIRED: [ALIKE]}}}, {"node": "n1", **X}],
            "p0 on n1: anti-affinity within a",
        ),
        (
            [{"node": "n1", "affinity": {"podAffinity": {REQUIRED: [ALIKE]}}}, {"node": "n2", **X}],
            "p0 on n1: affinity to nobody within a",
        ),
        (
            [
                {"node": "n1", **X, "spread": [{**ALIKE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
                {"node": "n1", **X},
            ],
            "p0 on n1: spread over zone",
        ),
    ],
)
def test_what_is_wrong_is_found(pods: list[dict[str, Any]], rule: str) -> None:
    named = [pod_object({"name": f"p{number}", **pod}, None) for number, pod in enumerate(pods)]
    assert violations([node_object(node) for node in NODES], named) == ([rule] if rule else [])
