"""Scheduling cases: data in, the state of the world out, through the real core and no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hekla.scheduler.config import Config, default_config
from tests.scheduler.miniature import Miniature, short_config

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
    world = Miniature(config_of(case.get("config", "packing")))
    world.add({"queues": [{"name": "root"}, {"name": "default"}]})
    world.add(case)
    world.linger = case.get("linger", False)
    world.settle()
    check(world, case["expect"])
    for step in case.get("then", ()):
        take_step(world, step)
        world.settle()
        check(world, step["expect"])


def config_of(given: str | dict[str, Any]) -> Config:
    return CONFIGS[given] if isinstance(given, str) else short_config(given["actions"], given["tiers"])


def take_step(world: Miniature, step: dict[str, Any]) -> None:
    world.now = step.get("at", world.now)
    world.add(step.get("add", {}))
    for name in step.get("delete", ()):
        del world.objects["Pod", name]
    for name in step.get("finish", ()):
        world.objects["Pod", name]["status"] = {"phase": "Succeeded"}
    for name, capability in step.get("raise", {}).items():
        world.objects["Queue", name]["spec"]["capability"] = {key: str(value) for key, value in capability.items()}
    for name in step.get("open", ()):
        world.objects["Queue", name]["status"]["state"] = "Open"
    for name in step.get("ungate", ()):
        world.objects["Pod", name]["spec"].pop("schedulingGates")


def check(world: Miniature, expect: dict[str, Any]) -> None:
    for pod, node in expect.get("bound", {}).items():
        found = world.node_of(pod)
        assert found is not None if node == "anywhere" else found == node, f"{pod} is on {found}, not on {node}"
    for pod, cards in expect.get("cards", {}).items():
        assert world.cards_of(pod) == cards
    for pod, message in expect.get("waiting", {}).items():
        assert world.node_of(pod) is None, f"{pod} was bound to {world.node_of(pod)}"
        assert message is None or world.message_of(pod) == message
    if "gated" in expect:
        pods = {name: obj for (kind, name), obj in world.objects.items() if kind == "Pod"}
        assert [name for name, pod in sorted(pods.items()) if pod["spec"].get("schedulingGates")] == expect["gated"]
    if "evicted" in expect:
        assert sorted(world.evicted) == sorted(expect["evicted"])
    for pod, node in expect.get("nominated", {}).items():
        assert world.objects["Pod", pod]["status"].get("nominatedNodeName") == node
    for claim, volume in expect.get("claimed", {}).items():
        assert world.objects["PersistentVolumeClaim", claim]["spec"].get("volumeName") == volume
    for group, count in expect.get("counts", {}).items():
        prefix = f"{group}-"
        pods = [name for kind, name in world.objects if kind == "Pod" and name.startswith(prefix)]
        assert sum(1 for pod in pods if world.node_of(pod)) == count
    for group, phase in expect.get("phase", {}).items():
        assert world.group(group)["phase"] == phase
    for group, conditions in expect.get("conditions", {}).items():
        assert world.conditions_of(group) == conditions
    for group, reason in expect.get("reasons", {}).items():
        assert world.waiting_of(group) == tuple(reason)
    for group, events in expect.get("events", {}).items():
        assert set(events) <= set(world.events[f"PodGroup/{group}"])
    for group, events in expect.get("all_events", {}).items():
        assert world.events[f"PodGroup/{group}"] == events
    for queue, allocated in expect.get("allocated", {}).items():
        assert world.objects["Queue", queue]["status"]["allocated"] == allocated
