"""Tables made in one go are those that come of counting pod after pod."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hekla.scheduler.cache import Cache
from hekla.scheduler.snapshot import Nodes
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, queue_object
from tests.scheduler.test_filing import stamped


@pytest.mark.parametrize("seed", range(20))
def test_tables_made_anew_are_those_that_were_kept_up_to_date(seed: int) -> None:
    rng = random.Random(seed)
    pods = [pod_of(rng, number) for number in range(rng.randint(20, 60))]
    kept, anew = empty_cache(), empty_cache()
    kept.snapshot()
    for cache in (kept, anew):
        for pod in pods:
            cache.put_pod(pod)
    assert contents(kept.snapshot().nodes) == contents(anew.snapshot().nodes)


def empty_cache() -> Cache:
    cache = Cache()
    cache.put_queue(stamped(queue_object({"name": "default"})))
    cache.put_group(stamped(group_object({"name": "a"}), "test"))
    for number in range(3):
        cache.put_node(stamped(node_object({"name": f"n{number}", "cpu": 64})))
    return cache


def pod_of(rng: random.Random, number: int) -> dict[str, Any]:
    given = {"name": f"p{number}", "cpu": rng.choice(["1", "500m"]), "phase": rng.choice(["Running", "Succeeded"])}
    given |= {"node": f"n{rng.randrange(4)}"} if rng.random() < 0.9 else {}
    given |= {"port": 80} if rng.random() < 0.5 else {}
    pod = stamped(pod_object(given, "a"), "test")
    pod["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z"} if rng.random() < 0.2 else {}
    return pod


def contents(nodes: Nodes) -> list[Any]:
    ports = {line: sorted(map(str, held)) for line, held in nodes.ports.items()}
    return [nodes.used.tolist(), nodes.releasing.tolist(), nodes.assumed.tolist(), ports]
