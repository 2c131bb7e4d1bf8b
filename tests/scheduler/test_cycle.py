"""What always holds, for random clusters and workloads."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
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
from hekla.scheduler.trial.miniature import Miniature, short_config
from tests.scheduler.validity import violations

PACKING = short_config("enqueue, allocate, backfill", [["priority", "gang"], ["predicates", "proportion", "binpack"]])
BOTH = short_config("allocate, backfill", [["gang", "predicates", "nodeorder", "binpack"]])
EVICTING = short_config(
    "enqueue, allocate, preempt, reclaim, backfill",
    [["priority", "gang", "conformance", "predicates", "proportion", "drf"]],
)
LENIENT = {"name": "nodegroup", "arguments": {"strict": False}}
# Everything that can be had at once.
CROWDED = short_config(
    "enqueue, allocate, preempt, reclaim, backfill",
    [
        ["priority", "gang", "conformance", "pdb"],
        ["overcommit", {"name": "drf", "enableHierarchy": True}, "predicates", "nodeorder", "binpack", LENIENT],
        [{"name": "capacity", "enableHierarchy": True}, "resourcequota", "task-topology", "sla"],
    ],
)
CROWDED_FLAT = short_config(
    "enqueue, allocate, preempt, reclaim, backfill",
    [["priority", "gang", "conformance"], ["overcommit", "predicates", "capacity", "nodeorder", "task-topology"]],
)
CONFIGS = st.sampled_from([default_config(), PACKING, BOTH, EVICTING, CROWDED, CROWDED_FLAT])
APPS = {"labels": st.fixed_dictionaries({"app": st.sampled_from(["x", "y"])})}

nodes = st.lists(
    st.fixed_dictionaries(
        {"cpu": st.integers(1, 8), "memory": st.sampled_from(["2Gi", "4Gi", "16Gi"]), "pods": st.integers(1, 6)},
        optional={
            "gpu": st.integers(1, 4),
            "labels": st.fixed_dictionaries({"zone": st.sampled_from(["a", "b"])}),
            "taints": st.just([{"key": "k", "effect": "NoSchedule"}]),
            "unschedulable": st.booleans(),
            "images": st.dictionaries(st.sampled_from(["i:1", "j:latest"]), st.sampled_from([60, 400, 900])),
        },
    ),
    max_size=6,
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
company = st.sampled_from(
    [
        {kind: {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}]}}
        for kind in ("podAffinity", "podAntiAffinity")
        for key in ("zone", "kubernetes.io/hostname")
    ]
)
spread = st.sampled_from(
    [
        [{"topologyKey": "zone", "maxSkew": skew, "whenUnsatisfiable": what, "labelSelector": {"matchLabels": labels}}]
        for skew in (1, 2)
        for what in ("DoNotSchedule", "ScheduleAnyway")
        for labels in ({"app": "x"}, {"app": "y"})
    ]
)
init = st.sampled_from(
    [[{"name": "init", "resources": {"requests": {"cpu": cpu, "nvidia.com/gpu": "1"}}}] for cpu in ("500m", "3")]
)
pods = st.fixed_dictionaries(
    {},
    optional={
        **APPS,
        "affinity": company,
        "spread": spread,
        "init": init,
        "cpu": st.sampled_from(["500m", "1", "2", "3"]),
        "memory": st.sampled_from(["1Gi", "3Gi"]),
        "gpu": st.integers(1, 2),
        "selector": st.just({"zone": "a"}),
        "tolerations": st.just([{"operator": "Exists"}]),
        "port": st.sampled_from([80, 81]),
        "image": st.sampled_from(["i:1", "j", "k"]),
        "claims": st.lists(st.sampled_from(["c0", "c1", "c2", "m0", "m1", "m2"]), min_size=1, max_size=2, unique=True),
        "role": st.sampled_from(["master", "worker"]),
        "class": st.sampled_from(["high", "low"]),
        "preemptable": st.booleans(),
    },
)
alike = st.builds(lambda pod, number: [dict(pod) for _ in range(number)], pods, st.integers(2, 6))
groups = st.lists(
    st.fixed_dictionaries(
        {"min": st.integers(0, 5), "queue": st.sampled_from(["default", "other"])},
        optional={
            "pods": st.one_of(st.lists(pods, max_size=6), alike),
            "needs": st.fixed_dictionaries({"cpu": st.integers(1, 12)}),
            "roles": st.fixed_dictionaries({"master": st.integers(0, 2), "worker": st.integers(0, 2)}),
            "class": st.sampled_from(["high", "low"]),
        },
    ),
    max_size=5,
)
worlds = st.fixed_dictionaries({"nodes": nodes, "groups": groups, "served": st.booleans()})
# Volumes that are there, on nodes, for claims c…; and volumes that are made for claims m…, one to a node.
STORAGE = {
    "classes": {"lazy": {}, "made": {"provisioner": "driver"}},
    "volumes": [{"name": f"v{number}", "node": f"n{number % 2}"} for number in range(3)],
    "claims": [
        *({"name": f"c{number}"} for number in range(3)),
        *({"name": f"m{number}", "of": "made"} for number in range(3)),
    ],
    "limits": {f"n{number}": {"driver": 1} for number in range(6)},
}
SERVICES = [
    {"kind": "Service", "metadata": {"name": app, "namespace": "test"}, "spec": {"selector": {"app": app}}}
    for app in ("x", "y")
]
# Without shrinking, which takes minutes here: the example found is small enough to look at.
often = settings(
    max_examples=100,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
# Those that run many cycles an example have fewer of them.
sometimes = settings(often, max_examples=40)


def world_of(given_: dict[str, Any], config: Any = None) -> Miniature:
    world = Miniature(config)
    other = {"name": "other", "weight": 3, "capability": {"cpu": 9}, "deserved": {"cpu": 3}}
    world.add({"queues": [{"name": "root"}, {"name": "default"}, other], "classes": {"high": 9, "low": 1}})
    named = [{"name": f"n{number}", **node} for number, node in enumerate(given_["nodes"])]
    for node in named:
        node["labels"] = {"kubernetes.io/hostname": node["name"], **node.get("labels", {})}
    world.add({"storage": STORAGE, "objects": SERVICES if given_["served"] else []})
    world.add({"nodes": named, "groups": [{"name": f"g{i}", **group} for i, group in enumerate(given_["groups"])]})
    return world


@often
@given(worlds, CONFIGS)
def test_no_node_is_ever_given_more_than_it_has(given_: dict[str, Any], config: Any) -> None:
    world = world_of(given_, config)
    world.settle()
    tables = world.cache().snapshot().nodes
    assert np.all(tables.used <= tables.allocatable)
    assert violations_in(world) == []


@sometimes
@given(worlds, groups, groups, CONFIGS, st.booleans())
def test_nor_where_pods_leave_for_others_and_others_keep_coming(
    first: dict[str, Any], second: list[Any], third: list[Any], config: Any, linger: bool
) -> None:
    """Pods that linger keep their room, and those that were promised it wait."""
    world = world_of(first, config)
    world.settle()
    world.linger = linger
    for number, more in enumerate((second, third)):
        world.add({"groups": [{"name": f"late{number}-{i}", **group} for i, group in enumerate(more)]})
        for _ in range(3):
            world.apply(world.cycle())
            assert violations_in(world) == []
            tables = world.cache().snapshot().nodes
            assert np.all(tables.used <= tables.allocatable)


@often
@given(worlds, CONFIGS)
def test_a_gang_holds_its_minimum_or_nothing(given_: dict[str, Any], config: Any) -> None:
    world = world_of(given_, config)
    world.settle()
    # parity: A3; a tier that lets nobody be evicted leaves it to the next one, where nobody may know of gangs.
    robbed = {pod.rpartition("-t-")[0] for pod in world.evicted} if len(config.tiers) > 1 else set()
    for group in world.cache().snapshot().groups:
        held = sum(group.counts[status] for status in (PodStatus.BOUND, PodStatus.RUNNING))
        waiting_for_free = int(np.count_nonzero(group.best_effort & (group.status == PodStatus.PENDING)))
        assert held == 0 or held + waiting_for_free >= group.row.min_member or group.row.key.name in robbed


@often
@given(worlds, CONFIGS)
def test_equal_snapshots_give_identical_plans(given_: dict[str, Any], config: Any) -> None:
    world = world_of(given_, config)
    first, second = (run_cycle(world.cache().snapshot("c"), config) for _ in range(2))
    assert as_text(first) == as_text(second)


@sometimes
@given(worlds, groups, CONFIGS, st.randoms(use_true_random=False))
def test_the_order_in_which_objects_came_does_not_matter(
    given_: dict[str, Any], late: list[Any], config: Any, random: Random
) -> None:
    world = world_of(given_, config)
    world.settle()
    world.add({"groups": [{"name": f"late{i}", **group} for i, group in enumerate(late)]})
    first = run_cycle(world.cache().snapshot("c"), config)
    shuffled = list(world.objects.items())
    random.shuffle(shuffled)
    world.objects = dict(shuffled)
    assert as_text(first) == as_text(run_cycle(world.cache().snapshot("c"), config))


@sometimes
@given(worlds, groups, CONFIGS)
def test_a_whole_cycle_in_batches_is_the_cycle_one_pod_at_a_time(
    given_: dict[str, Any], late: list[Any], config: Any
) -> None:
    world = world_of(given_, config)
    world.settle()
    alike = [{"name": f"late{i}", **group, "pods": [*group.get("pods", ())] * 3} for i, group in enumerate(late)]
    for group in alike:
        group["pods"] = [{**pod, "name": f"{group['name']}-t-{at}"} for at, pod in enumerate(group["pods"])]
    world.add({"groups": alike})
    together = run_cycle(world.cache().snapshot("c"), config)
    with patch("hekla.scheduler.actions.allocate.nodes_for", one_node_for):
        one_by_one = run_cycle(world.cache().snapshot("c"), config)
    assert as_text(together) == as_text(one_by_one)


def one_node_for(session: Session, tiers: Any, of: PodClass, count: int, *, at_once: bool) -> Any:
    return nodes_for(session, tiers, of, min(count, 1), at_once=at_once)


def violations_in(world: Miniature) -> list[str]:
    """Kubernetes' rules, checked on the objects. Not those about company: it may have left since."""
    nodes = [obj for (kind, _), obj in world.objects.items() if kind == "Node"]
    found = [obj for (kind, _), obj in world.objects.items() if kind == "Pod"]
    wrong = [text for text in violations(nodes, found) if "affinity to nobody" not in text and "spread" not in text]
    return wrong + volumes_out_of_place(world, found)


