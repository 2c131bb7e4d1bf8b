"""Scheduling cases: data in, the state of the world out, through the real core and no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hekla.scheduler.config import Config, default_config
from hekla.scheduler.trial.cases import run_case
from hekla.scheduler.trial.miniature import short_config

CASES = Path(__file__).parent / "cases"
PLAIN = short_config("allocate, backfill", [["priority", "gang", "conformance", "predicates"]])
ENTER = "enqueue, allocate"
CONFIGS: dict[str, Config] = {
    "plain": PLAIN,
    "preempt": short_config(f"{ENTER}, preempt", [["conformance", "gang", "priority", "predicates", "proportion"]]),
    "reclaim": short_config(f"{ENTER}, reclaim", [["conformance", "gang", "predicates", "proportion"]]),
    "default": default_config(),
    "capacity": short_config(f"{ENTER}, backfill", [["priority", "gang", "conformance"], ["predicates", "capacity"]]),
    "capacity-reclaim": short_config(f"{ENTER}, reclaim", [["conformance", "gang", "predicates", "capacity"]]),
    "capacity-tree": short_config(
        f"{ENTER}, reclaim", [["conformance", "gang", "predicates", {"name": "capacity", "enableHierarchy": True}]]
    ),
    "packing": short_config(
        "enqueue, allocate, backfill",
        [
            ["priority", {"name": "gang", "enablePreemptable": False}, "conformance"],
            [
                "overcommit",
                {"name": "drf", "enablePreemptable": False},
                "predicates",
                "proportion",
                "nodeorder",
                "binpack",
            ],
        ],
    ),
}


def load_cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text()):
            found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    return found


@pytest.mark.parametrize("case", load_cases())
def test_a_case_comes_out_as_expected(case: dict[str, Any]) -> None:
    assert not run_case(case, config_of(case.get("config", "packing")))


def config_of(given: str | dict[str, Any]) -> Config:
    return CONFIGS[given] if isinstance(given, str) else short_config(given["actions"], given["tiers"])
