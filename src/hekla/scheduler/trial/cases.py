"""A case: a made-up cluster, what happens to it, and what must have become of it then.

    name: two gangs want the last four cores and the older one gets them
    nodes: [{name: n1, cpu: 4}]
    groups: [{name: old, pods: 4, min: 4, cpu: 1}, {name: new, pods: 4, min: 4, cpu: 1}]
    expect: {bound: {old-t-0: n1}, waiting: {new-t-0: null}}
    then: [{finish: [old-t-0, old-t-1, old-t-2, old-t-3], expect: {counts: {new: 4}}}]

Given are nodes, queues, classes, groups, pods, storage, and whole `objects` of the API. `then` are steps: `at` moves
the clock, `add` brings more of what can be given, `delete` and `finish` name pods, `open` queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hekla.scheduler.config import Config
from hekla.scheduler.trial.miniature import Miniature
from hekla.scheduler.watchdog import Watchdog

GIVEN = ("nodes", "queues", "classes", "groups", "pods", "storage", "objects")
STEP = ("at", "add", "delete", "finish", "raise", "open", "ungate", "expect")
_QUEUES = {"queues": [{"name": "root"}, {"name": "default"}]}

Finding = Iterator[str]


def run_case(case: dict[str, Any], config: Config, watchdog: Watchdog | None = None) -> list[str]:
    """What is not as expected; that a plugin fails never is."""
    world = Miniature(config, watchdog)
    world.add(_QUEUES)
    world.add(case)
    world.linger = case.get("linger", False)
    world.settle()
    found = list(differences(world, case["expect"]))
    for step in case.get("then", ()):
        take_step(world, step)
        world.settle()
        found += differences(world, step["expect"])
    return [*world.failures, *found]


def take_step(world: Miniature, step: dict[str, Any]) -> None:
    world.now = step.get("at", world.now)
    world.add(step.get("add", {}))
    for name in step.get("delete", ()):
        del world.objects["Pod", name]
    for name in step.get("finish", ()):
        world.objects["Pod", name]["status"] = {"phase": "Succeeded"}
    for name, capability in step.get("raise", {}).items():
        world.objects["Queue", name]["spec"]["capability"] = {key: str(value) for key, value in capability.items()}
    for name in step.get("open", ()):
        world.objects["Queue", name]["status"]["state"] = "Open"
    for name in step.get("ungate", ()):
        world.objects["Pod", name]["spec"].pop("schedulingGates")


def differences(world: Miniature, expect: dict[str, Any]) -> Finding:
    for what, wanted in expect.items():
        yield from EXPECTATIONS[what](world, wanted)


def _bound(world: Miniature, wanted: dict[str, str]) -> Finding:
    for pod, node in wanted.items():
        found = world.node_of(pod)
        if found is None or node not in (found, "anywhere"):
            yield f"{pod} is on {found or 'no node'}, not on {node}"


def _waiting(world: Miniature, wanted: dict[str, str | None]) -> Finding:
    for pod, message in wanted.items():
        if world.node_of(pod) is not None:
            yield f"{pod} is on {world.node_of(pod)}, and should wait"
        elif message is not None:
            yield from _same(f"{pod} waits because", world.message_of(pod), message)


def _gated(world: Miniature, wanted: list[str]) -> Finding:
    pods = {name: obj for (kind, name), obj in world.objects.items() if kind == "Pod"}
    found = [name for name, pod in sorted(pods.items()) if pod["spec"].get("schedulingGates")]
    yield from _same("pods with gates:", found, wanted)


def _evicted(world: Miniature, wanted: list[str]) -> Finding:
    yield from _same("evicted:", sorted(world.evicted), sorted(wanted))


def _counts(world: Miniature, wanted: dict[str, int]) -> Finding:
    for group, count in wanted.items():
        pods = [name for kind, name in world.objects if kind == "Pod" and name.startswith(f"{group}-")]
        yield from _same(f"pods of {group} on nodes:", sum(1 for pod in pods if world.node_of(pod)), count)


def _events(world: Miniature, wanted: dict[str, list[str]]) -> Finding:
    for group, events in wanted.items():
        told = world.events.get(f"PodGroup/{group}", [])
        yield from (f"{group} was not told {event!r}, but {told}" for event in events if event not in told)


def _each(words: str, look: Callable[[Miniature, str], object]) -> Callable[[Miniature, Any], Finding]:
    """Of everything named: what it is, and what it should be."""

    def differing(world: Miniature, wanted: dict[str, Any]) -> Finding:
        for name, value in wanted.items():
            yield from _same(f"{words} {name}:", look(world, name), value)

    return differing


def _same(words: str, found: object, wanted: object) -> Finding:
    if found != wanted:
        yield f"{words} {found!r}, not {wanted!r}"


EXPECTATIONS: dict[str, Callable[[Miniature, Any], Finding]] = {
    "bound": _bound,
    "waiting": _waiting,
    "gated": _gated,
    "evicted": _evicted,
    "counts": _counts,
    "events": _events,
    "cards": _each("cards of", Miniature.cards_of),
    "nominated": _each(
        "node promised to", lambda world, pod: world.objects["Pod", pod]["status"].get("nominatedNodeName")
    ),
    "claimed": _each(
        "volume of", lambda world, claim: world.objects["PersistentVolumeClaim", claim]["spec"].get("volumeName")
    ),
    "phase": _each("phase of", lambda world, group: world.group(group).get("phase")),
    "conditions": _each("conditions of", Miniature.conditions_of),
    "reasons": _each("reason of", lambda world, group: list(world.waiting_of(group))),
    "all_events": _each("events of", lambda world, group: world.events.get(f"PodGroup/{group}")),
    "allocated": _each("allocated in", lambda world, queue: world.objects["Queue", queue]["status"].get("allocated")),
}
