"""What is scheduled: clusters and pods as the public benchmarks of batch and pod schedulers have them.

Sizes follow kube-scheduler's own suite (nodes of 4 CPUs, 32Gi and 110 pods; pods of 100m and 500Mi) and the 10,000-pod
matrix of batch schedulers (1,000 nodes of 16 CPUs and 64Gi; pods of 1 CPU and 1Gi). `W1` to `W4` are Jobs, so that the
job controller takes part; everywhere else pods are made directly. kube-scheduler gets the same pods without gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hekla.api.kinds import JOB, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, Obj

NAMESPACE = "default"
OUR_SCHEDULER, KUBE_SCHEDULER = "volcano", "default-scheduler"
ZONES = 10
BATCH_NODE = {"cpu": "16", "memory": "64Gi", "pods": "110"}
LARGE_NODE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
PLAIN_NODE = {"cpu": "4", "memory": "32Gi", "pods": "110"}
BATCH_POD = {"cpu": "1", "memory": "1Gi"}
PLAIN_POD = {"cpu": "100m", "memory": "500Mi"}

WITH_EVICTIONS = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
WITH_TREE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}, {name: nodeorder}]
"""


@dataclass(frozen=True)
class Workload:
    what: str
    nodes: Sequence[Obj]
    pods: Sequence[Obj]
    setting: Sequence[Obj] = ()  # classes, queues, groups and pods on nodes: there before the clock starts
    waiting: Sequence[Obj] = ()  # pods that never fit: there before the clock starts
    jobs: Sequence[Obj] = ()  # made instead of the pods and their groups, where there are controllers
    conf: str = ""

    @property
    def count(self) -> int:
        return len(self.pods)


def gangs(
    what: str, number: int, size: int, nodes: int, *, gang: bool = True, room: Mapping[str, str] = BATCH_NODE
) -> Workload:
    names = [f"gang-{index}" for index in range(number)]
    return Workload(
        what,
        [node(index, room) for index in range(nodes)],
        [pod(f"{name}-worker-{index}", BATCH_POD, name) for name in names for index in range(size)],
        [group(name, size if gang else 1) for name in names],
    )


def jobs(what: str, number: int, size: int, nodes: int, room: Mapping[str, str] = BATCH_NODE) -> Workload:
    made = gangs(what, number, size, nodes, room=room)
    return Workload(what, made.nodes, made.pods, made.setting, jobs=[job(f"job-{at}", size) for at in range(number)])


def plain(what: str, pods: int, nodes: int, before: int = 0, **spec: Any) -> Workload:
    """Pods that have nothing to do with each other: one group without a minimum holds them."""
    return Workload(
        what,
        [node(index, PLAIN_NODE) for index in range(nodes)],
        [pod(f"pod-main-{index}", PLAIN_POD, "plain", **spec) for index in range(pods)],
        [
            group("plain", 1),
            *(pod(f"early-main-{at}", PLAIN_POD, "plain", nodeName=node_name(at % nodes)) for at in range(before)),
        ],
    )


def backlog(what: str, pods: int, nodes: int, stuck: int) -> Workload:
    """Pods that fit behind pods that never will."""
    made = plain(what, pods, nodes)
    huge = [pod(f"huge-{at}-main-0", {"cpu": "1000"}, f"huge-{at}") for at in range(stuck)]
    groups = [group(f"huge-{at}", 1) for at in range(stuck)]
    return Workload(what, made.nodes, made.pods, [*made.setting, *groups], huge)