def volumes_out_of_place(world: Miniature, pods_: list[Any]) -> list[str]:
    """Pods without their volumes, or with volumes elsewhere; nodes with more of them than they may have."""
    wrong = []
    attached: dict[str, set[str]] = {}
    for pod in pods_:
        node = pod["spec"].get("nodeName")
        for mounted in pod["spec"].get("volumes", ()) if node else ():
            claim = world.objects["PersistentVolumeClaim", mounted["persistentVolumeClaim"]["claimName"]]
            volume = world.objects.get(("PersistentVolume", claim["spec"].get("volumeName", "")))
            where = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0] if volume else None
            if volume is None or where is None or where["matchExpressions"][0]["values"] != [node]:
                wrong.append(f"{pod['metadata']['name']} is on {node} without its volume")
            elif "csi" in volume["spec"]:
                attached.setdefault(node, set()).add(volume["metadata"]["name"])
    return wrong + [f"{node} has {sorted(found)}" for node, found in attached.items() if len(found) > 1]


@often
@given(worlds, st.sampled_from([default_config(), BOTH, CROWDED_FLAT]))
def test_where_nobody_leaves_the_rules_about_company_hold_too(given_: dict[str, Any], config: Any) -> None:
    world = world_of(given_, config)
    world.settle()
    if not world.evicted:
        nodes = [obj for (kind, _), obj in world.objects.items() if kind == "Node"]
        pods_ = [obj for (kind, _), obj in world.objects.items() if kind == "Pod"]
        # Pods that know no rule of spreading may have made it uneven for those that do.
        assert [text for text in violations(nodes, pods_) if "spread" not in text] == []


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
    brothers = [pod for state in session.groups for pod in state.group.pods if session.families.number(pod) >= 0]
    families = sorted({session.families.number(pod) for pod in brothers})
    before = tables_of(session) + [session.families.heads(number).tobytes() for number in families]
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
    assert tables_of(session) + [session.families.heads(number).tobytes() for number in families] == before
    assert all(list(state.counts) == list(state.group.counts) for state in session.groups)


