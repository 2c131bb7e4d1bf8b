"""Who is where, found by label and by wish among those at rest, is who a look at every pod finds."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from hekla.scheduler.cache import Cache
from hekla.scheduler.company import Company, PodTerm
from hekla.scheduler.config import default_config
from hekla.scheduler.crowd import Crowd
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.rows import Pod, PodStatus
from hekla.scheduler.snapshot import Snapshot
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, queue_object
from tests.scheduler.test_filing import stamped

NODES, APPS, TIERS = 4, ("a", "b", "c"), ("x", "y")
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


@pytest.mark.parametrize("seed", range(30))
def test_those_at_rest_are_counted_as_by_a_look_at_every_pod(seed: int) -> None:
    rng, cache = random.Random(seed), Cache()
    cache.put_queue(stamped(queue_object({"name": "default"})))
    for number in range(NODES):
        cache.put_node(stamped(node_object({"name": f"n{number}", "cpu": 64, "pods": 99})))
    rested = 0
    for step in range(12):
        happen(rng, cache, step)
        snapshot = cache.snapshot()
        rested += len(snapshot.resting)
        compare(rng, snapshot)
        cache.settle(run_cycle(snapshot, default_config()))
    assert rested, "nobody was at rest: this shows nothing"


def happen(rng: random.Random, cache: Cache, step: int) -> None:
    """A group comes, runs in part, or an older one loses a pod."""
    if len(cache.known_pods()) > 3 and rng.random() < 0.3:
        cache.remove_pod(rng.choice(sorted(cache.known_pods())))
        return
    group, namespace = f"g{step}", rng.choice(["test", "other"])
    cache.put_group(stamped(group_object({"name": group, "phase": "Running"}), namespace))
    for number in range(rng.randint(1, 3)):
        labels = {"app": rng.choice(APPS), "tier": rng.choice(TIERS)}
        pod: dict[str, Any] = {"name": f"{group}-t-{number}", "labels": labels, "cpu": 1}
        pod |= {"spread": [spread(rng)]} if rng.random() < 0.3 else {}
        pod |= {"affinity": affinity(rng)} if rng.random() < 0.6 else {}
        pod |= {"node": f"n{rng.randrange(NODES)}"} if rng.random() < 0.8 else {}
        made = stamped(pod_object(pod, group), namespace)
        made["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z"} if rng.random() < 0.2 else {}
        cache.put_pod(made)


def affinity(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in rng.sample(["podAffinity", "podAntiAffinity"], rng.randint(1, 2)):
        found[kind] = {
            REQUIRED: [term(rng) for _ in range(rng.randint(0, 2))],
            PREFERRED: [{"weight": rng.randint(1, 9), "podAffinityTerm": term(rng)} for _ in range(rng.randint(0, 2))],
        }
    return found


def spread(rng: random.Random) -> dict[str, Any]:
    """By a label that nobody else asks for."""
    selector = {"matchLabels": {"tier": rng.choice(TIERS)}}
    return {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "labelSelector": selector}


def term(rng: random.Random) -> dict[str, Any]:
    selectors: list[dict[str, Any]] = [
        {"matchLabels": {"app": rng.choice(APPS)}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": rng.sample(APPS, 2)}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
        {},
    ]
    where = rng.choice([{}, {"namespaceSelector": {}}])
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": rng.choice(selectors), **where}


def compare(rng: random.Random, snapshot: Snapshot) -> None:
    crowd = Crowd(snapshot)
    lines = {node.name: line for line, node in enumerate(snapshot.nodes.rows)}
    pods = [pod for group in (*snapshot.groups, *snapshot.resting) for pod in group.pods]
    there = [(pod, lines[pod.node], 1) for pod in pods if pod.holds_node]
    companies = [pod.shape.constraints.company for pod in pods if pod.shape.constraints.company is not None]
    for _ in range(6):
        asked = rng.choice(companies or [Company()])
        for wanted in (*asked.sought, *asked.shunned, *(rule.term for rule in asked.spread)):
            leaving = rng.random() < 0.5
            assert crowd.matching(wanted, leaving=leaving).tolist() == matching(there, [wanted], leaving=leaving)
        if asked.sought:
            assert crowd.matching_all(asked.sought).tolist() == matching(there, asked.sought, leaving=True)
        newcomer = rng.choice(pods)
        kin = crowd.kin(newcomer)
        assert told(crowd.shunning(kin)) == shunning(there, newcomer)
        assert told(crowd.liking(kin)) == liking(there, newcomer)
        staying = [pod for pod in pods if pod.status is not PodStatus.RELEASING]
        for pod in rng.sample(staying, min(1, len(staying))):
            moved = (pod, rng.randrange(NODES), rng.choice((1, -1)))
            crowd.move([moved[0]], [moved[1]], moved[2])
            there.append(moved)


There = list[tuple[Pod, int, int]]


def matching(there: There, terms: Any, *, leaving: bool) -> list[int]:
    counts = [0] * NODES
    for pod, line, sign in there:
        if (leaving or pod.status is not PodStatus.RELEASING) and all(
            each.matches(pod.namespace, pod.labels) for each in terms
        ):
            counts[line] += sign
    return counts


def told(counts: Any) -> dict[tuple[PodTerm, int], float]:
    return {
        (each, line): float(count) for each, column in counts for line, count in enumerate(column.tolist()) if count
    }


def shunning(there: There, newcomer: Pod) -> dict[tuple[PodTerm, int], float]:
    return summed(there, newcomer, lambda company: [(1, each) for each in company.shunned])


def liking(there: There, newcomer: Pod) -> dict[tuple[PodTerm, int], float]:
    return summed(there, newcomer, lambda company: list(company.toward_others()))


def summed(there: There, newcomer: Pod, wishes: Any) -> dict[tuple[PodTerm, int], float]:
    found: Counter[tuple[PodTerm, int]] = Counter()
    for pod, line, sign in there:
        for points, each in wishes(pod.shape.constraints.company or Company()):
            if each.matches(newcomer.namespace, newcomer.labels):
                found[each, line] += points * sign
    return {key: float(points) for key, points in found.items() if points}
