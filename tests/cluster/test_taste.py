"""kube-scheduler goes where we would go: of the nodes that will do, its choice is always one of those we like best.

Pods of every kind are given to it one after the other. Before each, our own core is asked about the same cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

from hekla.api import kinds
from hekla.api.kinds import Obj, kind_of
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import open_plugins
from hekla.scheduler.intake import doors_of, take_in
from hekla.scheduler.session import Session
from hekla.scheduler.trial.objects import group_object, queue_object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.scene import running, serving, wipe
from tests.eventually import until
from tests.scheduler.replay import NAMESPACE

pytestmark = pytest.mark.cluster

OTHER = "other-team"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
OLD_ZONE, REGION = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region"
ON_NODES = ("n0", "n1", "n2")
ZONED = {
    "in-a": {ZONE: "a"},
    "in-a-or-b": {ZONE: "a__b"},
    "in-b-of-old": {OLD_ZONE: "b"},
    "in-r": {REGION: "r", "other": "x"},
    "in-a-of-r": {ZONE: "a", REGION: "r"},
    "in-none": {ZONE: "a____b"},
}
MEBIBYTE = 1024 * 1024
IMAGES = {
    "registry.example:5000/tool:latest": 200 * MEBIBYTE,
    "docker.io/library/model:v2": 3000 * MEBIBYTE,
    "data:1": 700 * MEBIBYTE + 12345,
    "tiny:1": 20 * MEBIBYTE,
}
ASKED_FOR = (*IMAGES, "registry.example:5000/tool", "data:2", "any")
LOOKED_AT = (
    kinds.NODE, kinds.NAMESPACE, kinds.SERVICE, kinds.PERSISTENT_VOLUME, kinds.PERSISTENT_VOLUME_CLAIM,
)  # fmt: skip
PODS = 25


@pytest.mark.parametrize("seed", range(8))
def test_kube_scheduler_chooses_one_of_the_nodes_we_like_best(
    seed: int, bare_plane: ControlPlane, tmp_path: Path
) -> None:
    uvloop.run(follow(bare_plane, Dice(seed), tmp_path))


async def follow(plane: ControlPlane, dice: Dice, directory: Path) -> None:
    async with client_from_files([plane.kubeconfig]) as client:
        await furnish(client, dice)
        async with serving(client, dice.service()):
            around = [obj for kind in LOOKED_AT for obj in await everything(client, kind)]
            choices = 0
            with running(plane, "default-scheduler", directory):
                for number in range(PODS):
                    choices += await choose(client, around, dice.pod(number))
        assert choices > PODS // 4, "nothing to choose from: this shows nothing"


async def choose(client: Client, around: list[Obj], wanted: Obj) -> bool:
    """Whether there was a choice that some of the nodes lost."""
    pod = await client.create(kinds.POD, wanted)
    liked = our_liking([*around, *await everything(client, kinds.POD)], pod)
    node = await place_of(client, pod)
    best = {name for name, points in liked.items() if points == max(liked.values())}
    assert node in best if node else not liked, f"{pod['spec']}: it went to {node}, we like {liked}"
    if not node:
        await client.delete(kinds.POD, pod["metadata"]["name"], pod["metadata"]["namespace"])
    return len(liked) > len(best)


async def furnish(client: Client, dice: Dice) -> None:
    """Nodes, another namespace, and volumes."""
    await wipe(client)
    if await client.find(kinds.NAMESPACE, OTHER) is None:
        metadata = {"name": OTHER, "labels": {"team": "x"}}
        await client.create(kinds.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for number in range(dice.randint(3, 8)):
        node = dice.node(f"n{number}")
        await client.update_status(kinds.NODE, {**await client.create(kinds.NODE, node), "status": node["status"]})
    volumes = [volume_of(node) for node in ON_NODES] + [zoned_volume(name, ZONED[name]) for name in ZONED]
    for obj in (each for pair in volumes for each in pair):
        if await client.find(kind_of(obj), obj["metadata"]["name"], obj["metadata"].get("namespace")) is None:
            made = await client.create(kind_of(obj), obj)
            await client.update_status(kind_of(obj), {**made, "status": {"phase": "Bound"}})


def volume_of(node: str) -> tuple[Obj, Obj]:
    """A volume that is on one node, and the claim that has it."""
    volume, claim = bound_pair(node)
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    volume["spec"] |= {"local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    return volume, claim


def zoned_volume(name: str, labels: dict[str, str]) -> tuple[Obj, Obj]:
    """A volume of which labels say where it is, and the claim that has it."""
    volume, claim = bound_pair(name)
    volume["spec"]["hostPath"] = {"path": "/data"}
    volume["metadata"]["labels"] = labels
    return volume, claim


def bound_pair(name: str) -> tuple[Obj, Obj]:
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": "local"}
    key = {"namespace": NAMESPACE, "name": name}
    spec = {"capacity": {"storage": "1Gi"}, "claimRef": key, **common}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    metadata = {**key, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    wanted = {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": name, **common}
    return volume, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": wanted}


async def everything(client: Client, kind: kinds.Kind) -> list[Obj]:
    return [{"apiVersion": kind.api_version, "kind": kind.kind, **obj} for obj in (await client.list(kind)).items]


async def place_of(client: Client, pod: Obj) -> str:
    """Where it is bound; empty once it is told that it fits nowhere."""
    seen: list[Obj] = []

    async def had_its_turn() -> bool:
        seen[:] = [await client.get(kinds.POD, pod["metadata"]["name"], pod["metadata"]["namespace"])]
        conditions = seen[0].get("status", {}).get("conditions") or ()
        refused = any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
        return refused or bool(seen[0]["spec"].get("nodeName"))

    await until(had_its_turn)
    return str(seen[0]["spec"].get("nodeName") or "")


def our_liking(objects: Iterable[Obj], pod: Obj) -> dict[str, float]:
    """What we make of each node that would take the pod, with the built-in configuration."""
    cache = Cache()
    put = {kinds.POD: cache.put_pod, **{kind: door.put for kind, door in doors_of(cache).items()}}
    for obj in objects:
        if obj["metadata"]["uid"] != pod["metadata"]["uid"]:
            take_in(put[kind_of(obj)], obj)
    cache.put_queue(queue_object({"name": "default"}))
    group = group_object({"name": "alone", "phase": "Inqueue"})
    group["metadata"]["namespace"] = pod["metadata"]["namespace"]
    cache.put_group(group)
    annotations = {"scheduling.k8s.io/group-name": "alone"}
    spec = {**pod["spec"], "schedulerName": "volcano"}
    cache.put_pod({"metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec})
    session = Session(cache.snapshot())
    tiers = open_plugins(default_config(), session)
    of = session.class_of(session.active[0], 0)
    fits, mask = np.all(session.idle >= session.request(of.shape), axis=1), tiers.node_mask(of)
    lines = np.flatnonzero(fits if mask is None else fits & mask)
    if not len(lines):
        return {}
    points = tiers.class_score(of, lines)(lines, np.zeros(len(lines), dtype=np.int64))
    return {session.snapshot.nodes.rows[line].name: float(each) for line, each in zip(lines.tolist(), points)}


class Dice(random.Random):
    """Nodes and pods of all kinds."""

    def happens(self, chance: float) -> bool:
        return self.random() < chance

    def some(self, low: int, high: int) -> range:
        return range(self.randint(low, high))

    def node(self, name: str) -> Obj:
        labels = {
            ZONE: self.choice("abc"),
            OLD_ZONE: self.choice("abc"),
            REGION: self.choice("rs"),
            "disk": self.choice(["ssd", "hdd"]),
            "age": str(self.randint(1, 9)),
        }
        taints = [
            {"key": "team", "value": self.choice(["red", "blue"]), "effect": self.choice(["NoSchedule", "NoExecute"])},
            {"key": "old", "value": self.choice("xy"), "effect": "PreferNoSchedule"},
            {"key": "older", "effect": "PreferNoSchedule"},
        ]
        amounts = {
            "cpu": str(self.choice([4, 7, 8, 13, 16, 29])),
            "memory": f"{self.choice([8, 11, 16, 23, 37])}Gi",
            "pods": str(self.choice([6, 20, 30])),
            "ephemeral-storage": "100Gi",
            "example.com/device": str(self.randint(0, 3)),
        }
        kept = {key: value for key, value in labels.items() if self.happens(0.7)}
        spec = {"taints": [taint for taint in taints if self.happens(0.25)], "unschedulable": self.happens(0.1)}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        images = [{"names": [f"{image}@sha256:0", image], "sizeBytes": size} for image, size in IMAGES.items()]
        status["images"] = [image for image in images if self.happens(0.5)]
        metadata = {"name": name, "labels": {HOST: name, **kept}}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}

    def service(self) -> Obj | None:
        """For some a Service that selects pods."""
        if self.happens(0.5):
            return None
        spec, metadata = {"selector": {"app": "a"}, "clusterIP": "None"}, {"name": "web", "namespace": NAMESPACE}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    def pod(self, number: int) -> Obj:
        spec: dict[str, Any] = {"containers": self.containers(), "terminationGracePeriodSeconds": 0}
        rules = {
            "initContainers": (0.15, self.starters),
            "tolerations": (0.4, self.tolerations),
            "affinity": (0.6, self.affinity),
            "nodeSelector": (0.1, lambda: {"disk": "ssd"}),
            "topologySpreadConstraints": (0.3, self.spread),
            "volumes": (0.25, self.volumes),
        }
        spec |= {field: make() for field, (chance, make) in rules.items() if self.happens(chance)}
        labels = {"app": self.choice("abc"), **({"tier": self.choice("xy")} if self.happens(0.5) else {})}
        metadata = {"name": f"p{number}", "namespace": self.choice([NAMESPACE, NAMESPACE, OTHER]), "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def containers(self) -> list[Obj]:
        asked = {
            "cpu": (0.8, ["100m", "250m", "500m", "1", "1500m"]),
            "memory": (0.8, ["64Mi", "128Mi", "500Mi", "1Gi", "1500M"]),
            "ephemeral-storage": (0.1, ["1Gi"]),
            "example.com/device": (0.1, ["1"]),
        }
        requests = {name: self.choice(amounts) for name, (chance, amounts) in asked.items() if self.happens(chance)}
        limits = {name: amount for name, amount in requests.items() if "/" in name}
        port = {"containerPort": 80, "hostPort": self.choice([80, 81]), "protocol": self.choice(["TCP", "UDP"])}
        port |= {"hostIP": self.choice(["127.0.0.1", "10.0.0.1"])} if self.happens(0.5) else {}
        first = {"name": "main", "image": self.choice(ASKED_FOR), "resources": {"requests": requests, "limits": limits}}
        second = {"name": "second", "image": self.choice(ASKED_FOR), "resources": {"requests": {"cpu": "100m"}}}
        first |= {"ports": [port]} if self.happens(0.1) else {}
        return [first, second] if self.happens(0.2) else [first]

    def starters(self) -> list[Obj]:
        """One that runs before the others and one beside them."""
        before = {
            "name": "before",
            "image": self.choice(ASKED_FOR),
            "resources": {"requests": {"cpu": self.choice(["100m", "3"])}},
        }
        beside = {"name": "beside", "image": self.choice(ASKED_FOR), "resources": {"requests": {"memory": "100Mi"}}}
        return [before, {**beside, "restartPolicy": "Always"}]

    def tolerations(self) -> list[Obj]:
        return [
            self.choice(
                [
                    {"operator": "Exists"},
                    {"key": "team", "operator": "Exists"},
                    {"key": "team", "operator": "Equal", "value": "red"},
                    {"key": "team", "operator": "Exists", "effect": "NoExecute"},
                    {"key": "old", "operator": "Exists"},
                    {"key": "old", "operator": "Equal", "value": "x", "effect": "PreferNoSchedule"},
                    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
                ]
            )
        ]

    def affinity(self) -> Obj:
        found: dict[str, dict[str, Any]] = {}
        if self.happens(0.5):
            found["nodeAffinity"] = {
                PREFERRED: [{"weight": self.randint(1, 100), "preference": self.nodes()} for _ in self.some(1, 3)]
            }
            if self.happens(0.4):
                found["nodeAffinity"][REQUIRED] = {"nodeSelectorTerms": [self.nodes() for _ in self.some(1, 2)]}
        for direction in ("podAffinity", "podAntiAffinity"):
            if self.happens(0.4):
                weighted = [
                    {"weight": self.randint(1, 100), "podAffinityTerm": self.company()} for _ in self.some(0, 2)
                ]
                found[direction] = {PREFERRED: weighted, REQUIRED: [self.company()] if self.happens(0.3) else []}
        return found

    def nodes(self) -> Obj:
        expressions = [
            {"key": ZONE, "operator": self.choice(["In", "NotIn"]), "values": self.sample("abc", 2)},
            {"key": self.choice(["disk", "age"]), "operator": self.choice(["Exists", "DoesNotExist"])},
            {"key": "age", "operator": self.choice(["Gt", "Lt"]), "values": [str(self.randint(1, 9))]},
        ]
        fields = [{"key": "metadata.name", "operator": self.choice(["In", "NotIn"]), "values": ["n1"]}]
        return {
            "matchExpressions": self.sample(expressions, self.randint(1, 2)),
            **({"matchFields": fields} if self.happens(0.1) else {}),
        }

    def company(self) -> Obj:
        where = self.choice(
            [
                {},
                {},
                {"namespaceSelector": {}},
                {"namespaceSelector": {"matchLabels": {"team": "x"}}},
                {"namespaces": [NAMESPACE, OTHER]},
            ]
        )
        mine = {self.choice(["matchLabelKeys", "mismatchLabelKeys"]): ["tier"]} if self.happens(0.15) else {}
        return {"topologyKey": self.choice([ZONE, HOST, "disk"]), "labelSelector": self.pods(), **where, **mine}

    def pods(self) -> Obj:
        values = self.sample("abc", 2)
        return self.choice(
            [
                {"matchLabels": {"app": self.choice("abc")}},
                {"matchLabels": {"app": self.choice("abc")}},
                {"matchExpressions": [{"key": "app", "operator": self.choice(["In", "NotIn"]), "values": values}]},
                {"matchExpressions": [{"key": "app", "operator": self.choice(["Exists", "DoesNotExist"])}]},
                {},
            ]
        )

    def volumes(self) -> list[Obj]:
        """On some nodes or in a zone, or of a claim that does not exist, as all of them do in the other namespace."""
        data = {"name": "data", "persistentVolumeClaim": {"claimName": self.choice([*ON_NODES, *ZONED, "lost"])}}
        image = {"name": "tools", "image": {"reference": self.choice(ASKED_FOR), "pullPolicy": "IfNotPresent"}}
        return self.choice([[data], [image], [data, image]])

    def spread(self) -> list[Obj]:
        return [self.rule(key) for key in self.sample([ZONE, HOST, "disk"], self.randint(1, 2))]

    def rule(self, key: str) -> Obj:
        hard = self.happens(0.4)
        options = {
            "minDomains": (0.3 if hard else 0.0, self.randint(1, 4)),
            "nodeAffinityPolicy": (0.3, self.choice(["Honor", "Ignore"])),
            "nodeTaintsPolicy": (0.3, self.choice(["Honor", "Ignore"])),
            "matchLabelKeys": (0.2, ["tier"]),
        }
        return {
            "topologyKey": key,
            "maxSkew": self.randint(1, 3),
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": self.pods(),
            **{field: value for field, (chance, value) in options.items() if self.happens(chance)},
        }
