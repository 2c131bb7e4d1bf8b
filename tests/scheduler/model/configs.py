"""Random configurations of the scheduler: those people use, and any others that can be had."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.scheduler.model.tiers import SWITCHES, Entry


@dataclass(frozen=True)
class Setting:
    actions: list[str]
    tiers: list[list[Entry]]

    def has(self, plugin: str) -> bool:
        return any(entry["name"] == plugin for tier in self.tiers for entry in tier)


_ALL = ("enqueue", "allocate", "backfill", "preempt", "reclaim")
_TREE = {"name": "capacity", "enableHierarchy": True}
_DEEP_TREE = {**_TREE, "arguments": {"ancestorReclaimLevel": 2}}
_DEPARTMENTS = {"name": "drf", "enableHierarchy": True}
_CARDS = {"name": "binpack", "arguments": {"binpack.resources": "nvidia.com/gpu"}}
_MEEK = [{"name": name, "enablePreemptable": False} for name in ("gang", "drf")]
_QUEUES = ("enqueue allocate backfill reclaim", "allocate reclaim preempt")
USUAL: list[tuple[str, list[list[Any]]]] = [
    (
        "enqueue allocate backfill",
        [["priority", "gang", "conformance"], ["overcommit", "drf", "predicates", "proportion"]],
    ),
    (
        "enqueue allocate backfill reclaim preempt",
        [
            ["priority", _MEEK[0], "conformance"],
            ["overcommit", _MEEK[1], "predicates", "proportion", "binpack"],
        ],
    ),
    (
        "enqueue allocate preempt reclaim",
        [["priority", "gang", "conformance", "pdb"], ["overcommit", "drf", "predicates", "proportion"]],
    ),
    ("enqueue allocate backfill preempt", [["conformance", "gang", "priority", "predicates"]]),
    ("allocate preempt backfill", [["priority", "predicates", "pdb", _CARDS]]),
    ("enqueue allocate preempt backfill", [["drf", "priority", "predicates"], ["gang"]]),
    ("allocate reclaim", [["conformance", "gang", "predicates", "proportion"]]),
    # Who may leave is for the plugin to say that shares between queues: it is in the first tier that has an answer.
    (_QUEUES[0], [["priority", "gang", "conformance", "predicates", "capacity"]]),
    (_QUEUES[1], [["gang", "predicates", "capacity", "binpack"]]),
    (_QUEUES[0], [["priority", "gang", "predicates", _TREE]]),
    (_QUEUES[1], [["predicates", _TREE, "pdb"]]),
    (_QUEUES[0], [["gang", "predicates", _DEEP_TREE]]),
    (_QUEUES[1], [["gang", "predicates", _DEEP_TREE, "binpack"]]),
    ("enqueue allocate backfill reclaim preempt", [["priority", "gang"], ["predicates", _TREE, "binpack"]]),
    (_QUEUES[0], [["priority", "gang"], [_DEPARTMENTS, "predicates"]]),
    (_QUEUES[1], [["gang", "conformance", _DEPARTMENTS], ["predicates", "proportion"]]),
]
_POINTS = {
    "gang": ("group_rank", "is_ready", "is_promised", "is_starving", "preemptable", "reclaimable"),
    "priority": ("group_rank", "pod_rank", "is_starving", "preemptable"),
    "conformance": ("preemptable", "reclaimable"),
    "pdb": ("preemptable", "reclaimable"),
    "overcommit": ("may_enter",),
    "drf": ("group_rank", "preemptable"),
    "predicates": (),
    "binpack": ("score",),
    "proportion": ("compare_queues", "is_overused", "has_room", "may_reclaim", "reclaimable", "may_enter"),
    "capacity": ("compare_queues", "has_room", "may_reclaim", "reclaimable", "may_enter"),
}


def random_setting(rng: Random) -> Setting:
    return _usual(rng) if rng.random() < 0.7 else _unusual(rng)


def _usual(rng: Random) -> Setting:
    actions, tiers = rng.choice(USUAL)
    return Setting(
        actions.split(), [[{"name": each} if isinstance(each, str) else each for each in tier] for tier in tiers]
    )


def _unusual(rng: Random) -> Setting:
    """Plugins in any order and tier, some of their answers switched off; queues are the matter of one of them."""
    shared_by = rng.choice(["proportion", "capacity"])
    plugins = [name for name in _POINTS if name not in ("proportion", "capacity") or name == shared_by]
    chosen = [name for name in plugins if rng.random() < 0.75]
    rng.shuffle(chosen)
    tiers: list[list[Entry]] = [[] for _ in range(rng.choice([1, 2, 2, 3]))]
    for name in chosen:
        off = {SWITCHES[point]: False for point in _POINTS[name] if rng.random() < 0.1}
        entry: Entry = {"name": name, **off}
        if name == "capacity" and rng.random() < 0.6:
            entry |= rng.choice([_TREE, _DEEP_TREE])
        tiers[rng.randrange(len(tiers))].append(entry)
    later = [action for action in _ALL[2:] if rng.random() < 0.7]
    rng.shuffle(later)
    return Setting([*(_ALL[:1] if rng.random() < 0.8 else ()), "allocate", *later], [tier for tier in tiers if tier])
