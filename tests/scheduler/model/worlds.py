"""Random clusters: small, and with a little of everything that the model knows.

Where the configuration has anybody evicted most clusters are full of pods that could leave, for groups that starve.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hekla.scheduler.trial.miniature import Miniature, short_config
from tests.scheduler.model.configs import Setting

Given = dict[str, Any]

_PLAIN = ("cpu", "memory", "gpu", "class", "labels", "node", "phase")
_RUNNING = (2, 3, 4, 8)  # pods of a group, at most
_TAINT = {"key": "k", "effect": "NoSchedule"}
_TOLERATIONS = [{**_TAINT, "operator": "Exists"}, {"operator": "Exists"}, {"key": "k", "value": ""}]


def random_world(rng: Random, setting: Setting) -> Miniature:
    world = Miniature(short_config(", ".join(setting.actions), setting.tiers))
    classes = _classes(rng)
    nodes = [_node(rng, f"n{number}") for number in range(rng.choice([1, 1, 2, 2, 3]))]
    queues = _queues(rng, setting)
    names = _usable(rng, queues)
    places = [node["name"] for node in nodes]
    groups = [
        _group(rng, f"g{number}", names, places, list(classes)) for number in range(rng.choice([1, 2, 3, 3, 4, 5, 6]))
    ]
    if {"preempt", "reclaim"} & set(setting.actions) and rng.random() < 0.75:
        _crowd(rng, groups, nodes)
        _part(rng, groups, names, setting)
        if rng.random() < 0.6:
            _make_plain(groups, nodes)
    world.add({"queues": queues, "classes": classes, "nodes": nodes})
    for group in groups:
        world.add({"groups": [group]})
    for number in range(rng.choice([0, 0, 0, 1, 2])):
        world.add({"pods": [_lone_pod(rng, number, places)]})
    if setting.has("pdb"):
        for number in range(rng.choice([1, 1, 2])):
            world.put(_budget(rng, f"b{number}"))
    for (kind, _), obj in world.objects.items():
        if kind == "PodGroup":
            _upset_group(rng, obj)
        if kind == "Pod":
            _upset_pod(rng, obj, places)
        if kind == "Queue" and rng.random() < 0.3:
            obj["metadata"]["creationTimestamp"] = "2029-12-31T00:00:00Z"
    return world


def _chance(rng: Random, part: float, given: Given) -> Given:
    """Sometimes what is given, otherwise nothing of it."""
    return given if rng.random() < part else {}


def _classes(rng: Random) -> Given:
    found: Given = {"low": 10, "mid": 50, "high": 100}
    if rng.random() < 0.2:
        found["mid"] = {"value": 50, "globalDefault": True}
    if rng.random() < 0.3:
        found["never"] = {"value": 90, "preemptionPolicy": "Never"}
    if rng.random() < 0.1:
        found["system-node-critical"] = 20
    return found


def _node(rng: Random, name: str) -> Given:
    return {
        "name": name,
        "cpu": rng.choice([1, 2, 3, 4, 6]),
        "memory": rng.choice(["2Gi", "4Gi", "8Gi"]),
        "pods": rng.choice([2, 3, 5, 10, 10, 10]),
        **_chance(rng, 0.4, {"gpu": rng.choice([1, 2])}),
        **_chance(rng, 0.3, {"labels": {"zone": rng.choice("ab")}}),
        **_chance(rng, 0.1, {"unschedulable": True}),
        **_chance(rng, 0.15, {"taints": [rng.choice([_TAINT, {**_TAINT, "effect": "PreferNoSchedule"}])]}),
    }


def _queues(rng: Random, setting: Setting) -> list[Given]:
    """Some flat, some below others; every one with its department."""
    found: list[Given] = [{"name": "root"}, {"name": "default"}]
    found[1] |= _chance(rng, 0.75, {"deserved": _share(rng)})
    found += [_queue(rng, f"q{number}") for number in range(rng.choice([0, 1, 2, 2, 3]))]
    if setting.has("capacity"):
        found += [_queue(rng, f"below{number}") for number in range(rng.choice([0, 1, 2, 3]))]
        for number, queue in enumerate(found[2:], start=2):
            above = [each["name"] for each in found[2:number]]
            odd = ["gone"] if rng.random() < 0.03 else []
            queue |= _chance(rng, 0.7, {"parent": rng.choice([*above[:2], *above[:2], "root", *odd])})
            if "parent" in queue and rng.random() < 0.3:
                # What those above it deserve may do for it as well.
                queue.pop("deserved", None)
    for queue in found[1:]:
        department, part = rng.choice([("a", 2), ("b", 1)]), rng.choice([("x", 1), ("y", 3)])
        queue["annotations"] = {
            "volcano.sh/hierarchy": f"root/{department[0]}/{department[0]}{part[0]}",
            "volcano.sh/hierarchy-weights": f"1/{department[1]}/{part[1]}",
        }
    return found


def _usable(rng: Random, queues: list[Given]) -> list[str]:
    """Now and then one that has queues below it, and so is none that groups may be in."""
    above = {queue.get("parent", "root") for queue in queues} if rng.random() < 0.9 else {"root"}
    return [queue["name"] for queue in queues if queue["name"] not in above]


def _queue(rng: Random, name: str) -> Given:
    return {
        "name": name,
        "weight": rng.choice([1, 1, 2, 4]),
        **_chance(rng, 0.25, {"capability": rng.choice([{"cpu": rng.choice([0, 1, 2, 4])}, {"gpu": 1}])}),
        **_chance(rng, 0.9, {"deserved": _share(rng)}),
        **_chance(rng, 0.25, {"guarantee": rng.choice([{"cpu": 1}, {"cpu": 1, "gpu": 1}])}),
        **_chance(rng, 0.2, {"priority": rng.choice([1, 5])}),
        **_chance(rng, 0.06, {"state": "Closed"}),
        **_chance(rng, 0.15, {"reclaimable": False}),
    }


def _share(rng: Random) -> Given:
    return {
        **_chance(rng, 0.9, {"cpu": rng.choice([0, 1, 2, 3, 4, 6])}),
        **_chance(rng, 0.3, {"memory": rng.choice(["1Gi", "4Gi"])}),
        **_chance(rng, 0.3, {"gpu": rng.choice([0, 1])}),
    }


def _group(rng: Random, name: str, queues: list[str], nodes: list[str], classes: list[str]) -> Given:
    number, runs = rng.choice([1, 1, 2, 3, 4, 5]), rng.random() < 0.5
    alike, roles = {"cpu": rng.choice(["500m", 1, 1, 2])}, rng.random() < 0.4
    pods = [_pod(rng, alike, classes) for _ in range(number)]
    for pod in pods:
        pod |= {"role": rng.choice("abb")} if roles else {}
        if runs and rng.random() < 0.75:
            pod.pop("gates", None)
            pod |= {
                "node": rng.choice(nodes),
                "phase": rng.choice(["Running"] * 6 + ["Pending", "Succeeded", "Failed"]),
            }
    group = {
        "name": name,
        "queue": rng.choice(queues),
        "min": rng.randint(0, number) if rng.random() < 0.9 else number + 1,
        "pods": pods,
        "phase": rng.choice(["Running", "Running", "Inqueue"] if runs else ["Pending", "Pending", "Inqueue"]),
        **_chance(rng, 0.6, {"class": rng.choice(classes)}),
        **_chance(rng, 0.5, {"needs": _needs(rng)}),
    }
    if roles:
        group["roles"] = {role: rng.randint(0, 2) for role in rng.sample("abc", rng.choice([1, 2, 2]))}
    if rng.random() < 0.12:
        group["partitions"] = {"size": rng.choice([1, 2, 2, 3]), "min": rng.choice([0, 0, 1, 2])}
        for at, pod in enumerate(pods):
            pod |= _chance(rng, 0.9, {"partition": rng.choice([0, 1, 1, 2, at // 2, at // 2])})
    return group


def _crowd(rng: Random, groups: list[Given], nodes: list[Given]) -> None:
    """Have the first groups run with more pods than they need, until there is no room, and the others starve."""
    room = {node["name"]: float(node["cpu"]) for node in nodes if "unschedulable" not in node}
    number = (2 * len(groups) + 1) // 3
    running, starving = groups[:number], groups[number:]
    for group in running:
        alike = group["pods"]
        group["pods"] = [
            placed for _ in range(rng.choice(_RUNNING)) if (placed := _placed(rng, rng.choice(alike), room))
        ]
        minimum = rng.randint(0, max(0, len(group["pods"]) - 1))
        group |= {"phase": "Running", "min": minimum, **_chance(rng, 0.7, {"class": "low"})}
    for group in starving:
        minimum = min(len(group["pods"]), rng.choice([1, 1, 2, 3, 5]))
        group |= {
            "phase": rng.choice(["Inqueue", "Inqueue", "Pending"]),
            "min": minimum,
            **_chance(rng, 0.7, {"class": "high"}),
        }
        group["pods"] = [{key: pod[key] for key in pod if key not in ("node", "phase")} for pod in group["pods"]]


def _placed(rng: Random, pod: Given, room: dict[str, float]) -> Given | None:
    places = [name for name in room if room[name] >= _cores(pod)]
    if not places:
        return None
    node = rng.choice(places)
    room[node] -= _cores(pod)
    return {**{key: pod[key] for key in pod if key != "gates"}, "node": node, "phase": "Running"}


def _part(rng: Random, groups: list[Given], queues: list[str], setting: Setting) -> None:
    """Have those who starve in a queue where nobody runs, or all in the same."""
    own = rng.choice(queues)
    others = [name for name in queues if name != own]
    if "reclaim" in setting.actions and others and rng.random() < 0.7:
        for group in groups:
            group["queue"] = rng.choice(others) if group["phase"] == "Running" else own
    elif "preempt" in setting.actions and rng.random() < 0.7:
        for group in groups:
            group["queue"] = own


def _make_plain(groups: list[Given], nodes: list[Given]) -> None:
    """Leave out what keeps pods from nodes, or groups from being whole, so that who may leave is what matters."""
    for node in nodes:
        node.pop("unschedulable", None)
        node.pop("taints", None)
    for group in groups:
        group.pop("roles", None)
        group.pop("partitions", None)
        group["pods"] = [{key: pod[key] for key in pod if key in _PLAIN} for pod in group["pods"]]


def _cores(pod: Given) -> float:
    before = 1.5 if "init" in pod else 0.0
    asked = str(pod.get("cpu", 0))
    return max(before, float(asked.removesuffix("m")) / (1000 if asked.endswith("m") else 1))


def _pod(rng: Random, alike: Given, classes: list[str]) -> Given:
    asked = alike if rng.random() < 0.7 else {"cpu": rng.choice(["100m", "500m", 1, 2, 3])}
    asked = {
        **asked,
        **_chance(rng, 0.25, {"memory": rng.choice(["512Mi", "1Gi", "3Gi"])}),
        **_chance(rng, 0.15, {"gpu": 1}),
    }
    before = {"name": "init", "resources": {"requests": {"cpu": "1500m"}}}
    return {
        **_chance(rng, 0.85, asked),
        **_chance(rng, 0.2, {"class": rng.choice(classes)}),
        **_chance(rng, 0.12, {"preemptable": False}),
        **_chance(rng, 0.1, {"selector": {"zone": rng.choice("ab")}}),
        **_chance(rng, 0.08, {"port": rng.choice([80, 81])}),
        **_chance(rng, 0.12, {"tolerations": [rng.choice(_TOLERATIONS)]}),
        **_chance(rng, 0.07, {"gates": [{"name": "x"}]}),
        **_chance(rng, 0.05, {"init": [before]}),
        **_chance(rng, 0.5, {"labels": {"app": rng.choice("xy")}}),
    }


def _needs(rng: Random) -> Given:
    return {
        "cpu": rng.choice([1, 2, 4, 8]),
        **_chance(rng, 0.3, {"memory": "1Gi"}),
        **_chance(rng, 0.1, {"gpu": 1}),
    }


def _lone_pod(rng: Random, number: int, nodes: list[str]) -> Given:
    """Of no group, of one that is not there, or added to one by hand; perhaps another scheduler's."""
    return {
        "name": f"x{number}-t-{number}",
        "cpu": rng.choice([1, "500m"]),
        "group": rng.choice([None, "nobody", "g0", "g1"]),
        "scheduler": rng.choice(["volcano", "other"]),
        **_chance(rng, 0.1, {"namespace": "kube-system"}),
        **_chance(rng, 0.6, {"node": rng.choice(nodes)}),
    }


def _budget(rng: Random, name: str) -> Given:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "test"},
        "spec": {"selector": {"matchLabels": {"app": rng.choice("xy")}}},
        "status": {"disruptionsAllowed": rng.choice([0, 1, 1, 2])},
    }


def _upset_group(rng: Random, obj: Given) -> None:
    if rng.random() < 0.03:
        obj["spec"]["queue"] = "missing"
    if rng.random() < 0.05:
        obj["status"]["phase"] = rng.choice(["Unknown", "Completed"])


def _upset_pod(rng: Random, obj: Given, nodes: list[str]) -> None:
    placed = bool(obj["spec"].get("nodeName"))
    if rng.random() < 0.03:
        obj["status"]["phase"] = "Unknown"
    if placed and rng.random() < 0.03:
        obj["spec"]["nodeName"] = "gone"
    if placed and rng.random() < 0.12:
        obj["metadata"]["deletionTimestamp"] = "2030-01-02T00:00:00Z"
    if not placed and rng.random() < 0.08:
        obj["status"]["nominatedNodeName"] = rng.choice([*nodes, "gone"])
    if rng.random() < 0.05:
        obj["metadata"]["annotations"]["volcano.sh/task-priority"] = str(rng.choice([0, 5, 200]))
