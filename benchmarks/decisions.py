"""How fast the scheduler decides: pods per second of CPU time of `run_cycle` alone, no API server, no binding.

    python -m benchmarks.decisions

Identical pods are one gang of one template. Mixed pods are one gang in which no two pods ask for the same.
"""

from __future__ import annotations

import time
from typing import Any

from hekla.scheduler.cache import Cache
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle

ROUNDS = 5


def measure(nodes: int, pods: int, mixed: bool) -> float:
    """Pods per second, the best of a few rounds; every pod must have been placed."""
    cache = fill(nodes, pods, mixed)
    config = default_config()
    best = float("inf")
    for _ in range(ROUNDS):
        snapshot = cache.snapshot("benchmark")
        start = time.process_time()
        plan = run_cycle(snapshot, config)
        best = min(best, time.process_time() - start)
        placed = sum(map(len, plan.placements))
        if placed != pods:
            raise RuntimeError(f"{placed} of {pods} pods placed")
    return pods / best


def fill(nodes: int, pods: int, mixed: bool) -> Cache:
    """A cache with an empty cluster (32 CPU, 256Gi nodes) and one gang that wants all its pods at once."""
    cache = Cache()
    cache.put_queue({"metadata": {"name": "default", "uid": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}})
    for number in range(nodes):
        cache.put_node(_node(number))
    cache.put_group(
        {
            "metadata": {"name": "gang", "namespace": "default", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": pods, "queue": "default"},
            "status": {"phase": "Inqueue"},
        }
    )
    for number in range(pods):
        cache.put_pod(_pod(number, mixed))
    return cache


def _node(number: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"node-{number:05}", "uid": f"n{number}"},
        "status": {"allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"}},
    }


def _pod(number: int, mixed: bool) -> dict[str, Any]:
    cpu, memory = (f"{100 + number % 97}m", f"{100 + number}Mi") if mixed else ("1", "1Gi")
    return {
        "metadata": {
            "name": f"gang-worker-{number}",
            "namespace": "default",
            "uid": f"p{number:06}",
            "resourceVersion": "1",
            "annotations": {"scheduling.k8s.io/group-name": "gang", "volcano.sh/task-spec": "worker"},
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
        "status": {"phase": "Pending"},
    }


def main() -> None:
    print(f"{'nodes':>7} {'pods':>7} {'kind':>10} {'pods/s':>12} {'us/pod':>8}")
    for nodes, pods, mixed in (
        (100, 1_000, False),
        (1_000, 10_000, False),
        (5_000, 10_000, False),
        (5_000, 100_000, False),
        (1_000, 2_000, True),
        (5_000, 2_000, True),
        (20_000, 2_000, True),
    ):
        rate = measure(nodes, pods, mixed)
        print(f"{nodes:>7} {pods:>7} {'mixed' if mixed else 'identical':>10} {rate:>12,.0f} {1e6 / rate:>8.2f}")


if __name__ == "__main__":
    main()