def anti_affinity(what: str, pods: int, nodes: int, before: int) -> Workload:
    """No two of the pods on one node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"color": "green"}}}
    shunning = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return plain(what, pods, nodes, before, affinity=shunning)


def spread(what: str, pods: int, nodes: int, before: int) -> Workload:
    rule = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "green"}},
    }
    return plain(what, pods, nodes, before, topologySpreadConstraints=[rule])


def node_affinity(what: str, pods: int, nodes: int, before: int) -> Workload:
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-1", "zone-2"]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    return plain(what, pods, nodes, before, affinity=wanted)


def preemption(what: str, pods: int, nodes: int, residents: int) -> Workload:
    """A cluster full of unimportant pods; each important one needs the room of several."""
    low = {"cpu": f"{3600 * nodes // residents}m", "memory": "500Mi"}
    classes = [{**_named(PRIORITY_CLASS, name, ""), "value": value} for name, value in (("low", 10), ("high", 1000))]
    settled = [
        pod(f"low-main-{at}", low, "low", nodeName=node_name(at % nodes), priorityClassName="low")
        for at in range(residents)
    ]
    wanted = {"cpu": "3", "memory": "500Mi"}
    return Workload(
        what,
        [node(index, PLAIN_NODE) for index in range(nodes)],
        [pod(f"high-main-{at}", wanted, f"high-{at}", priorityClassName="high") for at in range(pods)],
        [*classes, group("low", 1, "low"), *(group(f"high-{at}", 1, "high") for at in range(pods)), *settled],
        conf=WITH_EVICTIONS,
    )


def tree_of_queues(what: str, queues: int, number: int, size: int, nodes: int) -> Workload:
    """Gangs in the leaves of a tree of queues, ten to a branch."""
    branches = [queue(f"branch-{at}", "root") for at in range(max(1, queues // 10))]
    leaves = [queue(f"leaf-{at}", branches[at % len(branches)]["metadata"]["name"]) for at in range(queues)]
    made = gangs(what, number, size, nodes)
    groups = [group(f"gang-{at}", size, queue=leaves[at % len(leaves)]["metadata"]["name"]) for at in range(number)]
    return Workload(what, made.nodes, made.pods, [*branches, *leaves, *groups], conf=WITH_TREE)


def settled_cluster(what: str, pods: int, nodes: int) -> Workload:
    """A cluster with many pods on its nodes, and one gang that wants in."""
    return plain(what, 10, nodes, before=pods)


def workloads(scale: float) -> dict[str, Callable[[], Workload]]:
    """By name; all sizes times `scale`."""

    def n(size: int) -> int:
        return max(1, round(size * scale))

    thousands = n(10_000)
    matrix = {
        f"{number}x{size}{'' if gang else '-off'}": (number, size, gang)
        for number, size in ((10_000, 1), (500, 20), (20, 500), (1, 10_000))
        for gang in (True, False)
    }
    found: dict[str, Callable[[], Workload]] = {
        "basic": lambda: plain("SchedulingBasic", thousands, n(5_000), n(1_000)),
        "unschedulable": lambda: backlog("pods behind 100 gangs that never fit", thousands, n(5_000), 100),
        "node-affinity": lambda: node_affinity("node affinity", thousands, n(5_000), n(5_000)),
        "anti-affinity": lambda: anti_affinity("pod anti-affinity", n(2_000), n(5_000), n(1_000)),
        "spread": lambda: spread("topology spread", n(5_000), n(5_000), n(5_000)),
        "preemption": lambda: preemption("preemption", n(1_000), n(1_000), n(4_000)),
        "queues": lambda: tree_of_queues("hierarchical queues", n(100), n(500), 20, n(1_000)),
        "gangs": lambda: gangs("10 gangs × 100", n(10), 100, n(100), room=LARGE_NODE),
        "W1": lambda: jobs("W1: 10 Jobs × 100", n(10), 100, n(100), LARGE_NODE),
        "W2": lambda: jobs("W2: 1 Job × 10,000", 1, thousands, n(1_000)),
        "W3": lambda: jobs("W3: 500 Jobs × 20", n(500), 20, n(1_000)),
        "W4": lambda: jobs("W4: 10,000 Jobs × 1", thousands, 1, n(1_000)),
        "W5a": lambda: plain("W5a: plain pods", thousands, n(1_000)),
        "W5b": lambda: plain("W5b: plain pods", thousands, n(5_000)),
    }
    for name, (number, size, gang) in matrix.items():
        found[name] = _matrix(name, n(number) if number > 1 else 1, size if number > 1 else n(size), n(1_000), gang)
    return found


def _matrix(name: str, number: int, size: int, nodes: int, gang: bool) -> Callable[[], Workload]:
    return lambda: gangs(f"{number} × {size}, gang {'on' if gang else 'off'}", number, size, nodes, gang=gang)


# Objects


def node_name(number: int) -> str:
    return f"node-{number:05}"


def node(number: int, room: Mapping[str, str]) -> Obj:
    labels = {"kubernetes.io/hostname": node_name(number), "topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
    found = _named(NODE, node_name(number), "")
    found["metadata"]["labels"] = labels
    ready = [{"type": "Ready", "status": "True"}]
    return {**found, "status": {"capacity": room, "allocatable": room, "conditions": ready}}


def group(name: str, minimum: int, priority_class: str = "", queue: str = "") -> Obj:
    spec: dict[str, Any] = {"minMember": minimum}
    if priority_class:
        spec["priorityClassName"] = priority_class
    if queue:
        spec["queue"] = queue
    return {**_named(POD_GROUP, name), "spec": spec}


def queue(name: str, parent: str) -> Obj:
    spec = {"weight": 1, "reclaimable": True, **({"parent": parent} if parent else {})}
    return {**_named(QUEUE, name, ""), "spec": spec}


def pod(name: str, requests: Mapping[str, str], gang: str, **spec: Any) -> Obj:
    found = _named(POD, name)
    found["metadata"]["labels"] = {"color": "green", "volcano.sh/task-spec": "worker"}
    found["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": gang, "volcano.sh/task-spec": "worker"}
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sleep", "30"],
        "resources": {"requests": requests, "limits": requests},
    }
    # Nodes that no kubelet speaks for are tainted before long; pods that must leave leave at once.
    common = {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {**found, "spec": {"schedulerName": OUR_SCHEDULER, **common, **spec}}


def job(name: str, size: int) -> Obj:
    made = pod("any", BATCH_POD, "any")
    spec = {key: value for key, value in made["spec"].items() if key != "schedulerName"}
    template = {"metadata": {"labels": {"color": "green"}}, "spec": {**spec, "restartPolicy": "Never"}}
    return {
        **_named(JOB, name),
        "spec": {
            "schedulerName": OUR_SCHEDULER,
            "minAvailable": size,
            "queue": "default",
            "maxRetry": 3,
            "tasks": [{"name": "worker", "replicas": size, "template": template}],
        },
    }


def for_kube_scheduler(pods: Iterable[Obj]) -> list[Obj]:
    """The same pods for a scheduler that knows no groups."""
    return [{**each, "spec": {**each["spec"], "schedulerName": KUBE_SCHEDULER}} for each in pods]


def _named(kind: Any, name: str, namespace: str = NAMESPACE) -> Obj:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
