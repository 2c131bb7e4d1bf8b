"""The same pods given to kube-scheduler and to Hekla on one kube-apiserver: both valid, ours at least as full."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hekla.api import kinds
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.scheduler.trial.objects import group_object, node_object, pod_object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.scene import running, serving, wipe
from tests.eventually import until
from tests.scheduler.replay import NAMESPACE
from tests.scheduler.validity import REQUIRED, requests, violations

pytestmark = pytest.mark.cluster

# Groups made in one second are taken in the order of their UIDs, that is, of chance: each scenario gets the
# configuration with which everything fits in any order. As installed, both schedulers spread.
SPREADING = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion},
    {name: nodeorder}]
"""
PACKING = SPREADING.replace("{name: nodeorder}", "{name: nodeorder}, {name: binpack, arguments: {binpack.weight: 10}}")
ZONES = ("a", "b", "c")
ZONE = "topology.kubernetes.io/zone"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": NAMESPACE},
    "spec": {"selector": {"app": "web"}, "clusterIP": "None"},
}
Given = dict[str, list[dict[str, Any]]]
Outcome = tuple[list[dict[str, Any]], list[dict[str, Any]]]  # nodes and pods


def alike(role: str, topology: str) -> dict[str, Any]:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {"role": role}}}


def demanding() -> Given:
    """Everything fits, but not everywhere."""
    nodes = [
        {
            "name": f"n{number:02}",
            "cpu": 4 + 4 * (number % 3),
            "memory": f"{8 + 8 * (number % 2)}Gi",
            "pods": 30,
            "labels": {
                "kubernetes.io/hostname": f"n{number:02}",
                "zone": ZONES[number % 3],
                **({"disk": "ssd"} if number % 4 == 0 else {}),
            },
            **({"taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}]} if number % 6 == 5 else {}),
            **({"unschedulable": True} if number == 7 else {}),
        }
        for number in range(18)
    ]
    lone = {"podAntiAffinity": {REQUIRED: [alike("lone", "kubernetes.io/hostname")]}}
    even = {**alike("even", "zone"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    ssd = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [_in("disk", "ssd")]}}}
    kinds_of_pod: list[tuple[str, int, dict[str, Any]]] = [
        ("plain", 24, {"cpu": "500m", "memory": "512Mi"}),
        ("heavy", 6, {"cpu": 2, "memory": "2Gi", "selector": {"zone": "a"}}),
        ("fast", 4, {"cpu": 1, "memory": "1Gi", "affinity": ssd}),
        ("red", 4, {"cpu": 1, "tolerations": [{"key": "team", "operator": "Equal", "value": "red"}]}),
        ("lone", 8, {"cpu": "250m", "affinity": lone}),
        ("herd", 4, {"cpu": "250m", "affinity": {"podAffinity": {REQUIRED: [alike("herd", "zone")]}}}),
        ("port", 6, {"cpu": "100m", "port": 8080}),
        ("even", 9, {"cpu": "250m", "spread": [even]}),
        ("free", 5, {}),
    ]  # fmt: skip
    return {"nodes": nodes, "pods": _many(kinds_of_pod)}


def crumbs_and_rocks() -> Given:
    """Who spreads the small ones has no room for the big ones."""
    nodes = [
        {
            "name": f"n{number}",
            "cpu": 8,
            "memory": "16Gi",
            "pods": 30,
            "labels": {"kubernetes.io/hostname": f"n{number}"},
        }
        for number in range(8)
    ]
    return {"nodes": nodes, "pods": _many([("crumb", 16, {"cpu": 1, "memory": "1Gi"}), ("rock", 6, {"cpu": 8})])}


def _in(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def _many(kinds_of_pod: list[tuple[str, int, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {"name": f"{role}-{number}", "labels": {"role": role}, **pod}
        for role, count, pod in kinds_of_pod
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("given", "conf", "theirs_fit"),
    [(demanding(), SPREADING, True), (crumbs_and_rocks(), PACKING, False)],
    ids=["demanding", "crumbs and rocks"],
)
def test_both_are_valid_and_ours_is_at_least_as_full(
    given: Given, conf: str, theirs_fit: bool, bare_plane: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "conf").write_text(conf)
    theirs = uvloop.run(place(bare_plane, given, "default-scheduler", tmp_path))
    ours = uvloop.run(place(bare_plane, given, "volcano", tmp_path))
    for nodes, pods in (theirs, ours):
        assert violations(nodes, pods) == []
    counts = [sum(map(_is_placed, pods)) for _, pods in (theirs, ours)]
    assert fullness(ours[1]) >= fullness(theirs[1]), counts
    assert counts[1] == len(given["pods"])
    assert theirs_fit or counts[0] < counts[1], "kube-scheduler packed as well: the scenario shows nothing"


def test_pods_of_a_service_go_where_kube_scheduler_sends_them(bare_plane: ControlPlane, tmp_path: Path) -> None:
    """One after the other, so that nobody's order of taking pods matters, and on nodes of which one is always best."""
    (tmp_path / "conf").write_text(SPREADING)
    places = [(64, "a"), (32, "a"), (30, "b"), (18, "b"), (16, None)]
    nodes = [
        {"name": f"n{number}", "cpu": size, "memory": f"{size}Gi", "labels": {ZONE: where} if where else {}}
        for number, (size, where) in enumerate(places)
    ]
    pods = [{"name": f"p{number}", "cpu": 1, "memory": "1Gi", "labels": {"app": "web"}} for number in range(12)]
    given = {"nodes": nodes, "pods": pods}
    theirs = uvloop.run(place_in_turn(bare_plane, given, SERVICE, "default-scheduler", tmp_path))
    ours = uvloop.run(place_in_turn(bare_plane, given, SERVICE, "volcano", tmp_path))
    assert ours == theirs
    unserved = uvloop.run(place_in_turn(bare_plane, given, None, "volcano", tmp_path))
    assert ours != unserved, "the Service makes no difference: this shows nothing"


PREEMPTING = SPREADING.replace("allocate, backfill", "allocate, preempt, backfill")
CLASSES = {"urgent": 1000, "whenever": 1}


def test_no_more_leave_for_the_urgent_than_with_kube_scheduler(bare_plane: ControlPlane, tmp_path: Path) -> None:
    """Four full nodes, on which two of the urgent need two places each, and one a node to itself.

    kube-scheduler evicts for one pod after the other while those before it still wait for their room, and takes one
    too many when they overtake each other; ours decides for all of them at once.
    """
    (tmp_path / "conf").write_text(PREEMPTING)
    nodes = [{"name": f"n{number}", "cpu": 4, "memory": "16Gi"} for number in range(4)]
    common = [{"name": f"c{number}", "cpu": 1, "class": "whenever"} for number in range(16)]
    urgent = [{"name": f"u{number}", "cpu": size, "class": "urgent"} for number, size in enumerate((2, 2, 4))]
    given = {"nodes": nodes, "pods": common}
    theirs = uvloop.run(displace(bare_plane, given, urgent, "default-scheduler", tmp_path))
    ours = uvloop.run(displace(bare_plane, given, urgent, "volcano", tmp_path))
    for where, pods in (theirs, ours):
        assert violations(where, pods) == []
        assert {"u0", "u1", "u2"} <= {pod["metadata"]["name"] for pod in pods if _is_placed(pod)}
    assert fullness(ours[1]) >= fullness(theirs[1])
    assert len(theirs[1]) <= len(ours[1]) == 16 - 8 + 3


async def displace(
    plane: ControlPlane, given: Given, urgent: list[dict[str, Any]], scheduler: str, directory: Path
) -> Outcome:
    """What is left once the urgent, who come when everybody else has a place, have theirs."""
    async with client_from_files([plane.kubeconfig]) as client:
        await wipe(client)
        for name, value in CLASSES.items():
            metadata = {"apiVersion": kinds.PRIORITY_CLASS.api_version, "kind": "PriorityClass"}
            await client.create(kinds.PRIORITY_CLASS, {**metadata, "metadata": {"name": name}, "value": value})
        await create(client, given, scheduler)
        with running(plane, scheduler, directory):
            await until(lambda: are_all(client, _is_placed))
            await create(client, {"nodes": [], "pods": urgent}, scheduler)
            await until(lambda: are_all(client, _is_placed))
        return (await client.list(kinds.NODE)).items, (await client.list(kinds.POD, NAMESPACE)).items


def test_a_gate_holds_a_pod_and_nobody_else(bare_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(SPREADING)
    gate = {"gates": [{"name": "example.com/later"}]}
    pods = [{"name": f"p{number}", "cpu": 1, **(gate if number % 2 else {})} for number in range(6)]
    given = {"nodes": [{"name": "n1", "cpu": 6}], "pods": pods}
    for scheduler in ("default-scheduler", "volcano"):
        assert uvloop.run(open_gates(bare_plane, given, scheduler, tmp_path)) == (["p0", "p2", "p4"], 6), scheduler


async def open_gates(plane: ControlPlane, given: Given, scheduler: str, directory: Path) -> tuple[list[str], int]:
    """Who has a place while the gates are shut, and how many once they are open."""
    async with client_from_files([plane.kubeconfig]) as client:
        await wipe(client)
        await create(client, given, scheduler)
        with running(plane, scheduler, directory):
            await until(lambda: are_all(client, lambda pod: _is_placed(pod) or _is_gated(pod)))
            early = [pod for pod in (await client.list(kinds.POD, NAMESPACE)).items if _is_placed(pod)]
            for pod in filter(_is_gated, (await client.list(kinds.POD, NAMESPACE)).items):
                change = {"spec": {"schedulingGates": None}}
                await client.patch(kinds.POD, pod["metadata"]["name"], change, NAMESPACE)
            await until(lambda: are_all(client, _is_placed))
        return sorted(pod["metadata"]["name"] for pod in early), len((await client.list(kinds.POD, NAMESPACE)).items)


def _is_gated(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


async def place_in_turn(
    plane: ControlPlane, given: Given, service: dict[str, Any] | None, scheduler: str, directory: Path
) -> list[str]:
    """The nodes of the pods, each made when the one before has its node."""
    async with client_from_files([plane.kubeconfig]) as client:
        await wipe(client)
        await create(client, {**given, "pods": []}, scheduler)
        async with serving(client, service):
            with running(plane, scheduler, directory):
                for pod in given["pods"]:
                    await create(client, {"nodes": [], "pods": [pod]}, scheduler)
                    await until(lambda: are_all(client, _is_placed))
        placed = {pod["metadata"]["name"]: pod for pod in (await client.list(kinds.POD, NAMESPACE)).items}
        return [str(placed[pod["name"]]["spec"]["nodeName"]) for pod in given["pods"]]


async def place(plane: ControlPlane, given: Given, scheduler: str, directory: Path) -> Outcome:
    async with client_from_files([plane.kubeconfig]) as client:
        await wipe(client)
        await create(client, given, scheduler)
        with running(plane, scheduler, directory):
            # Of ours, everything has to fit in the end; of theirs, only that they have tried.
            with contextlib.suppress(TimeoutError):
                await until(lambda: are_all(client, _is_placed if scheduler == "volcano" else _had_a_turn))
            return (await client.list(kinds.NODE)).items, (await client.list(kinds.POD, NAMESPACE)).items


async def create(client: Client, given: Given, scheduler: str) -> None:
    for node in given["nodes"]:
        made = await client.create(kinds.NODE, node_object(node))
        await client.update_status(kinds.NODE, {**made, "status": node_object(node)["status"]})
    for pod in given["pods"]:
        grouped = scheduler == "volcano"
        made = pod_object({**pod, "scheduler": scheduler}, pod["name"] if grouped else None)
        made["metadata"]["namespace"] = NAMESPACE
        made["spec"]["containers"][0]["image"] = "any"
        made["spec"]["terminationGracePeriodSeconds"] = 0
        if grouped:
            group = {"apiVersion": kinds.POD_GROUP.api_version, **group_object({**pod, "min": 1})}
            group["metadata"]["namespace"] = NAMESPACE
            await client.create(kinds.POD_GROUP, group)
        await client.create(kinds.POD, made)


async def are_all(client: Client, so: Callable[[dict[str, Any]], bool]) -> bool:
    return all(map(so, (await client.list(kinds.POD, NAMESPACE)).items))


def _is_placed(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _had_a_turn(pod: dict[str, Any]) -> bool:
    """Whether it is bound, or was told that there is no room for it."""
    conditions = pod.get("status", {}).get("conditions") or ()
    refused = any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
    return refused or _is_placed(pod)


def fullness(pods: list[dict[str, Any]]) -> Fraction:
    """The CPU that bound pods ask for."""
    return sum((Fraction(requests(pod).get("cpu", 0)) for pod in pods if _is_placed(pod)), Fraction(0))
