"""Any field of any object may hold anything: what cannot be understood is passed over, and the rest is scheduled."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from hekla.api.kinds import Obj
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.trial.miniature import Miniature, short_config

EVERYTHING = short_config(
    "enqueue, allocate, backfill, preempt, reclaim",
    [
        ["priority", "gang", "conformance", "sla"],
        [
            "overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack", "resourcequota", "pdb", "cdp",
            "task-topology", {"name": "nodegroup", "arguments": {"strict": False}},
        ],
    ],
)  # fmt: skip
TREE = short_config(
    "enqueue, allocate, backfill, preempt, reclaim",
    [["priority", "gang", "conformance"], [{"name": "capacity", "enableHierarchy": True}, "predicates", "nodeorder"]],
)
PLAIN = short_config("enqueue, allocate", [["gang", "predicates", "nodeorder"]])
ODD: tuple[Any, ...] = (
    None, 0, 5, -1, "", "x", [], {}, [None], [{}], {"a": None}, {"a": 5}, 1e308, float("nan"), True, "1e400", "9" * 40,
    10**30, ["x"], [[1]], "\x00", "nan", "-inf", "9" * 40 + "h",
)  # fmt: skip
SPARED = {("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")}
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
TERM = {
    "topologyKey": "zone",
    "labelSelector": {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
    },
}
IN_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
POD = {
    "role": "w", "partition": 0, "cpu": 1, "labels": {"app": "x"}, "selector": {"zone": "a"}, "port": 80,
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
    "affinity": {
        "podAffinity": {REQUIRED: [TERM], PREFERRED: [{"weight": 3, "podAffinityTerm": TERM}]},
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [IN_ZONE]}, PREFERRED: [{"weight": 1, "preference": IN_ZONE}],
        },
    },
    "spread": [{**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1}],
    "owner": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set"},
    "init": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
}  # fmt: skip
OTHER_POD = {
    "role": "w", "partition": 1, "cpu": 1, "claims": ["claim"], "since": "2030-01-01T00:00:00Z",
    "annotations": {"volcano.sh/cooldown-time": "5m", "volcano.sh/task-priority": "3"},
}  # fmt: skip
OBJECTS: list[Obj] = [
    {"kind": "Service", "metadata": {"name": "s", "namespace": "test"}, "spec": {"selector": {"app": "x"}}},
    {
        "kind": "ReplicaSet",
        "metadata": {"name": "set", "namespace": "test"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
    },
    {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "test"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 1, "disruptedPods": {"x": "2030-01-01T00:00:00Z"}},
    },
    {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "test"},
        "status": {"hard": {"cpu": "50"}, "used": {"cpu": "1"}},
    },
    {"kind": "Namespace", "metadata": {"name": "test", "labels": {"a": "b"}}},
    {
        "kind": "StorageClass",
        "metadata": {"name": "class"},
        "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    },
    {
        "kind": "PersistentVolume",
        "metadata": {"name": "volume"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "class",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [IN_ZONE]}},
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
        "status": {"phase": "Available"},
    },
    {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim", "namespace": "test"},
        "spec": {
            "storageClassName": "class",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    },
    {
        "kind": "CSINode",
        "metadata": {"name": "odd"},
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]},
    },
]
ODD_QUEUE = {
    "name": "odd", "weight": 2, "capability": {"cpu": 3}, "deserved": {"cpu": 1}, "guarantee": {"cpu": 1},
    "parent": "root", "affinity": {"nodeGroupAffinity": {REQUIRED: ["g"]}},
    "annotations": {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2"},
}  # fmt: skip
ODD_NODE = {
    "name": "odd",
    "labels": {"zone": "a"},
    "taints": [{"key": "a", "value": "b", "effect": "PreferNoSchedule"}],
}
GANG = {"name": "good", "min": 3, "needs": {"cpu": 3}, "cpu": 1, "pods": 3}


def cluster() -> Miniature:
    world = Miniature()
    world.add(
        {"queues": [{"name": "root"}, {"name": "default"}, ODD_QUEUE], "classes": {"high": 9}, "objects": OBJECTS}
    )
    world.add({"nodes": [{"name": "good", "cpu": 64, "memory": "64Gi", "pods": 99}, ODD_NODE]})
    running = {"name": "r", "phase": "Running", "cpu": 1, "node": "odd", "labels": {"app": "x"}, "pods": 1}
    waiting = {
        "name": "o", "queue": "odd", "min": 2, "class": "high", "needs": {"cpu": 1}, "roles": {"w": 1},
        "partitions": {"size": 1, "min": 1}, "annotations": {"volcano.sh/sla-waiting-time": "1h"},
        "pods": [POD, OTHER_POD],
    }  # fmt: skip
    world.add({"groups": [running, waiting, GANG]})
    return world


@pytest.mark.parametrize("seed", range(12))
def test_one_odd_object_disturbs_nobody(seed: int) -> None:
    rng, whole = random.Random(seed), cluster()
    for _ in range(40):
        world = copy.deepcopy(whole)
        changes = spoil(rng, world)
        for config in (PLAIN, rng.choice((EVERYTHING, TREE))):
            plan = run_cycle(world.cache().snapshot("odd", now=1893459600.0), config)
            assert not plan.failures, changes
            if config is PLAIN:
                bound = {pod.name for placement in plan.placements for pod, _ in placement.pairs()}
                assert bound >= {f"good-t-{number}" for number in range(3)}, changes


def spoil(rng: random.Random, world: Miniature) -> list[Any]:
    """Something else in one or two fields of one of the objects; says what."""
    key = rng.choice([key for key in world.objects if not key[1].startswith(("good", "default", "root"))])
    changes: list[Any] = [key]
    for _ in range(rng.choice((1, 1, 2))):
        path = rng.choice([path for path in fields_of(world.objects[key]) if path not in SPARED])
        part: Any = world.objects[key]
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = copy.deepcopy(rng.choice(ODD))
        changes.append((path, part[path[-1]]))
    return changes


def fields_of(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, value in items:
        yield (*path, name)
        yield from fields_of(value, (*path, name))
