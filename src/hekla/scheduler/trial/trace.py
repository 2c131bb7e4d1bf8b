"""A made-up day on a small cluster, in virtual time: jobs come, run and go, and every cycle is looked at.

The same seed gives the same jobs at the same times, whatever becomes of them: so two configurations can be held
against each other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hekla.api.quantity import parse
from hekla.scheduler.config import Config
from hekla.scheduler.plan import Plan
from hekla.scheduler.timings import Timings
from hekla.scheduler.trial.miniature import Miniature
from hekla.scheduler.watchdog import Watchdog

_NODES = 16
_JOBS = 32
_SETTLING_CYCLES = 20
_QUEUES = [{"name": "root"}, {"name": "default"}, {"name": "night", "weight": 3}]


@dataclass
class Day:
    """What became of it."""

    jobs: int = 0
    pods: int = 0
    cycles: int = 0
    seconds: float = 0.0  # that all cycles took
    nodes: dict[str, str] = field(default_factory=dict)  # by pod, of all that got one
    waited: dict[str, set[str]] = field(default_factory=dict)  # by reason: the jobs that waited for it
    problems: dict[str, None] = field(default_factory=dict)  # each told once

    @property
    def milliseconds_a_cycle(self) -> float:
        return self.seconds / max(1, self.cycles) * 1000


class _Coming(NamedTuple):
    """A job, the seconds after which it comes, and for how many it will run."""

    job: dict[str, Any]
    after: float
    runs: float


def run_day(config: Config, seed: int, now: Callable[[], float], watchdog: Watchdog | None = None) -> Day:
    """`now` is the clock that cycles are timed with."""
    rng = random.Random(seed)
    world, day = Miniature(config, watchdog), Day()
    world.add({"nodes": [_node(number, rng) for number in range(_NODES)], "queues": _QUEUES})
    # All is drawn before anything is decided.
    coming = [_Coming(_job(number, rng), rng.expovariate(1 / 60), rng.uniform(60, 1800)) for number in range(_JOBS)]
    runs = {each.job["name"]: each.runs for each in coming}
    ends: dict[str, float] = {}  # of jobs that run, in seconds since the start
    for job, after, _ in coming:
        world.now += after
        for name in [name for name, end in ends.items() if end <= world.now]:
            _remove(world, name)
            del ends[name]
        world.add({"groups": [job]})
        day.jobs, day.pods = day.jobs + 1, day.pods + job["pods"]
        _settle(world, day, now)
        for name in _running(world) - ends.keys():
            ends[name] = world.now + runs[name]
    return day


def _settle(world: Miniature, day: Day, now: Callable[[], float]) -> None:
    for _ in range(_SETTLING_CYCLES):
        plan = _cycle(world, day, now)
        if not world.apply(plan):
            return
        day.problems |= dict.fromkeys(_broken_rules(world))
    day.problems[f"{_SETTLING_CYCLES} cycles in a row each changed something, though nothing happened"] = None


def _cycle(world: Miniature, day: Day, now: Callable[[], float]) -> Plan:
    snapshot = world.snapshot()
    started = now()
    plan = world.decide(snapshot, Timings(now))
    day.seconds += now() - started
    day.cycles += 1
    if _shown(plan) != _shown(world.decide(snapshot)):
        day.problems["the same cluster was answered differently the second time"] = None
    day.problems |= dict.fromkeys(failure.sentence for failure in plan.failures)
    for placement in plan.placements:
        day.nodes |= {pod.name: node for pod, node in placement.pairs()}
    for outcome in plan.groups:
        if outcome.waiting is not None and outcome.waiting.reason:
            day.waited.setdefault(outcome.waiting.reason, set()).add(outcome.group.row.key.name)
    return plan


def _shown(plan: Plan) -> tuple[Any, ...]:
    waiting = [(outcome.group.row.key, outcome.phase, outcome.waiting) for outcome in plan.groups]
    return plan.bindings(), waiting, [eviction.pod.uid for eviction in plan.evictions]


def _broken_rules(world: Miniature) -> Iterator[str]:
    """No node holds more than it has; no gang is there in part."""
    held: dict[str, Counter[str]] = {}
    bound: Counter[str] = Counter()
    for (kind, _), obj in world.objects.items():
        node = (obj.get("spec") or {}).get("nodeName") if kind == "Pod" else None
        if node is None:
            continue
        bound[obj["metadata"]["annotations"]["scheduling.k8s.io/group-name"]] += 1
        asked = obj["spec"]["containers"][0]["resources"]["requests"]
        held.setdefault(node, Counter()).update({name: parse(amount) for name, amount in asked.items()})
    for node, amounts in held.items():
        has = world.objects["Node", node]["status"]["allocatable"]
        for name, amount in amounts.items():
            if amount > parse(has.get(name, "0")):
                yield f"{node} was given more {name} than it has"
    for group, count in bound.items():
        if count < world.objects["PodGroup", group]["spec"]["minMember"]:
            yield f"{group} was started with fewer pods than its minimum"


def _running(world: Miniature) -> set[str]:
    return {
        obj["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
        for (kind, _), obj in world.objects.items()
        if kind == "Pod" and obj["spec"].get("nodeName")
    }


def _remove(world: Miniature, job: str) -> None:
    """It has ended, and whoever made it has tidied up."""
    gone = [("PodGroup", job), *(key for key in world.objects if key[0] == "Pod" and key[1].startswith(f"{job}-t-"))]
    for key in gone:
        del world.objects[key]


def _node(number: int, rng: random.Random) -> dict[str, Any]:
    size = rng.choice((4, 8, 16))
    node = {"name": f"node-{number:02}", "cpu": size, "memory": f"{4 * size}Gi", "pods": 110}
    node["labels"] = {"topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {**node, "gpu": 4} if number % 4 == 0 else node


def _job(number: int, rng: random.Random) -> dict[str, Any]:
    pods = rng.choice((1, 1, 2, 4, 8, 16))
    job = {
        "name": f"job-{number:03}",
        "queue": rng.choice(("default", "night")),
        "pods": pods,
        "min": rng.choice((1, pods, pods)),
        "cpu": rng.choice((1, 1, 2, 4)),
        "memory": rng.choice(("512Mi", "2Gi", "8Gi")),
    }
    return {**job, "gpu": 1} if rng.random() < 0.2 else job
