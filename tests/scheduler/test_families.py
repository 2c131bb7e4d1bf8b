"""Who is held together by Services and workloads, found by label, is who a look at every one of them finds."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from hekla.api.kinds import REPLICA_SET, STATEFUL_SET
from hekla.api.selector import Selector, label_selector_from
from hekla.scheduler.crowd import Crowd
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.evenness import DEFAULT_RULES, Evenness
from hekla.scheduler.families import NO_FAMILY, Families
from hekla.scheduler.rows import Pod, PodStatus, Workload
from hekla.scheduler.siblings import SiblingTable
from hekla.scheduler.snapshot import Snapshot
from hekla.scheduler.trial.miniature import Miniature, short_config
from tests.scheduler.test_cycle import as_text, one_node_for

KEYS, VALUES, NODES = ("app", "tier", "track"), ("a", "b"), 5
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize("seed", range(40))
def test_families_are_counted_as_by_a_look_at_every_pod(seed: int) -> None:
    rng = random.Random(seed)
    world, snapshot = cluster(rng)
    families = Families(snapshot)
    pods = [pod for group in snapshot.groups for pod in group.pods] + list(snapshot.strangers)
    lines = {node.name: line for line, node in enumerate(snapshot.nodes.rows)}
    places = [(pod, lines[pod.node], 1) for pod in pods if pod.holds_node and pod.status is not PodStatus.RELEASING]
    for _ in range(30):
        waiting = rng.choice([pod for pod in pods if not pod.node])
        number = families.number(waiting)
        selector = selected_with(world, waiting)
        assert (number == NO_FAMILY) == (selector is None)
        if selector is not None:
            assert families.heads(number).tolist() == headcount(places, waiting.namespace, selector)
        moved, line, sign = rng.choice(pods), rng.randrange(NODES), rng.choice((1, -1))
        families.move([moved], [line], sign)
        places.append((moved, line, sign))


def cluster(rng: random.Random) -> tuple[Miniature, Snapshot]:
    world = Miniature()
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": f"n{number}"} for number in range(NODES)]})
    for number in range(rng.randint(1, 4)):
        spec = {"selector": rng.choice((labels(rng), labels(rng), {}, None))}
        world.put({"kind": "Service", "metadata": {"name": f"s{number}", "namespace": "test"}, "spec": spec})
    selectors = ({"matchLabels": labels(rng)}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, {})
    for kind in (REPLICA_SET, STATEFUL_SET):
        world.put(
            {
                "kind": kind.kind,
                "metadata": {"name": "w", "namespace": "test"},
                "spec": {"selector": rng.choice(selectors)},
            }
        )
    owners = (
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w"},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
    )
    groups = [
        {
            "name": f"g{number}",
            "phase": "Running",
            "pods": [some_pod(rng, owners) for _ in range(4)] + [{"labels": labels(rng)}],
        }
        for number in range(6)
    ]
    strangers = [
        {"name": f"x{number}", "scheduler": "other", "node": "n1", "labels": labels(rng)} for number in range(4)
    ]
    world.add({"groups": groups, "pods": strangers})
    for (kind, _), obj in world.objects.items():
        if kind == "Pod" and "nodeName" in obj["spec"] and rng.random() < 0.2:
            obj["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    return world, world.cache().snapshot()


def some_pod(rng: random.Random, owners: tuple[dict[str, str], ...]) -> dict[str, Any]:
    pod: dict[str, Any] = {"labels": labels(rng)}
    if rng.random() < 0.6:
        pod["node"] = f"n{rng.randrange(NODES)}"
    if rng.random() < 0.4:
        pod["owner"] = rng.choice(owners)
    return pod


def labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.5}


def selected_with(world: Miniature, pod: Pod) -> Selector | None:
    """By kube-scheduler's rule: all Services that select the pod, and its owner's selector."""
    found: list[Any] = []
    for (kind, _), obj in world.objects.items():
        wanted = obj.get("spec", {}).get("selector")
        if kind == "Service" and wanted and wanted.items() <= pod.labels.items():
            found += (label_selector_from({"matchLabels": wanted}) or Selector()).requirements
    if pod.owner is not None:
        wanted = world.objects[pod.owner.kind, pod.owner.key.name]["spec"]["selector"]
        found += (label_selector_from(wanted) or Selector()).requirements
    return Selector(tuple(found)) if found else None


def headcount(places: list[tuple[Pod, int, int]], namespace: str, selector: Selector) -> list[int]:
    count = np.zeros(NODES, dtype=np.int64)
    for pod, line, sign in places:
        if pod.namespace == namespace and selector.matches(pod.labels):
            count[line] += sign
    return [int(number) for number in count]


@pytest.mark.parametrize("seed", range(40))
def test_brothers_placed_together_go_where_they_would_go_one_by_one(seed: int) -> None:
    rng, world = random.Random(seed), Miniature(short_config("allocate", [["gang", "predicates", "nodeorder"]]))
    world.put({"kind": "Service", "metadata": {"name": "s", "namespace": "test"}, "spec": {"selector": {"app": "a"}}})
    # A workload may own pods it does not select: then they are not counted for each other.
    selector = {"matchLabels": {"app": rng.choice("aab")}}
    world.put({"kind": "ReplicaSet", "metadata": {"name": "w", "namespace": "test"}, "spec": {"selector": selector}})
    world.add({"queues": [{"name": "default"}], "nodes": [uneven_node(rng, f"n{at}") for at in range(NODES + 3)]})
    wish = {"weight": 3, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w"}
    brothers = {"cpu": 1, "labels": {"app": "a"}, "pods": 20, **({"owner": owner} if rng.random() < 0.5 else {})}
    settled = {"name": "old", "phase": "Running", "pods": [{"labels": {"app": "a"}, "node": "n1"}] * rng.randint(0, 3)}
    world.add({"groups": [settled, {"name": "g", "min": 0, **brothers, **rng.choice(({}, {"affinity": affinity}))}]})
    together = run_cycle(world.cache().snapshot("c"), world.config)
    with patch("hekla.scheduler.actions.allocate.nodes_for", one_node_for):
        one_by_one = run_cycle(world.cache().snapshot("c"), world.config)
    assert len(together.placements[0]) >= 12
    assert as_text(together) == as_text(one_by_one)


def uneven_node(rng: random.Random, name: str) -> dict[str, Any]:
    """Some fill up, some have no zone or name, some are better avoided, some are liked."""
    labels = {"kubernetes.io/hostname": name, ZONE: rng.choice("ab"), "disk": "ssd"}
    taint = {"key": "old", "effect": "PreferNoSchedule"}
    return {
        "name": name,
        "cpu": rng.choice((2, 3, 8, 16, 64)),
        "memory": "64Gi",
        "labels": {key: value for key, value in labels.items() if rng.random() < 0.8},
        **({"taints": [taint]} if rng.random() < 0.2 else {}),
    }


def test_points_are_kube_schedulers() -> None:
    """Two brothers on n0. Of four hosts and of three zones, one of which is what has none:
    n0 has 2·ln 6 + 2 and 2·ln 5 + 4, together 13; n1 2 and 2·ln 5 + 4, 9; n2 2 + 4; n3, without a zone, 2."""
    world = Miniature()
    where: tuple[dict[str, str], ...] = ({ZONE: "a"}, {ZONE: "a"}, {ZONE: "b"}, {})
    world.add({"nodes": [{"name": f"n{number}", "labels": labels} for number, labels in enumerate(where)]})
    everywhere = np.ones(4, dtype=bool)
    evenness = Evenness(
        Crowd(world.cache().snapshot()), DEFAULT_RULES, [np.array([2, 0, 0, 0])] * 2, [everywhere] * 2,
        np.arange(4), needs_labels=False,
    )  # fmt: skip
    assert evenness.points.tolist() == [100 * (13 + 2 - raw) // 13 for raw in (13, 9, 6, 2)]


def test_a_cluster_in_which_nobody_selects_waiting_pods_looks_at_none() -> None:
    world = Miniature()
    world.put(
        {
            "kind": "Service",
            "metadata": {"name": "dns", "namespace": "kube-system"},
            "spec": {"selector": {"k8s-app": "dns"}},
        }
    )
    world.put({"kind": "Service", "metadata": {"name": "kubernetes", "namespace": "test"}, "spec": {}})
    world.add({"queues": [{"name": "default"}], "groups": [{"name": "a", "pods": 1, "labels": {"k8s-app": "dns"}}]})
    assert not Families(world.cache().snapshot()).active


def test_what_is_gone_or_changed_selects_nobody_any_more() -> None:
    table = SiblingTable()
    service = {"metadata": {"name": "s", "namespace": "test"}, "spec": {"selector": {"app": "a"}}}
    twin = {"metadata": {"name": "twin", "namespace": "test"}, "spec": {"selector": {"app": "a"}}}
    workload = {"metadata": {"name": "w", "namespace": "test"}, "spec": {"selector": {"matchLabels": {"tier": "x"}}}}
    table.put_service(service)
    table.put_service(twin)
    table.put_workload(REPLICA_SET, workload)
    before = table.snapshot()
    assert before.keys == {"test": {"app", "tier"}}
    table.put_service({**service, "spec": {"selector": {"tier": "y"}}})
    table.remove_workload(REPLICA_SET, workload)
    after = table.snapshot()
    assert {label: len(found) for label, found in after.services["test"].items()} == {("app", "a"): 1, ("tier", "y"): 1}
    assert not after.workloads
    table.remove_service(service)
    table.remove_service(twin)
    table.remove_service(twin)
    assert table.snapshot().keys == table.snapshot().services == {}
    assert len(before.services["test"][("app", "a")]) == 2, "what a cycle was given has changed under it"
    assert before.workloads[Workload("ReplicaSet", next(iter(before.workloads)).key)]
