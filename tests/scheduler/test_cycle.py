"""What always holds, for random clusters and workloads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import open_plugins, run_cycle
from hekla.scheduler.placing import nodes_for
from hekla.scheduler.plan import Plan
from hekla.scheduler.residents import Residents
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import PodClass, Session
from hekla.scheduler.snapshot import Snapshot
from hekla.scheduler.statement import Statement
from tests.scheduler.miniature import Miniature, short_config

PACKING = short_config("enqueue, allocate, backfill", [["priority", "gang"], ["predicates", "proportion", "binpack"]])
BOTH = short_config("allocate, backfill", [["gang", "predicates", "nodeorder", "binpack"]])
EVICTING = short_config(
    "enqueue, allocate, preempt, reclaim, backfill",
    [["priority", "gang", "conformance", "predicates", "proportion", "drf"]],
)
CONFIGS = st.sampled_from([default_config(), PACKING, BOTH, EVICTING])

nodes = st.lists(
    st.fixed_dictionaries(
        {"cpu": st.integers(1, 8), "memory": st.sampled_from(["2Gi", "4Gi", "16Gi"]), "pods": st.integers(1, 6)},
        optional={
            "gpu": st.integers(1, 4),
            "labels": st.fixed_dictionaries({"zone": st.sampled_from(["a", "b"])}),
            "taints": st.just([{"key": "k", "effect": "NoSchedule"}]),
            "unschedulable": st.booleans(),
        },
    ),
    max_size=6,
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["500m", "1", "2", "3"]),
        "memory": st.sampled_from(["1Gi", "3Gi"]),
        "gpu": st.integers(1, 2),
        "selector": st.just({"zone": "a"}),
        "tolerations": st.just([{"operator": "Exists"}]),
        "port": st.sampled_from([80, 81]),
        "role": st.sampled_from(["master", "worker"]),
        "class": st.sampled_from(["high", "low"]),
        "preemptable": st.booleans(),
    },
)
groups = st.lists(
    st.fixed_dictionaries(
        {"min": st.integers(0, 5), "queue": st.sampled_from(["default", "other"])},
        optional={
            "pods": st.lists(pods, max_size=6),
            "needs": st.fixed_dictionaries({"cpu": st.integers(1, 12)}),
            "roles": st.fixed_dictionaries({"master": st.integers(0, 2), "worker": st.integers(0, 2)}),
            "class": st.sampled_from(["high", "low"]),
        },
    ),
    max_size=5,
)
worlds = st.fixed_dictionaries({"nodes": nodes, "groups": groups})
often = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def world_of(given_: dict[str, Any], config: Any = None) -> Miniature:
    world = Miniature(config)
    world.add({"queues": [{"name": "default"}, {"name": "other", "weight": 3}], "classes": {"high": 9, "low": 1}})
    named = [{"name": f"n{number}", **node} for number, node in enumerate(given_["nodes"])]
    world.add({"nodes": named, "groups": [{"name": f"g{i}", **group} for i, group in enumerate(given_["groups"])]})
    return world


@often
@given(worlds, CONFIGS)
def test_no_node_is_ever_given_more_than_it_has(given_: dict[str, Any], config: Any) -> None:
    world = world_of(given_, config)
    world.settle()
    tables = world.cache().snapshot().nodes
    assert np.all(tables.used <= tables.allocatable)
    for held in tables.ports.values():
        assert len(held) == len(set(held))


@often
@given(worlds, CONFIGS)
def test_a_gang_holds_its_minimum_or_nothing(given_: dict[str, Any], config: Any) -> None:
    world = world_of(given_, config)
    world.settle()
    for group in world.cache().snapshot().groups:
        held = sum(group.counts[status] for status in (PodStatus.BOUND, PodStatus.RUNNING))
        waiting_for_free = int(np.count_nonzero(group.best_effort & (group.status == PodStatus.PENDING)))
        assert held == 0 or held + waiting_for_free >= group.row.min_member


@often
@given(worlds, CONFIGS)
def test_equal_snapshots_give_identical_plans(given_: dict[str, Any], config: Any) -> None:
    world = world_of(given_, config)
    first, second = (run_cycle(world.cache().snapshot("c"), config) for _ in range(2))
    assert as_text(first) == as_text(second)


@often
@given(worlds, CONFIGS)
def test_a_settled_cluster_stays_as_it_is(given_: dict[str, Any], config: Any) -> None:
    world = world_of(given_, config)
    world.settle()
    plan = world.cycle()
    assert not plan.placements
    assert not world.apply(plan)


@often
@given(worlds, st.data())
def test_discarding_restores_everything_to_the_byte(given_: dict[str, Any], data: st.DataObject) -> None:
    world = world_of(given_)
    world.settle()
    world.add({"groups": [{"name": f"late{i}", **group} for i, group in enumerate(given_["groups"])]})
    session = Session(world.cache().snapshot())
    before = tables_of(session)
    statement = Statement(session)
    for state in session.groups:
        for position in np.flatnonzero(state.status == PodStatus.PENDING).tolist():
            if len(session.snapshot.nodes):
                line = data.draw(st.integers(0, len(session.snapshot.nodes) - 1))
                status = data.draw(st.sampled_from([PodStatus.ALLOCATED, PodStatus.PIPELINED]))
                shape = int(state.group.shape[position])
                statement.place(state, np.array([position]), np.array([line]), shape, status)
            residents = [r for line in range(len(session.snapshot.nodes)) for r in everybody(session).on(line)]
            if residents and data.draw(st.booleans()):
                statement.evict(data.draw(st.sampled_from(residents)), "test")
    statement.discard()
    assert tables_of(session) == before
    assert all(list(state.counts) == list(state.group.counts) for state in session.groups)


@often
@given(worlds, CONFIGS, st.integers(1, 12))
def test_a_batch_of_equal_pods_goes_where_they_would_go_one_by_one(
    given_: dict[str, Any], config: Any, count: int
) -> None:
    snapshot = world_of(given_, config).cache().snapshot()
    session = Session(snapshot)
    for state in session.groups:
        classes = dict.fromkeys(session.class_of(state, position) for position in range(len(state.group.pods)))
        for of in classes:
            assert place_all(snapshot, config, of, count, count) == place_all(snapshot, config, of, count, 1)


@often
@given(worlds, worlds)
def test_no_gang_is_broken_to_make_room(first: dict[str, Any], more: dict[str, Any]) -> None:
    world = world_of(first, EVICTING)
    world.settle()
    named = [{"name": f"late{i}", **group} for i, group in enumerate(more["groups"])]
    world.add({"groups": named})
    world.settle()
    for group in world.cache().snapshot().groups:
        held = sum(group.counts[status] for status in (PodStatus.BOUND, PodStatus.RUNNING))
        waiting_for_free = int(np.count_nonzero(group.best_effort & (group.status == PodStatus.PENDING)))
        assert held == 0 or held + waiting_for_free >= group.row.min_member


def everybody(session: Session) -> Residents:
    return Residents(session, session.groups, (PodStatus.BOUND, PodStatus.RUNNING))


def place_all(snapshot: Snapshot, config: Any, of: PodClass, count: int, at_once: int) -> list[int]:
    """The nodes `count` pods of a class get when up to `at_once` of them are asked for in a step."""
    session = Session(snapshot)
    tiers = open_plugins(config, session)
    found: list[int] = []
    while len(found) < count:
        lines = nodes_for(session, tiers, of, session.free_now(), min(at_once, count - len(found)))
        if not len(lines):
            break
        session._account(lines, of.shape, PodStatus.ALLOCATED, 1.0)
        found += lines.tolist()
    return found


def tables_of(session: Session) -> list[bytes]:
    tables = (session.idle, session.used, session.releasing, session.pipelined, session.assumed)
    return [table.tobytes() for table in tables] + [
        repr({k: sorted(map(repr, v)) for k, v in sorted(session.ports.items()) if v}).encode()
    ]


def as_text(plan: Plan) -> str:
    outcomes = [
        (outcome.group.name, outcome.phase, outcome.condition, outcome.announcements, repr(outcome.pod_conditions))
        for outcome in plan.groups
    ]
    placed = [
        (placement.group.name, placement.positions.tolist(), placement.lines.tolist()) for placement in plan.placements
    ]
    return json.dumps([placed, repr(outcomes), repr(plan.queues), plan.decisions()])