@often
@given(worlds, CONFIGS, st.integers(1, 12))
def test_a_batch_of_equal_pods_goes_where_they_would_go_one_by_one(
    given_: dict[str, Any], config: Any, count: int
) -> None:
    snapshot = world_of(given_, config).cache().snapshot()
    session = Session(snapshot)
    for number, state in enumerate(session.groups):
        first = {session.class_of(state, position): position for position in reversed(range(len(state.group.pods)))}
        for position in first.values():
            pod = (number, position)
            assert place_all(snapshot, config, pod, count, count) == place_all(snapshot, config, pod, count, 1)


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


def place_all(snapshot: Snapshot, config: Any, pod: tuple[int, int], count: int, at_once: int) -> list[int]:
    """The nodes `count` pods like this one (of which group, at which place) get when up to `at_once` of them are asked
    for in a step."""
    session = Session(snapshot)
    tiers = open_plugins(config, session)
    state = session.groups[pod[0]]
    of = session.class_of(state, pod[1])
    found: list[int] = []
    while len(found) < count:
        lines = nodes_for(session, tiers, of, min(at_once, count - len(found)), at_once=True)
        if not len(lines):
            break
        # A group may have fewer such pods than are placed here, so this is `Session.place` without their status.
        session._account(lines, of.shape, PodStatus.ALLOCATED, 1.0)
        session._move(state, np.full(len(lines), pod[1]), lines, 1)
        found += lines.tolist()
    assert not tiers.failures
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
    evicted = [(eviction.pod.name, eviction.reason) for eviction in plan.evictions]
    placed = [
        (placement.group.name, placement.positions.tolist(), placement.lines.tolist()) for placement in plan.placements
    ]
    return json.dumps([placed, evicted, repr(outcomes), repr(plan.queues), plan.decisions(), plan.due])
