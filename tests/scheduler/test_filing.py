"""Whatever happens, resting groups are filed as a look at all of them files them, and what a cycle has stays."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hekla.api.kinds import Obj
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.siblings import ANY_LABEL, Label
from hekla.scheduler.snapshot import Filed, Snapshot
from hekla.scheduler.trial.miniature import Miniature
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, queue_object

NAMESPACES, KEYS = ("test", "other"), ("app", "tier")


@pytest.mark.parametrize("seed", range(30))
def test_groups_are_filed_as_by_a_look_at_all_of_them(seed: int) -> None:
    rng, cache = random.Random(seed), Cache()
    cache.put_queue(stamped(queue_object({"name": "default"})))
    cache.put_node(stamped(node_object({"name": "n1", "cpu": 64})))
    taken: list[tuple[Filed, dict[Any, Any]]] = []
    for step in range(40):
        happen(rng, cache, step)
        snapshot = cache.snapshot()
        assert contents(snapshot.filed) == filed_anew(snapshot)
        taken.append((snapshot.filed, contents(snapshot.filed)))
        if rng.random() < 0.7:
            cache.settle(run_cycle(snapshot, default_config()))
    assert any(known for _, known in taken)
    assert all(contents(filed) == known for filed, known in taken), "what a cycle was given has changed under it"


def happen(rng: random.Random, cache: Cache, step: int) -> None:
    namespace, number = rng.choice(NAMESPACES), rng.randrange(6)
    service = {"metadata": {"name": f"s{number % 3}", "namespace": namespace}, "spec": {"selector": labels(rng)}}
    group = stamped({**group_object({"name": f"g{number}", "phase": "Running"})}, namespace, step)
    pod = pod_object({"name": f"g{number}-{rng.randrange(2)}", "node": "n1", "labels": labels(rng)}, f"g{number}")
    match rng.randrange(7):
        case 0:
            cache.siblings.put_service(service)
        case 1:
            cache.siblings.remove_service(service)
        case 2:
            cache.remove_group(group)
        case 3:
            cache.look_at_everything()
        case 4:
            cache.remove_pod(f"{namespace}/{pod['metadata']['name']}")
        case _:
            cache.put_group(group)
            cache.put_pod(stamped(pod, namespace, step))


def stamped(obj: Obj, namespace: str = "", step: int = 1) -> Obj:
    name = obj["metadata"]["name"]
    obj["metadata"] |= {"namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": str(step + 1)}
    return obj


def labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice("ab") for key in KEYS if rng.random() < 0.7}


def contents(filed: Filed) -> dict[tuple[str, Label], set[int]]:
    return {
        (namespace, label): {id(group) for group in groups}
        for namespace, by_label in filed.items()
        for label, groups in by_label.items()
    }


def filed_anew(snapshot: Snapshot) -> dict[tuple[str, Label], set[int]]:
    found: dict[tuple[str, Label], set[int]] = {}
    for group in snapshot.resting:
        namespace = group.row.key.namespace
        for key in snapshot.siblings.keys.get(namespace, ()):
            for pod in group.pods:
                if key == ANY_LABEL[0] or key in pod.labels:
                    label = ANY_LABEL if key == ANY_LABEL[0] else (key, pod.labels[key])
                    found.setdefault((namespace, label), set()).add(id(group))
    return found


def test_a_cycle_that_places_a_brother_counts_those_at_rest() -> None:
    world = Miniature()
    world.put({"kind": "Service", "metadata": {"name": "s", "namespace": "test"}, "spec": {"selector": {"app": "a"}}})
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 9}, {"name": "n2", "cpu": 8}]})
    world.add({"groups": [{"name": "old", "phase": "Running", "labels": {"app": "a"}, "pods": [{"node": "n1"}]}]})
    world.add({"groups": [{"name": "new", "phase": "Inqueue", "labels": {"app": "a"}, "pods": [{"cpu": 1}]}]})
    cache = world.cache()
    cache.settle(run_cycle(cache.snapshot(), world.config))
    snapshot = cache.snapshot()
    assert [group.row.key.name for group in snapshot.resting] == ["old"]
    assert run_cycle(snapshot, world.config).placements[0].lines.tolist() == [1]
