"""What is worth trying for a job that waits: sums and lists that suggest candidates. Pure.

Nothing here decides: a hint that is wrong costs a rehearsal, and is not told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from hekla.api.kinds import NODE, QUEUE, Obj
from hekla.api.meta import name_of
from hekla.api.pod_resources import pod_requests
from hekla.api.quantity import format_binary, format_decimal, parse
from hekla.api.scheduling import DEFAULT_QUEUE
from hekla.cli.supposing import Other, Scene, Sums, capability_of, parents, way_up

_CONDITIONS = "node.kubernetes.io/"  # taints that say what is wrong with a node
_BINARY = ("memory", "ephemeral-storage", "hugepages-")
_MEBIBYTE = 1 << 20


def likely_to_do(scene: Scene) -> list[Other]:
    """The others, those first whose end looks like enough; of these the smallest first, of the rest the largest."""
    need, wanted = _need(scene), scene.wanted()
    of_queue = _queues_beside(scene) if exceeded_limits(scene) else set()
    ranked: list[tuple[bool, bool, Decimal, int, Other]] = []
    for number, other in enumerate(scene.others):
        enough = bool(other.held) and all(other.held.get(name, Decimal(0)) >= amount for name, amount in need.items())
        size = max((other.held.get(name, Decimal(0)) / amount for name, amount in wanted.items() if amount), default=0)
        beside = not of_queue or _queue_of(other) in of_queue
        ranked.append((not beside, not enough, Decimal(size if enough else -size), number, other))
    return [other for *_, other in sorted(ranked, key=lambda one: one[:-1])]


def _need(scene: Scene) -> Sums:
    """What has to become free at least, as far as sums tell."""
    free, wanted = scene.free_by_node, scene.wanted()
    need = {
        name: amount - sum((node.get(name, Decimal(0)) for node in free), Decimal(0)) for name, amount in wanted.items()
    }
    for name, amount in _largest_pod(scene).items():
        most = max((node.get(name, Decimal(0)) for node in free), default=Decimal(0))
        need[name] = max(need.get(name, Decimal(0)), amount - most)
    for over in exceeded_limits(scene).values():
        for name, (sum_of_all, limit) in over.items():
            need[name] = max(need.get(name, Decimal(0)), sum_of_all - limit)
    return {name: amount for name, amount in need.items() if amount > 0}


def exceeded_limits(scene: Scene) -> dict[str, dict[str, tuple[Decimal, Decimal]]]:
    """By queue and resource, where the job would take it beyond its limit: what it would hold then, and the limit."""
    above, wanted, others = parents(scene.all(QUEUE)), scene.wanted(), scene.others
    found: dict[str, dict[str, tuple[Decimal, Decimal]]] = {}
    for queue in queues_above(scene):
        held = [other.held for other in others if name_of(queue) in way_up(_queue_of(other), above)]
        for resource, limit in capability_of(queue).items():
            total = sum((sums.get(resource, Decimal(0)) for sums in held), wanted.get(resource, Decimal(0)))
            if wanted.get(resource) and total > parse(limit):
                found.setdefault(name_of(queue), {})[resource] = (total, parse(limit))
    return found


def queues_above(scene: Scene) -> list[Obj]:
    """Its queue and those above it, the root excepted."""
    queues = {name_of(queue): queue for queue in scene.all(QUEUE)}
    return [queues[name] for name in way_up(scene.queue, parents(queues.values()))]


def _queues_beside(scene: Scene) -> set[str]:
    """The queues whose jobs count where its own exceeds a limit."""
    exceeded = set(exceeded_limits(scene))
    above = parents(scene.all(QUEUE))
    return {name for name in above if exceeded & set(way_up(name, above))}


def _queue_of(other: Other) -> str:
    return str((other.group.get("spec") or {}).get("queue") or DEFAULT_QUEUE)


def selected_labels(scene: Scene) -> list[str]:
    pairs = {f"{key}={value}" for pod in scene.pods for key, value in (pod["spec"].get("nodeSelector") or {}).items()}
    return sorted(pairs)


def taints_of_nodes(scene: Scene) -> list[Obj]:
    """Those of nodes that somebody put there to keep pods away."""
    found = {}
    for node in scene.all(NODE):
        for taint in (node.get("spec") or {}).get("taints") or ():
            if taint.get("effect") in ("NoSchedule", "NoExecute") and not taint["key"].startswith(_CONDITIONS):
                found[taint_text(taint)] = taint
    return [found[text] for text in sorted(found)]


def taint_text(taint: Obj) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def toleration_of(taint: Obj) -> Obj:
    wanted = {"operator": "Equal", "value": taint["value"]} if taint.get("value") else {"operator": "Exists"}
    return {"key": taint["key"], **wanted, "effect": taint["effect"]}


def too_much(scene: Scene, decision: Mapping[str, Any]) -> dict[str, tuple[Decimal, Decimal]]:
    """What a pod asks for and the most that is free on a node, for what it asks too much of."""
    largest = _largest_pod(scene)
    records: Sequence[Mapping[str, Any]] = decision.get("resources") or ()
    if records:
        return {
            record["name"]: (parse(record["wanted"]), parse(record["mostFree"]))
            for record in records
            if not record["fits"] and record["name"] in largest
        }
    free = scene.free_by_node
    most = {name: max((node.get(name, Decimal(0)) for node in free), default=Decimal(0)) for name in largest}
    return {name: (largest[name], most[name]) for name in largest if most[name] < largest[name]}


def _largest_pod(scene: Scene) -> Sums:
    largest: Sums = {}
    for pod in scene.pods:
        for name, amount in pod_requests(pod["spec"]).items():
            largest[name] = max(largest.get(name, Decimal(0)), amount.value)
    return largest


def readable(name: str, amount: Decimal) -> str:
    """No more than the amount, in steps that people write."""
    if name == "cpu":
        step = Decimal(1) if amount >= 10 else Decimal("0.1") if amount >= 1 else Decimal("0.01")
    elif name.startswith(_BINARY):
        mebibytes = 1024 if amount >= 10240 * _MEBIBYTE else 128 if amount >= 1024 * _MEBIBYTE else 1
        step = Decimal(mebibytes * _MEBIBYTE)
    else:
        step = Decimal(1)
    return shown(name, max(amount, Decimal(0)) // step * step)


def shown(name: str, amount: Decimal) -> str:
    return format_binary(amount) if name.startswith(_BINARY) else format_decimal(amount)
