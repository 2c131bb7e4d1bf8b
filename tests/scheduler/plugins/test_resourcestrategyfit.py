from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hekla.scheduler.config import ConfigError, parse_config
from tests.scheduler.plugins.opened import Opened

# Each has 4 CPUs and 8Gi; one is half full, one has GPUs.
NODES = [{"name": "empty"}, {"name": "gpus", "gpu": 4}, {"name": "half"}]
RUNNING = {"name": "r", "phase": "Running", "pods": [{"node": "half", "cpu": 2, "memory": "2Gi"}]}
TYPE, WEIGHT = "volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"


def points(arguments: dict[str, Any], pod: dict[str, Any]) -> list[float]:
    """What each of the nodes gets for a pod."""
    given = {"nodes": NODES, "groups": [RUNNING, {"name": "a", "phase": "Inqueue", "pods": [pod]}]}
    opened = Opened(["gang", {"name": "resource-strategy-fit", "arguments": arguments}], given)
    score = opened.tiers.class_score(opened.session.class_of(opened.state("a"), 0), None)
    return score(np.arange(3), np.zeros(3, dtype=np.int64)).tolist()  # type: ignore[no-any-return]


def wishes(**kinds: Any) -> dict[str, Any]:
    """By resource: M for full, L for empty nodes, and a weight."""
    types = {"M": "MostAllocated", "L": "LeastAllocated"}
    return {name: {"type": types[kind], "weight": int(weight)} for name, (kind, weight) in kinds.items()}


POD = {"cpu": 1, "memory": "2Gi"}  # a quarter of each


def test_without_arguments_nodes_with_more_left_come_first() -> None:
    assert points({}, POD) == [750, 750, (25 + 50) / 2 * 10]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (wishes(cpu="M1"), [25, 25, 75]),
        (wishes(cpu="L3", memory="M1"), [(75 * 3 + 25) / 4, (75 * 3 + 25) / 4, (25 * 3 + 50) / 4]),
        (wishes(memory="M0"), [0, 0, 0]),
        ({"cpu": {}}, [75, 75, 25]),
        ({"cpu": None}, [75, 75, 25]),
        ({"mem*": {"type": "MostAllocated"}, "m*": {}}, [25, 25, 50]),
        ({"memory": {}, "mem*": {"type": "MostAllocated"}}, [75, 75, 50]),
        ({"nvidia.com/*": {}}, [0, 0, 0]),
    ],
)
def test_each_resource_that_a_pod_asks_for_has_its_own_wish(resources: Any, expected: list[float]) -> None:
    assert points({"resourceStrategyFitWeight": 1, "resources": resources}, POD) == expected


def test_a_node_that_would_overflow_gets_nothing() -> None:
    resources = {"cpu": {}, "memory": {"type": "MostAllocated"}}
    assert points({"resourceStrategyFitWeight": 1, "resources": resources}, {"cpu": 3, "memory": "2Gi"}) == [25, 25, 0]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({TYPE: "MostAllocated", WEIGHT: '{"cpu": 1}'}, [25, 25, 75]),
        ({TYPE: "MostAllocated", WEIGHT: '{"cpu": 1, "mem*": 3}'}, [25, 25, (75 + 50 * 3) / 4]),
        ({TYPE: "MostAllocated"}, [0, 0, 0]),
        ({TYPE: "MostAllocated", WEIGHT: "much"}, [0, 0, 0]),
        ({TYPE: "Fullest", WEIGHT: '{"cpu": 1}'}, [75, 75, 37.5]),
        ({WEIGHT: '{"cpu": 1}'}, [75, 75, 37.5]),
    ],
)
def test_a_pod_may_say_for_itself(annotations: dict[str, str], expected: list[float]) -> None:
    assert points({"resourceStrategyFitWeight": 1}, {**POD, "annotations": annotations}) == expected


def test_nodes_with_what_is_scarce_are_left_to_those_who_need_it() -> None:
    scarce = {"enable": True, "resources": "nvidia.com/gpu, example.com/fpga", "weight": 2}
    arguments = {"resourceStrategyFitWeight": 0, "sra": scarce}
    assert points(arguments, POD) == [200, 100, 200]
    weighted = {**scarce, "resourceWeight": {"nvidia.com/gpu": 3}}
    assert points({**arguments, "sra": weighted}, POD) == [200, 50, 200]
    assert points({**arguments, "sra": weighted}, {**POD, "gpu": 1}) == [0, 50, 0]
    assert points({**arguments, "sra": {**scarce, "enable": False}}, POD) == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("resources: 5", "resources: must be a mapping, not 5"),
        ("resources: {'*': {}}", "resources: *: `*` may stand only at the end of a name"),
        ("resources: {'a*b': {}}", "resources: a*b: `*` may stand only at the end of a name"),
        ("resources: {cpu: {type: Least}}", "resources: cpu.type must be MostAllocated or LeastAllocated, not 'Least'"),
        ("resources: {cpu: {weight: -1}}", "resources: cpu.weight must be a number of zero or more, not -1"),
        ("resources: {cpu: {wait: 1}}", "resources: cpu.wait means nothing here (known: type, weight)"),
        ("resources: {cpu: 1}", "resources: cpu must be a mapping, not 1"),
        ("sra: {enable: 'yes', resources: a}", "sra: enable must be true or false, not 'yes'"),
        ("sra: {enable: true}", "sra: resources must be names separated by commas, not None"),
        ("sra: {enable: true, resources: a, resourceWeight: {b: 1}}", "sra: resourceWeight.b means nothing here"),
        (
            "proportional: {enable: true, resources: a, resourceProportion: {a.gpu: 1}}",
            "resourceProportion.a.gpu means",
        ),
        ("proportional: {enabled: true}", "proportional: enabled means nothing here"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: str, problem: str) -> None:
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: resource-strategy-fit, arguments: {{{arguments}}}}}]}}]"
    with pytest.raises(ConfigError) as raised:
        parse_config(text)
    assert problem in str(raised.value)
