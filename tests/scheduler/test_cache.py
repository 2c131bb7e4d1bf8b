"""The cache: what it knows after changes is what it would know had it started with the result."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.api.kinds import Obj
from hekla.api.meta import key_of, uid_of
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.snapshot import Snapshot
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, queue_object

NODES = ("n1", "n2", "n3")


def made(obj: Obj, uid: str, revision: int = 1) -> Obj:
    obj["metadata"] |= {"uid": uid, "resourceVersion": str(revision)}
    return obj


def small_cache(pods: int = 2, minimum: int = 2) -> Cache:
    cache = Cache()
    cache.put_queue(made(queue_object({"name": "default"}), "q"))
    cache.put_node(made(node_object({"name": "n1", "cpu": 4}), "n"))
    cache.put_group(made(group_object({"name": "a", "min": minimum, "phase": "Inqueue"}), "g"))
    for number in range(pods):
        cache.put_pod(pod(number))
    return cache


def pod(number: int, revision: int = 1, **more: Any) -> Obj:
    return made(pod_object({"name": f"a-t-{number}", "cpu": 1, **more}, "a"), f"p{number}", revision)


def assumed() -> tuple[Cache, Any]:
    cache = small_cache()
    plan = run_cycle(cache.snapshot(), default_config())
    (placement,) = plan.placements
    assert cache.assume(placement, cache.generation)
    return cache, placement


def used_cpu(cache: Cache) -> float:
    return float(cache.snapshot().nodes.used[:, 0].sum())


def test_an_assumed_pod_counts_at_once_and_is_not_placed_again() -> None:
    cache, _ = assumed()
    assert used_cpu(cache) == 2000
    assert run_cycle(cache.snapshot(), default_config()).placements == ()


def test_a_stale_update_does_not_undo_an_assumption() -> None:
    cache, _ = assumed()
    assert not cache.put_pod(pod(0, revision=2))
    assert used_cpu(cache) == 2000


def test_a_confirmed_pod_takes_the_place_of_the_assumption() -> None:
    cache, _ = assumed()
    cache.put_pod(pod(0, revision=2, node="n1", phase="Running"))
    assert used_cpu(cache) == 2000
    cache.forget("p0")
    assert used_cpu(cache) == 2000
    assert cache.snapshot().groups[0].counts[PodStatus.RUNNING] == 1


def test_a_pod_that_succeeded_and_is_being_deleted_is_no_member_any_more() -> None:
    """It is of the run before: counted with the new one, the new gang was started a pod short."""
    cache = small_cache()
    old = pod(0, revision=2, node="n1", phase="Succeeded")
    cache.put_pod({**old, "metadata": {**old["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}})
    assert run_cycle(cache.snapshot(), default_config()).placements == ()
    cache.remove_pod("p0")
    cache.put_pod(made(pod(0), "again"))
    (placement,) = run_cycle(cache.snapshot(), default_config()).placements
    assert len(list(placement.pairs())) == 2


def test_a_forgotten_pod_is_pending_again() -> None:
    cache, _ = assumed()
    cache.forget("p0")
    assert used_cpu(cache) == 1000
    assert cache.snapshot().groups[0].counts[PodStatus.PENDING] == 1


def test_a_deleted_pod_leaves_nothing_behind() -> None:
    cache, _ = assumed()
    for number in range(2):
        cache.remove_pod(uid_of(pod(number)))
    assert used_cpu(cache) == 0
    assert cache.snapshot().groups[0].pods == ()


def test_what_is_gone_does_not_come_back_with_a_late_answer() -> None:
    cache = small_cache()
    group, queue = made(group_object({"name": "a", "min": 2}), "g", 2), made(queue_object({"name": "default"}), "q", 2)
    cache.remove_pod("p0")
    cache.remove_group(group)
    cache.remove_queue(queue)
    assert not cache.refresh_pod(pod(0, revision=2))
    assert not cache.refresh_group(group)
    assert not cache.refresh_queue(queue)
    assert cache.known_pods() == {"p1"}
    assert cache.group(key_of(group)) is None
    assert cache.queue("default") is None


def test_an_answer_about_what_is_still_there_is_taken() -> None:
    cache = small_cache()
    assert cache.refresh_pod(pod(0, revision=2, node="n1"))
    assert cache.refresh_group(made(group_object({"name": "a", "min": 1}), "g", 2))
    assert cache.refresh_queue(made(queue_object({"name": "default", "weight": 7}), "q", 2))
    assert not cache.refresh_queue(made(queue_object({"name": "default", "weight": 9}), "another", 3))


def test_an_older_state_of_a_queue_does_not_overwrite_a_newer_one() -> None:
    cache = Cache()
    cache.put_queue(made(queue_object({"name": "a", "weight": 7}), "q", 5))
    assert not cache.put_queue(made(queue_object({"name": "a", "weight": 1}), "q", 4))
    assert cache.snapshot().queues[0].weight == 7
    assert cache.put_queue(made(queue_object({"name": "a", "weight": 1}), "made again", 3))
    assert not cache.put_queue(made(queue_object({"name": "a", "weight": 1}), "made again", 6))


def test_a_placement_overtaken_by_events_is_refused_as_a_whole() -> None:
    cache = small_cache()
    snapshot, generation = cache.snapshot(), cache.generation
    (placement,) = run_cycle(snapshot, default_config()).placements
    cache.remove_pod(uid_of(pod(1)))
    assert not cache.assume(placement, generation)
    assert used_cpu(cache) == 0


def test_a_pod_of_another_scheduler_takes_room_but_is_never_placed() -> None:
    cache = small_cache(pods=0, minimum=1)
    assert not cache.put_pod(pod(0, scheduler="other"))
    assert cache.put_pod(pod(1, scheduler="other", node="n1"))
    assert used_cpu(cache) == 1000


def test_what_does_not_matter_does_not_wake() -> None:
    cache = small_cache()
    again = pod(0, revision=5)
    again["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "x", "message": "y"}]
    assert not cache.put_pod(again)
    heartbeat = made(node_object({"name": "n1", "cpu": 4}), "n", 9)
    heartbeat["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "now"}]
    assert not cache.put_node(heartbeat)


def test_a_group_made_anew_is_another_group() -> None:
    cache = small_cache()
    cache.put_group(made(group_object({"name": "a", "min": 1}), "g2"))
    cache.remove_group(made(group_object({"name": "a", "min": 2}), "g"))
    assert [group.row.uid for group in cache.snapshot().groups] == ["g2"]


def test_pods_of_a_gang_that_is_still_being_made_start_no_cycle_before_there_are_enough() -> None:
    cache = small_cache(pods=1, minimum=4)
    cache.settle(run_cycle(cache.snapshot(), default_config()))
    generation = cache.generation
    assert not cache.put_pod(pod(1))
    assert not cache.put_pod(pod(2))
    assert cache.generation == generation + 2
    assert cache.put_pod(pod(3))
    assert len(run_cycle(cache.snapshot(), default_config()).bindings()) == 4


changes = st.lists(
    st.tuples(
        st.sampled_from(["pod", "drop", "node", "gone", "resize"]),
        st.integers(0, 5),
        st.sampled_from(NODES),
        st.sampled_from(["Pending", "Running", "Succeeded"]),
        st.sampled_from([{}, {"gpu": 1}, {"memory": "1Gi"}, {"port": 80}]),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(changes)
def test_kept_up_to_date_row_by_row_it_equals_one_built_from_the_end_state(steps: list[Any]) -> None:
    cache, pods, nodes = small_cache(0), {}, {"n1": made(node_object({"name": "n1", "cpu": 4}), "n")}
    for revision, (what, number, node, phase, more) in enumerate(steps, start=2):
        cache.snapshot()
        if what == "pod":
            pods[number] = pod(number, revision, phase=phase, **more, **({} if phase == "Pending" else {"node": node}))
            cache.put_pod(pods[number])
        elif what == "drop" and number in pods:
            cache.remove_pod(uid_of(pods.pop(number)))
        elif what in ("node", "resize"):
            nodes[node] = made(node_object({"name": node, "cpu": 4 + number, **({"gpu": 2} if more else {})}), node)
            cache.put_node(nodes[node])
        elif what == "gone" and node in nodes:
            cache.remove_node(nodes.pop(node))
    fresh = small_cache(0)
    fresh.remove_node(made(node_object({"name": "n1"}), "n"))
    for obj in nodes.values():
        fresh.put_node(obj)
    for obj in pods.values():
        fresh.put_pod(obj)
    assert as_amounts(cache.snapshot()) == as_amounts(fresh.snapshot())


def as_amounts(snapshot: Snapshot) -> list[Any]:
    tables = snapshot.nodes
    lines = [
        (
            row.name,
            [snapshot.columns.amounts(table[line]) for table in (tables.allocatable, tables.used, tables.releasing)],
            tables.assumed[line].tolist(),
            sorted(map(repr, tables.ports.get(line, ()))),
        )
        for line, row in enumerate(tables.rows)
    ]
    groups = [(group.name, group.counts, snapshot.columns.amounts(group.allocated)) for group in snapshot.groups]
    assert np.all(np.isfinite(tables.used))
    return [lines, groups]


def labelled_node(name: str, **labels: str) -> Obj:
    obj = made(node_object({"name": name, "cpu": 4}), name)
    obj["metadata"]["labels"] = labels
    return obj


def test_nodes_with_none_of_the_labels_asked_for_are_not_ours() -> None:
    cache = Cache(node_labels=[("pool", "batch"), ("pool", "gpu")])
    assert cache.put_node(labelled_node("a", pool="batch"))
    assert cache.put_node(labelled_node("b", pool="gpu"))
    assert not cache.put_node(labelled_node("c", pool="web"))
    assert [node.name for node in cache.snapshot().nodes.rows] == ["a", "b"]
    assert cache.put_node(labelled_node("a", pool="web"))
    assert [node.name for node in cache.snapshot().nodes.rows] == ["b"]
