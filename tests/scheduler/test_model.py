"""The scheduler decides as the model does, about random clusters: who is let in, goes where, leaves for whom, is told
what. `python -m tests.scheduler.model 20000` takes many more of them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.scheduler.model.cluster import Status
from tests.scheduler.model.comparing import differences, random_case
from tests.scheduler.model.cycle import decide

_CLUSTERS = 200
_KINDS = ("bound", "let in", "not let in", "no node", "promised", "preempt", "reclaim")


@pytest.mark.parametrize("block", range(12))
def test_the_scheduler_decides_as_the_model_does(block: int) -> None:
    seeds = range(block * _CLUSTERS, (block + 1) * _CLUSTERS)
    found = {seed: wrong for seed in seeds if (wrong := differences(*random_case(seed)))}
    assert not found, f"python -m tests.scheduler.model --show {min(found)}"


def test_there_is_something_to_decide() -> None:
    """Clusters in which nothing happened would show nothing."""
    happened: Counter[str] = Counter()
    for seed in range(2 * _CLUSTERS):
        happened.update(what_happens(seed))
    assert all(happened[kind] >= 10 for kind in _KINDS), happened


def what_happens(seed: int) -> set[str]:
    world, setting = random_case(seed)
    asked = {
        key[1] for key, obj in world.objects.items() if key[0] == "PodGroup" and obj["status"]["phase"] == "Pending"
    }
    decided = decide(world.objects, setting.actions, setting.tiers)
    found = set(decided.evictions.values()) | ({"bound"} if decided.bindings else set())
    for group in decided.cluster.groups:
        if group.name in asked and "enqueue" in setting.actions:
            found.add("not let in" if group.phase == "Pending" else "let in")
        found |= {"no node"} if group.errors else set()
        found |= {"promised"} if group.having({Status.PIPELINED}) else set()
    return found
