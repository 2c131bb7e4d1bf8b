"""How much of a cluster's GPUs can be given away: pods of the openb trace's kind until they ask for all there is.

    python -m benchmarks.openb
    python -m benchmarks.openb --trace cluster-trace-gpu-v2023/csv --seeds 10

The cluster is that of Alibaba's trace (https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2023): 1,213 nodes
with 6,212 GPUs. Its pods are drawn at random, with replacement, until they ask for as much GPU as there is, and come in
that order; one that does not fit is left out and the next is tried. The experiment is that of Weng et al., Beware of
Fragmentation (USENIX ATC 2023). Without `--trace` pods are drawn from a sample, taken down by hand: 1,581 of the 8,152
pods of openb_pod_list_default.csv, in seven stretches of some 225 rows (from pods 0, 1420, 2698, 3969, 5239, 6512 and
7790 on). With it, from all of them.

A card has 1,000 units (`volcano.sh/gpu-memory`). A pod that wants a part of one asks for units, one that wants whole
cards for their number (`volcano.sh/gpu-number`). Wishes for models of GPU are left out. Every pod is a group of its
own; all are decided in one cycle, so that the fragmentation policy sees the whole workload. Of some ways to reckon
fragmentation the best one was chosen on draws 0 to 2: later draws are the fairer test (`--seeds 10`).
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hekla.api.devices import GPU_MEMORY, GPU_NUMBER
from hekla.scheduler.arrays.resources import Floats, Ints
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import Config, PluginEntry, parse_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.extension import NodeScore, PairScore, SchedulerPlugin
from hekla.scheduler.session import Session

CARD = 1000


class NodeKind(NamedTuple):
    cpu: int  # thousandths
    memory: int  # MiB
    gpus: int


class PodKind(NamedTuple):
    cpu: int
    memory: int
    gpus: int
    units: int  # of each GPU


# Kinds of node in openb_node_list_gpu_node.csv. The rare ones were counted by eye. How many there are of the largest
# (G2, G3, T4 and P100 with two cards) follows from totals by model that were not looked up; the sums are the published
# 1,213 nodes and 6,212 GPUs.
NODES = {
    NodeKind(96000, 393216, 8): 549,  # G2
    NodeKind(104000, 524288, 2): 387,  # T4
    NodeKind(16000, 122880, 2): 107,  # P100
    NodeKind(128000, 786432, 8): 39,  # G3
    NodeKind(32000, 131072, 4): 28,  # V100M16
    NodeKind(64000, 262144, 2): 22,  # P100
    NodeKind(96000, 786432, 8): 21,  # V100M32
    NodeKind(8000, 32768, 1): 19,  # V100M16
    NodeKind(96000, 393216, 4): 17,  # T4
    NodeKind(48000, 376832, 4): 9,  # V100M32
    NodeKind(64000, 262144, 8): 7,  # V100M16
    NodeKind(8000, 61440, 1): 3,  # P100
    NodeKind(8000, 61440, 2): 2,  # P100
    NodeKind(128000, 1048576, 1): 2,  # A10
    NodeKind(82000, 344064, 8): 1,  # V100M16
}

# From openb_pod_list_default.csv, the sample: cpu_milli, memory_mib, num_gpu, gpu_milli, and how many ask for that.
PODS = (
    (3152, 5600, 1, 810, 234), (11300, 49152, 1, 1000, 182), (3152, 5600, 1, 1000, 102), (11400, 48128, 1, 1000, 82),
    (12500, 57344, 0, 0, 69), (11908, 47104, 1, 470, 56), (18708, 64512, 1, 1000, 50), (8000, 30517, 1, 470, 49),
    (11908, 47104, 1, 1000, 49), (15700, 58368, 1, 1000, 46), (32000, 49152, 0, 0, 46), (4000, 22888, 1, 320, 39),
    (16000, 32768, 1, 1000, 32), (12000, 24576, 1, 1000, 31), (8000, 30517, 0, 0, 29), (4000, 24576, 1, 1000, 28),
    (11908, 47104, 1, 650, 22), (14200, 58368, 1, 1000, 22), (12000, 16384, 1, 1000, 21), (15400, 51200, 0, 0, 20),
    (8000, 16384, 1, 1000, 19), (8000, 30517, 1, 320, 19), (4000, 15258, 1, 320, 18), (9810, 41560, 1, 1000, 18),
    (11400, 77824, 1, 1000, 18), (4000, 15258, 1, 160, 12), (4000, 31250, 1, 1000, 12), (11900, 77824, 1, 1000, 12),
    (4000, 30517, 1, 320, 11), (4000, 30517, 1, 230, 10), (8000, 32768, 1, 1000, 10), (24200, 93184, 1, 1000, 10),
    (3152, 5600, 1, 590, 9), (4152, 10600, 1, 810, 9), (6000, 6144, 1, 460, 9), (4152, 10600, 1, 550, 8),
    (6000, 12288, 1, 460, 8), (4000, 15258, 1, 220, 7), (4000, 22888, 1, 480, 7), (6000, 22888, 1, 160, 7),
    (8000, 30517, 1, 220, 6), (16500, 51200, 0, 0, 6), (1000, 2048, 1, 320, 5), (4152, 10600, 1, 370, 5),
    (12000, 15360, 1, 1000, 5), (15200, 80896, 1, 1000, 5), (16000, 65536, 1, 1000, 5), (4000, 22888, 1, 230, 4),
    (8000, 30517, 1, 650, 4), (8200, 33792, 1, 1000, 4), (12000, 32768, 1, 1000, 4), (4000, 15258, 1, 110, 3),
    (4000, 16384, 1, 1000, 3), (4000, 30517, 1, 220, 3), (6000, 16384, 1, 460, 3), (6000, 18432, 1, 460, 3),
    (8000, 30517, 1, 230, 3), (11300, 37888, 1, 1000, 3), (14900, 73728, 1, 1000, 3), (15400, 90112, 1, 1000, 3),
    (16000, 49152, 1, 1000, 3), (2000, 8192, 1, 370, 2), (4000, 22888, 1, 220, 2), (4000, 22888, 1, 330, 2),
    (7000, 30000, 1, 1000, 2), (8000, 31250, 0, 0, 2), (8000, 65536, 1, 1000, 2), (11900, 43008, 1, 1000, 2),
    (12000, 18432, 1, 460, 2), (12000, 47104, 1, 1000, 2), (12000, 49152, 1, 1000, 2), (16000, 31250, 0, 0, 2),
    (16400, 125952, 1, 1000, 2), (88000, 327680, 8, 1000, 2), (120000, 737280, 8, 1000, 2), (1000, 2048, 1, 290, 1),
    (1000, 2048, 1, 650, 1), (2000, 8192, 1, 1000, 1), (2000, 16384, 1, 1000, 1), (4000, 15258, 1, 50, 1),
    (4000, 15258, 1, 230, 1), (4000, 15258, 1, 650, 1), (4000, 22888, 1, 350, 1), (4152, 10600, 1, 270, 1),
    (6000, 8192, 1, 460, 1), (6000, 32768, 1, 1000, 1), (8000, 8192, 0, 0, 1), (8000, 15625, 0, 0, 1),
    (8000, 30517, 1, 440, 1), (8000, 61035, 0, 0, 1), (11400, 57344, 0, 0, 1), (12000, 12288, 1, 1000, 1),
    (12500, 65536, 0, 0, 1), (14000, 0, 1, 1000, 1), (16000, 15625, 0, 0, 1), (16000, 16384, 1, 1000, 1),
    (16000, 31250, 1, 1000, 1), (20000, 65536, 0, 0, 1), (30200, 160768, 2, 1000, 1), (32000, 32768, 0, 0, 1),
    (32000, 65536, 0, 0, 1), (32000, 131072, 4, 1000, 1), (32200, 132096, 4, 1000, 1),
)  # fmt: skip

DEVICESHARE = "{name: deviceshare, arguments: {deviceshare.GPUSharingEnable: true%s}}"
POLICY = ", deviceshare.SchedulePolicy: %s, deviceshare.ScheduleWeight: 1"
CONFIG = "actions: allocate\ntiers: [{plugins: [{name: predicates}, %s]}]"


class BestFit(SchedulerPlugin, NodeScore):
    """The node that would have least left, each resource measured by the largest node: what the paper calls BestFit."""

    BY_CONSTRAINTS: ClassVar[bool] = True

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        book = session.cards
        assert book is not None
        self._book = book
        book.prefer = self._tightest
        self._largest = session.snapshot.nodes.allocatable.max(axis=0)[:2]
        self._cards = float((book.size * np.count_nonzero(book.there, axis=1)).max())

    def pair_score(self, shape: int) -> PairScore | None:
        return self._left

    def _left(self, lines: Ints | slice | None, placed: Ints | int) -> Floats:
        """What the pod itself takes is the same everywhere."""
        at = slice(None) if lines is None else lines
        free = (self.session.idle[at, :2] / self._largest).sum(axis=1)
        cards = np.maximum(self._book.room(at, at_once=True), 0.0).sum(axis=1) / self._cards
        return -(free + cards)

    def _tightest(self, line: int, _share: float, cards: Ints) -> int:
        return int(cards[self._book.room(line, at_once=True)[cards].argmin()])


def configs() -> dict[str, Config]:
    plain = parse_config(CONFIG % (DEVICESHARE % ""))
    best = PluginEntry("best-fit", BestFit, {})
    packing = parse_config(
        CONFIG % (f"{{name: binpack, arguments: {{binpack.resources: {GPU_MEMORY}}}}}, " + DEVICESHARE % "")
    )
    return {
        "first fit": plain,
        "binpack (cards)": parse_config(CONFIG % (DEVICESHARE % (POLICY % "binpack"))),
        "binpack (nodes)": packing,
        "best fit": Config(plain.actions, (*plain.tiers, (best,))),
        "fragmentation": parse_config(CONFIG % (DEVICESHARE % (POLICY % "fragmentation"))),
    }


def draw(pods: Mapping[PodKind, int], capacity: int, seed: int) -> list[PodKind]:
    """Pods in the order they come, until they ask for all the GPUs there are."""
    rng, kinds, weights = random.Random(seed), list(pods), list(pods.values())
    drawn, asked = [], 0
    while asked < capacity:
        [pod] = rng.choices(kinds, weights)
        drawn.append(pod)
        asked += pod.gpus * pod.units
    return drawn


def fill(nodes: Mapping[NodeKind, int], pods: Sequence[PodKind], seed: int) -> Cache:
    cache = Cache()
    cache.put_queue({"metadata": {"name": "default", "uid": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}})
    machines = [kind for kind, number in nodes.items() for _ in range(number)]
    random.Random(seed).shuffle(machines)
    for number, kind in enumerate(machines):
        cache.put_node(_node(number, kind))
    for number, pod in enumerate(pods):
        cache.put_group(_group(number))
        cache.put_pod(_pod(number, pod))
    return cache


def _node(number: int, kind: NodeKind) -> dict[str, Any]:
    cards = {GPU_MEMORY: str(CARD * kind.gpus), GPU_NUMBER: str(kind.gpus)}
    amounts = {"cpu": f"{kind.cpu}m", "memory": f"{kind.memory}Mi", "pods": "1000", **cards}
    return {"metadata": {"name": f"node-{number:04}", "uid": f"n{number}"}, "status": {"allocatable": amounts}}


def _group(number: int) -> dict[str, Any]:
    meta = {"name": f"g{number:06}", "namespace": "default", "uid": f"g{number}", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"minMember": 1, "queue": "default"}, "status": {"phase": "Inqueue"}}


def _pod(number: int, kind: PodKind) -> dict[str, Any]:
    asked = {"cpu": f"{kind.cpu}m", "memory": f"{kind.memory}Mi"}
    if kind.gpus:
        asked |= {GPU_NUMBER: str(kind.gpus)} if kind.units == CARD else {GPU_MEMORY: str(kind.units)}
    return {
        "metadata": {
            "name": f"p{number:06}",
            "namespace": "default",
            "uid": f"p{number:06}",
            "resourceVersion": "1",
            "annotations": {"scheduling.k8s.io/group-name": f"g{number:06}"},
        },
        "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "resources": {"requests": asked}}]},
        "status": {"phase": "Pending"},
    }


class Outcome(NamedTuple):
    allocated: float  # of all GPU room
    microseconds: float  # of CPU time for each pod, placed or not


def measure(config: Config, nodes: Mapping[NodeKind, int], pods: Sequence[PodKind], seed: int) -> Outcome:
    snapshot = fill(nodes, pods, seed).snapshot("openb")
    started = time.process_time()
    plan = run_cycle(snapshot, config)
    seconds = time.process_time() - started
    if plan.failures:
        raise RuntimeError(plan.failures[0].sentence)
    placed = {pod.uid for placement in plan.placements for pod, _ in placement.pairs()}
    held = sum(kind.gpus * kind.units for number, kind in enumerate(pods) if f"p{number:06}" in placed)
    return Outcome(held / _capacity(nodes), seconds / len(pods) * 1e6)


def _capacity(nodes: Mapping[NodeKind, int]) -> int:
    return sum(kind.gpus * CARD * number for kind, number in nodes.items())


def read_trace(folder: Path) -> tuple[dict[NodeKind, int], dict[PodKind, int]]:
    nodes: dict[NodeKind, int] = {}
    pods: dict[PodKind, int] = {}
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        for row in csv.DictReader(file):
            node = NodeKind(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]))
            nodes[node] = nodes.get(node, 0) + 1
    with (folder / "openb_pod_list_default.csv").open() as file:
        for row in csv.DictReader(file):
            pod = PodKind(*(int(row[name]) for name in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")))
            pods[pod] = pods.get(pod, 0) + 1
    return nodes, pods


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="folder with the two published files")
    parser.add_argument("--seeds", type=int, default=5, help="so many draws (default 5)")
    given = parser.parse_args()
    nodes, pods = NODES, {PodKind(*kind): number for *kind, number in PODS}
    if given.trace:
        nodes, pods = read_trace(given.trace)
    print(f"{sum(nodes.values())} nodes, {_capacity(nodes) // CARD} GPUs, {given.seeds} draws")
    print(f"{'':>16} {'GPUs given, %':>14} {'from':>7} {'to':>7} {'us/pod':>8}")
    for name, config in configs().items():
        found = [measure(config, nodes, draw(pods, _capacity(nodes), seed), seed) for seed in range(given.seeds)]
        shares = [100 * outcome.allocated for outcome in found]
        cost = statistics.mean(outcome.microseconds for outcome in found)
        print(
            f"{name:>16} {statistics.mean(shares):>14.2f} {min(shares):>7.2f} {max(shares):>7.2f} {cost:>8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
