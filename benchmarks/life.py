"""What a Job of one pod costs the scheduler from its PodGroup's coming to its running, no API server, no network.

    python -m benchmarks.life [--groups 5000] [--at-once 50]

Groups come so many at once to a cluster of 1,000 nodes; after each step of theirs there is a cycle, whose plan is taken
but not written: what the API server would make of it is put into the cache by hand. Microseconds of CPU a group.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import cast

from benchmarks.workloads import BATCH_NODE, group, node, pod, queue
from hekla.api.kinds import Obj
from hekla.api.meta import key_of, uid_of
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.scheduler.binder import Binder
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.patches import group_status
from hekla.scheduler.plan import Plan

NODES = 1_000
REQUEST = {"cpu": "1", "memory": "1Gi"}
NOW = "2030-01-01T00:00:00Z"


class Life:
    def __init__(self) -> None:
        self.cpu: Counter[str] = Counter()
        self._config = default_config()
        self._cache = Cache()
        self._revisions = count(1)
        self._binder = Binder(
            cast(Client, None), self._cache, cast(Recorder, _Nobody()), clock=SystemClock(), period=1.0, in_flight=1,
            scheduled_events=16, scheduler_name="volcano", torn_seconds=20.0, metrics=None, wake=lambda: None,
        )  # fmt: skip
        for name, parent in (("root", ""), ("default", "root")):
            self._cache.put_queue(self._made({**queue(name, parent), "status": {"state": "Open"}}))
        for number in range(NODES):
            self._cache.put_node(self._made(node(number, BATCH_NODE)))

    def live(self, names: list[str]) -> None:
        """Groups of these names, with a pod each, from beginning to rest."""
        groups = [self._new_group(name) for name in names]
        pods = {name: self._made(pod(f"{name}-worker-0", REQUEST, name)) for name in names}
        self._put_groups("1 come", groups)
        entered = self._cycle("1 come")
        self._write(groups, entered, "Inqueue")
        self._put_groups("2 have entered", groups)
        self._cycle("2 have entered")
        self._put_pods("3 have pods", pods.values())
        placed = self._cycle("3 have pods")
        self._cycle("4 have nodes")
        nodes = placed.bindings()
        for one in pods.values():
            one["spec"]["nodeName"] = nodes[uid_of(one)]
            self._made(one)
        self._put_pods("5 are bound", pods.values())
        bound = self._cycle("5 are bound")
        self._write(groups, bound, "Running")
        self._put_groups("6 run", groups)
        self._cycle("6 run")
        self._cycle("7 rest")

    def _new_group(self, name: str) -> Obj:
        made = self._made(group(name, 1, queue="default"))
        made["spec"] |= {"minResources": REQUEST, "minTaskMember": {"worker": 1}}
        return made

    def _made(self, obj: Obj) -> Obj:
        name = obj["metadata"]["name"]
        obj["metadata"] |= {"uid": name, "creationTimestamp": NOW, "resourceVersion": str(next(self._revisions))}
        return obj

    def _write(self, groups: list[Obj], plan: Plan, phase: str) -> None:
        outcomes = {outcome.group.row.uid: outcome for outcome in plan.groups}
        for one in groups:
            row = self._cache.group(key_of(one))
            assert row is not None
            status = group_status(row, outcomes[uid_of(one)], "cycle", NOW) or {}
            if status.get("phase") != phase:
                raise RuntimeError(f"{row.key} should be {phase}: {status}")
            one["status"] = {**one.get("status", {}), **status}
            self._made(one)

    def _put_groups(self, step: str, groups: list[Obj]) -> None:
        with self._costs(f"{step}: read"):
            for one in groups:
                self._cache.put_group(one)

    def _put_pods(self, step: str, pods: Iterable[Obj]) -> None:
        with self._costs(f"{step}: read"):
            for one in pods:
                self._cache.put_pod(one)

    def _cycle(self, step: str) -> Plan:
        with self._costs(f"{step}: snapshot"):
            snapshot = self._cache.snapshot(step, now=time.time())
        generation = self._cache.generation
        with self._costs(f"{step}: decide"):
            plan = run_cycle(snapshot, self._config)
        with self._costs(f"{step}: take"):
            self._binder.take(plan, generation)
        return plan

    @contextmanager
    def _costs(self, what: str) -> Iterator[None]:
        started = time.process_time_ns()
        yield
        self.cpu[what] += time.process_time_ns() - started


class _Nobody:
    def event(self, *_: object, **__: object) -> None:
        """Events are made and told to nobody."""


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--at-once", type=int, default=50)
    options = parser.parse_args()
    life = Life()
    for first in range(0, options.groups, options.at_once):
        life.live([f"job-{number}" for number in range(first, min(first + options.at_once, options.groups))])
    for what, nanoseconds in sorted(life.cpu.items()):
        print(f"{what:28} {nanoseconds / options.groups / 1000:7.1f} us")
    print(f"{'all':28} {life.cpu.total() / options.groups / 1000:7.1f} us")


if __name__ == "__main__":
    asyncio.run(main())
