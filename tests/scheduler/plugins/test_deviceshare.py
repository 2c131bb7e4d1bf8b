"""Cards of GPUs: never given twice, given back exactly, and kept up to date pod by pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.api.devices import GPU_INDEX
from hekla.scheduler.cache import Cache
from hekla.scheduler.cardpolicy import LeastFragments
from hekla.scheduler.config import ConfigError, parse_config
from hekla.scheduler.cycle import open_plugins, run_cycle
from hekla.scheduler.placing import nodes_for
from hekla.scheduler.reading import read_node
from hekla.scheduler.residents import Residents
from hekla.scheduler.rows import NodeCards, PodStatus
from hekla.scheduler.session import Session
from hekla.scheduler.statement import Statement
from hekla.scheduler.trial.miniature import Miniature, short_config
from hekla.scheduler.trial.objects import node_object, pod_object
from tests.scheduler.validity import violations

SHARING = {"deviceshare.GPUSharingEnable": True}


def plugin(**more: Any) -> dict[str, Any]:
    return {
        "name": "deviceshare",
        "arguments": SHARING | {f"deviceshare.{name}": value for name, value in more.items()},
    }


CONFIGS = st.sampled_from(
    [
        short_config(
            "enqueue, allocate, preempt, backfill", [["priority", "gang", "conformance"], ["predicates", given_]]
        )
        for given_ in (
            plugin(),
            plugin(SchedulePolicy="binpack", ScheduleWeight=2),
            plugin(SchedulePolicy="spread", ScheduleWeight=1),
            plugin(SchedulePolicy="fragmentation", ScheduleWeight=1),
        )
    ]
)
nodes = st.lists(
    st.fixed_dictionaries(
        {"gpu-number": st.integers(1, 3), "gpu-memory": st.sampled_from([1000, 3000, 5000]), "cpu": st.integers(2, 9)},
        optional={"annotations": st.sampled_from([{"volcano.sh/gpu-unhealthy-ids": ids} for ids in ("0", "1,2", "x")])},
    ),
    min_size=1,
    max_size=3,
)
shares = st.fixed_dictionaries({"gpu-memory": st.sampled_from([200, 300, 500, 800, 1000])})
whole = st.fixed_dictionaries({"gpu-number": st.integers(1, 2)})
plain = st.fixed_dictionaries({"cpu": st.integers(1, 2)})
pods = st.builds(
    lambda asked, cpu, name: {**asked, "cpu": cpu, "class": name},
    st.one_of(shares, shares, whole, plain),
    st.integers(1, 2),
    st.sampled_from(["high", "low"]),
)
groups = st.lists(
    st.fixed_dictionaries({"min": st.integers(1, 4), "pods": st.lists(pods, min_size=1, max_size=5)}), max_size=5
)
often = settings(max_examples=80, deadline=None)


def world_of(given_nodes: list[Any], given_groups: list[Any], config: Any) -> Miniature:
    world = Miniature(config)
    world.add({"queues": [{"name": "root"}, {"name": "default"}], "classes": {"high": 9, "low": 1}})
    world.add({"nodes": [{"name": f"n{number}", **node} for number, node in enumerate(given_nodes)]})
    add_groups(world, "g", given_groups)
    return world


def add_groups(world: Miniature, prefix: str, given_: list[Any]) -> None:
    world.add({"groups": [{"name": f"{prefix}{number}", **group} for number, group in enumerate(given_)]})


def wrong_in(world: Miniature) -> list[str]:
    """Rules broken, and pods on nodes that were not told their cards."""
    found = {kind: [obj for (of, _), obj in world.objects.items() if of == kind] for kind in ("Node", "Pod")}
    untold = [
        pod["metadata"]["name"]
        for pod in found["Pod"]
        if pod["spec"].get("nodeName")
        and any(name.startswith("volcano.sh/gpu") for name in pod["spec"]["containers"][0]["resources"]["requests"])
        and not pod["metadata"]["annotations"].get(GPU_INDEX)
    ]
    return violations(found["Node"], found["Pod"]) + untold


@often
@given(nodes, groups, groups, CONFIGS, st.booleans())
def test_no_card_is_ever_given_more_than_it_has(
    given_nodes: list[Any], first: list[Any], second: list[Any], config: Any, linger: bool
) -> None:
    world = world_of(given_nodes, first, config)
    world.settle()
    assert wrong_in(world) == []
    world.linger = linger
    add_groups(world, "late", second)
    for _ in range(4):
        world.apply(world.cycle())
        assert wrong_in(world) == []


@often
@given(nodes, groups, CONFIGS)
def test_equal_snapshots_give_the_same_cards(given_nodes: list[Any], given_groups: list[Any], config: Any) -> None:
    world = world_of(given_nodes, given_groups, config)
    first, second = (run_cycle(world.cache().snapshot("c"), config) for _ in range(2))
    assert first.bindings() == second.bindings()
    assert [dict(placement.cards) for placement in first.placements] == [
        dict(placement.cards) for placement in second.placements
    ]


@often
@given(nodes, groups, groups)
def test_what_is_kept_of_a_nodes_worth_is_what_it_is_worth_now(
    given_nodes: list[Any], first: list[Any], second: list[Any]
) -> None:
    policy = plugin(SchedulePolicy="fragmentation", ScheduleWeight=3)
    config = short_config("enqueue, allocate", [["gang", "predicates", policy]])
    world = world_of(given_nodes, first, config)
    world.settle()
    add_groups(world, "late", second)
    session = Session(world.cache().snapshot())
    tiers = open_plugins(config, session)
    of_each = [session.class_of(state, at) for state in session.groups for at in range(len(state.group.pods))]
    for state in session.groups:
        for position in np.flatnonzero(state.status == PodStatus.PENDING).tolist():
            of = session.class_of(state, position)
            lines = nodes_for(session, tiers, of, 1, at_once=True)
            if len(lines):
                session.place(state, np.array([position]), lines, of.shape, PodStatus.ALLOCATED)
        assert session.cards is not None
        every = np.arange(len(given_nodes))
        fresh = LeastFragments(session, session.cards)
        for of in dict.fromkeys(of_each):
            worth = fresh.score(of.shape, 3.0)
            kept = tiers.class_score(of, None)(every, np.zeros_like(every))
            assert kept.tolist() == (np.zeros(len(every)) if worth is None else worth(None, 0)).tolist()


class Counted(LeastFragments):
    looks = 0

    def points(self, *given_: Any) -> Any:
        self.looks += 1
        return super().points(*given_)


def test_what_a_node_is_worth_is_worked_out_when_somebody_asks_and_once() -> None:
    config = short_config("enqueue, allocate", [["gang", "predicates", plugin()]])
    world = world_of([{"gpu-memory": 1000, "gpu-number": 1}], [{"min": 1, "pods": 1, "gpu-memory": 600}], config)
    session = Session(world.cache().snapshot())
    open_plugins(config, session)
    assert session.cards is not None
    policy = Counted(session, session.cards)
    score = policy.score(0, 1.0)
    assert score is not None
    assert policy.looks == 0
    for _ in range(2):
        score(None, 0)
        assert policy.looks == 1


@often
@given(nodes, groups, groups, st.data())
def test_discarding_gives_every_card_back(
    given_nodes: list[Any], first: list[Any], second: list[Any], data: st.DataObject
) -> None:
    config = short_config("enqueue, allocate", [["gang", "predicates", plugin()]])
    world = world_of(given_nodes, first, config)
    world.settle()
    add_groups(world, "late", second)
    session = Session(world.cache().snapshot())
    open_plugins(config, session)
    assert session.cards is not None
    before = session.cards.now.tobytes() + session.cards.later.tobytes()
    statement = Statement(session)
    for state in session.groups:
        for position in np.flatnonzero(state.status == PodStatus.PENDING).tolist():
            line = data.draw(st.integers(0, len(session.snapshot.nodes) - 1))
            status = data.draw(st.sampled_from([PodStatus.ALLOCATED, PodStatus.PIPELINED]))
            shape = int(state.group.shape[position])
            statement.place(state, np.array([position]), np.array([line]), shape, status)
        residents = Residents(session, session.groups, (PodStatus.RUNNING,))
        here = [resident for line in range(len(given_nodes)) for resident in residents.on(line)]
        if here and data.draw(st.booleans()):
            statement.evict(data.draw(st.sampled_from(here)), "test")
    statement.discard()
    assert session.cards.now.tobytes() + session.cards.later.tobytes() == before
    assert session.cards.chosen == {}


changes = st.lists(
    st.tuples(
        st.sampled_from(["pod", "drop", "node"]),
        st.integers(0, 1),
        st.sampled_from(["Running", "Running", "Succeeded", "Pending"]),
        st.sampled_from([{"gpu-memory": 300}, {"gpu-number": 2}]),
        st.sampled_from(["0", "1", "0,1", "9", "nonsense"]),
        st.booleans(),
    ),
    max_size=20,
)


@often
@given(changes)
def test_cards_kept_up_to_date_pod_by_pod_are_those_built_from_the_end_state(steps: list[Any]) -> None:
    cache, ends = Cache(), dict[str, Any]()
    for revision, (what, number, phase, asked, cards, leaving) in enumerate(steps, start=1):
        cache.snapshot()
        if what == "node":
            obj = node_object({"name": "n1", "gpu-number": 1 + number, "gpu-memory": 3000})
        else:
            node = {} if phase == "Pending" else {"node": "n1"}
            obj = pod_object({"name": f"p{number}", "phase": phase, **asked, **node}, None)
            obj["metadata"]["annotations"][GPU_INDEX] = cards
            if leaving:
                obj["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        obj["metadata"] |= {"uid": obj["metadata"]["name"], "resourceVersion": str(revision)}
        if what == "drop":
            cache.remove_pod(obj["metadata"]["uid"])
            ends.pop(obj["metadata"]["name"], None)
        else:
            (cache.put_node if what == "node" else cache.put_pod)(obj)
            ends[obj["metadata"]["name"]] = obj
    fresh = Cache()
    for obj in ends.values():
        (fresh.put_node if obj["kind"] == "Node" else fresh.put_pod)(obj)
    kept, built = cache.snapshot().nodes.cards, fresh.snapshot().nodes.cards
    assert (kept is None) == (built is None)
    if kept is not None and built is not None:
        for name in ("size", "there", "used", "leaving"):
            assert getattr(kept, name).tolist() == getattr(built, name).tolist()


def test_a_pod_that_says_it_is_on_another_card_is() -> None:
    cache = Cache()
    node = node_object({"name": "n", "gpu-number": 2, "gpu-memory": 2000})
    cache.put_node({**node, "metadata": {**node["metadata"], "uid": "n"}})
    for revision, card in (("1", "0"), ("2", "1")):
        obj = pod_object({"name": "p", "gpu-memory": 300, "node": "n", "annotations": {GPU_INDEX: card}}, None)
        obj["metadata"] |= {"uid": "p", "resourceVersion": revision}
        assert cache.put_pod(obj)
        cards = cache.snapshot().nodes.cards
    assert cards is not None
    assert cards.used.tolist() == [[0.0, 300e3]]


def test_cards_of_a_pod_without_a_node_are_no_news() -> None:
    cache = Cache()
    obj = pod_object({"name": "p", "gpu-memory": 300}, None)
    obj["metadata"] |= {"uid": "p", "resourceVersion": "1"}
    assert cache.put_pod(obj)
    obj["metadata"] |= {"annotations": {GPU_INDEX: "1"}, "resourceVersion": "2"}
    assert not cache.put_pod(obj)


def test_why_says_how_much_the_roomiest_card_has() -> None:
    given_groups = [
        {"min": 2, "pods": 2, "gpu-memory": 600},
        {"min": 1, "pods": 1, "gpu-memory": 450},
    ]
    config = short_config("enqueue, allocate", [["gang", "predicates", plugin()]])
    world = world_of([{"gpu-memory": 2000, "gpu-number": 2}], given_groups, config)
    world.settle()
    [decision] = world.cycle().decisions()
    assert decision["reason"] == "NotEnoughResources"
    assert decision["sentence"] == (
        "0/1 nodes are unavailable: 1 no enough gpu memory on node(s). "
        "no card has enough room: a pod asks for 450 of one, the roomiest has 400 free"
    )


def test_who_is_held_back_by_its_queue_is_told_so_though_its_cards_are_taken_as_well() -> None:
    config = short_config("enqueue, allocate", [["gang", "predicates", "capacity", plugin()]])
    world = world_of([{"gpu-memory": 1000, "gpu-number": 1}], [], config)
    world.add({"queues": [{"name": "full", "capability": {"cpu": 2}}]})
    asked = {"queue": "full", "min": 1, "cpu": 2, "gpu-memory": 600}
    running = {"node": "n0", "annotations": {GPU_INDEX: "0"}}
    add_groups(world, "g", [{**asked, "phase": "Running", "pods": [running]}, {**asked, "phase": "Inqueue", "pods": 1}])
    [decision] = world.cycle().decisions()
    assert decision["reason"] == "QueueOverQuota"
    assert decision["sentence"].startswith("queue full is at its limit (cpu: 2 asked, 2 in use, 2 allowed")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{deviceshare.GPUSharingEnable: true, deviceshare.GPUNumberEnable: true}", "may not both be true"),
        ("{deviceshare.VGPUEnable: true}", "deviceshare.VGPUEnable: not supported yet"),
        ("{deviceshare.AscendHAMiVNPUEnable: true}", "AscendHAMiVNPUEnable: not supported yet"),
        ("{deviceshare.AscendMindClusterVNPUEnable: true}", "AscendMindClusterVNPUEnable: not supported yet"),
        ("{deviceshare.NodeLockEnable: true}", "NodeLockEnable: not supported yet"),
        ("{deviceshare.SchedulePolicy: best}", "no policy named 'best'"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(arguments: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_config(f"actions: allocate\ntiers: [{{plugins: [{{name: deviceshare, arguments: {arguments}}}]}}]")


@pytest.mark.parametrize(
    ("amounts", "annotations", "cards"),
    [
        ({"gpu-number": 3, "gpu-memory": 3100}, {}, NodeCards(1033e3, (0, 1, 2))),
        ({"gpu-number": 2, "gpu-memory": 2000}, {"volcano.sh/gpu-unhealthy-ids": "1"}, NodeCards(1000e3, (0,))),
        ({"gpu-memory": 2000}, {}, None),
        ({"gpu-number": 2}, {}, NodeCards(1.0, (0, 1))),
        ({"gpu-number": 1_000_000, "gpu-memory": 2000}, {}, None),
    ],
)
def test_a_nodes_cards_are_its_memory_by_their_number(amounts: Any, annotations: Any, cards: NodeCards | None) -> None:
    assert read_node(node_object({"name": "n", "annotations": annotations, **amounts})).cards == cards


def test_an_ill_card_makes_the_others_no_larger() -> None:
    node = node_object({"name": "n", "gpu-number": 1, "gpu-memory": 2000})
    node["status"]["capacity"] = {"volcano.sh/gpu-number": "2", "volcano.sh/gpu-memory": "2000"}
    assert read_node(node).cards == NodeCards(1000e3, (0, 1))
