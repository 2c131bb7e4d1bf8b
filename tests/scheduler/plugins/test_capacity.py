"""Queues below queues: in which order they have their turn."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from hekla.scheduler.rows import Queue
from tests.scheduler.plugins.opened import Opened

RUNS: list[dict[str, Any]] = [{"node": "n1"}]
WAITS: list[dict[str, Any]] = [{}]


@pytest.mark.parametrize("seed", range(40))
def test_the_order_of_queues_is_the_same_in_whatever_order_they_come(seed: int) -> None:
    rng = random.Random(seed)
    given = departments(rng)
    opened = Opened([{"name": "capacity", "enableHierarchy": True}], given)
    queues = list(opened.session.snapshot.queues)
    expected = sorted(queues, key=opened.tiers.queue_key)
    for _ in range(20):
        rng.shuffle(queues)
        assert sorted(queues, key=opened.tiers.queue_key) == expected
    for first, second in combinations([queue for queue in expected if queue.name.startswith("l")], 2):
        mine, theirs = where_they_part(given, first, second)
        assert mine <= theirs, f"{first.name} comes before {second.name}"


def departments(rng: random.Random) -> dict[str, Any]:
    """Departments of which many have the same share, teams in them and beside them, and who uses how much."""
    departments = [{"name": f"d{number}", "parent": "root", "deserved": {"cpu": 8}} for number in range(3)]
    parents = ["root", *(queue["name"] for queue in departments)]
    teams = [
        {"name": f"l{number}", "parent": rng.choice(parents), "deserved": {"cpu": rng.choice([2, 4])}}
        for number in range(8)
    ]
    groups = [
        {"name": f"g{number}", "queue": f"l{number % 8}", "cpu": rng.choice([1, 2]), "pods": rng.choice([RUNS, WAITS])}
        for number in range(16)
        if rng.random() < 0.6
    ]
    # Whose age decides among equals is left to chance.
    queues = [{"name": "root"}, *rng.sample(departments + teams, len(departments + teams))]
    return {"queues": queues, "nodes": [{"name": "n1", "cpu": 64, "pods": 99}], "groups": groups}


def where_they_part(given: dict[str, Any], first: Queue, second: Queue) -> tuple[float, float]:
    """What the two, or the departments above them that are not the same, hold of what they deserve."""
    parents = {queue["name"]: queue.get("parent") for queue in given["queues"]}
    ways = [[parents[queue.name], queue.name] for queue in (first, second)]
    ways = [way if way[0] != "root" else way[1:] for way in ways]
    mine, theirs = next((one, other) for one, other in zip(*ways) if one != other)
    return share(given, mine), share(given, theirs)


def share(given: dict[str, Any], name: str) -> float:
    below = {queue["name"] for queue in given["queues"] if name in (queue["name"], queue.get("parent"))}
    held = sum(group["cpu"] for group in given["groups"] if group["queue"] in below and group["pods"] is RUNS)
    (deserved,) = (queue["deserved"]["cpu"] for queue in given["queues"] if queue["name"] == name)
    return float(held) / float(deserved)
