"""The reference's forty scenarios: those that are no case of a whole cycle, and an index of where each of them is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from hekla.scheduler.arrays.resources import exceeded, within
from hekla.scheduler.config import parse_config
from hekla.scheduler.fit import FitError
from hekla.scheduler.reading import Shapes
from hekla.scheduler.residents import Contender, Residents
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.trial.miniature import Miniature, short_config
from tests.scheduler.plugins.opened import Opened

TESTS = Path(__file__).parents[1]

# Where a scenario is that is neither a case nor a test below: tests, and recordings of upstream that are the same.
ELSEWHERE = {
    "10": "recording enqueue-allocated-deducted",
    "12": "scheduler/arrays/test_fairness.py test_what_one_cannot_use_goes_to_the_others_by_weight",
    "18": "scheduler/test_registry.py test_a_filter_that_eviction_can_appease_is_appeased",
    "20a": "scheduler/test_quirks.py test_fix_A15_pods_without_labels_may_leave",
    "25": "scheduler/test_outcome.py test_the_phase_of_a_group",
    "26": "scheduler/test_outcome.py test_a_gang_short_only_of_leaving_pods_is_not_called_unschedulable",
    "30": "scheduler/arrays/test_scores.py test_packing_scores_by_weighted_fullness_and_gives_nothing_for_overflow",
    "34": "scheduler/cases/scenarios.yaml 22e",
    "35c": "apiserver/test_batches.py test_a_gang_that_does_not_fit_any_more_is_refused_as_one_and_told_why",
    "36a": "scheduler/test_reading.py test_the_status_of_a_pod",
    "37a": "scheduler/test_cache.py test_a_stale_update_does_not_undo_an_assumption",
    "37c": "scheduler/test_volumebinding.py test_of_a_pod_with_two_claims_nothing_is_bound_while_one_is_refused",
    "38": "scheduler/test_quirks.py test_scenario_38_tiers_combine_as_upstreams_do",
    "38e": "scheduler/test_tiers.py test_a_vote_is_decided_tier_by_tier",
    "39e": "scheduler/test_blame.py test_one_that_cannot_work_at_all_holds_everything_back_and_says_so",
}
NOT_YET = {
    "28c": "network topology",
    "39a": "plugin tdm",
    "39b": "plugin tdm",
    "39c": "plugin tdm",
    "40": "plugin network-topology-aware",
}
NOT_DONE = {"29": "all nodes are looked at, not a sample"}
VARIANTS = {
    **dict.fromkeys([*map(str, range(1, 6)), *map(str, range(10, 14)), *map(str, range(25, 28))], ""),
    **dict.fromkeys(["17", "18", "29", "30", "34"], ""),
    "6": "ab", "7": "abc", "8": "abcd", "9": "abcd", "14": "abcd", "15": "abcd", "16": "abc", "19": "abcdefgh",
    "20": "abc", "21": "abc", "22": "abcdef", "23": "abcdef", "24": "abc", "28": "abc", "31": "abcd", "32": "abcde",
    "33": "abcde", "35": "abc", "36": "abcd", "37": "abc", "38": "ef", "39": "abcde", "40": "",
}  # fmt: skip


PICKY = """
from hekla.api.reasons import Reason
from hekla.scheduler.extension import GroupEnqueueable, SchedulerPlugin, Vote
from hekla.scheduler.fit import Unfit

class Picky(SchedulerPlugin, GroupEnqueueable):
    def group_enqueueable(self, state):
        if state.group.row.key.name == "a":
            return Vote.REJECT, Unfit(Reason.UNSUPPORTED, "not a")
        return Vote.PERMIT, None

    def group_enqueued(self, state):
        pass
"""


def test_scenario_11_a_rejected_group_reserves_nothing(tmp_path: Path) -> None:
    (tmp_path / "picky.py").write_text(PICKY)
    text = "actions: enqueue\ntiers: [{plugins: [{name: proportion}, {name: picky}]}]"
    world = Miniature(parse_config(text, plugins_dir=tmp_path))
    world.add({"nodes": [{"name": "n1"}], "queues": [{"name": "q1", "capability": {"cpu": 1}}]})
    world.add({"groups": [{"name": name, "queue": "q1", "needs": {"cpu": 1}} for name in "ab"]})
    world.settle()
    assert [world.group(name)["phase"] for name in "ab"] == ["Pending", "Inqueue"]


def test_scenario_13_pods_that_ask_for_nothing_fill_in_by_importance() -> None:
    world = Miniature(short_config("allocate, backfill", [["priority", "predicates"]]))
    world.add({"queues": [{"name": "default"}], "classes": {"two": 2, "one": 1}})
    for group in ("one", "two"):
        pods = [{"name": f"{group}-{n}", "annotations": {"volcano.sh/task-priority": str(n)}} for n in range(1, 5)]
        world.add({"groups": [{"name": group, "min": 0, "class": group, "phase": "Inqueue", "pods": pods}]})
    order = []
    for slots in range(1, 9):
        world.add({"nodes": [{"name": "n1", "pods": slots}]})
        world.settle()
        order += [name for kind, name in world.objects if kind == "Pod" and world.node_of(name) and name not in order]
    assert order == [f"{group}-{n}" for group in ("two", "one") for n in (4, 3, 2, 1)]


def test_scenario_20c_pods_of_the_system_are_no_candidates() -> None:
    pods = [
        {"name": "critical", "cpu": 1, "node": "n1", "class": "system-node-critical"},
        {"name": "plain", "cpu": 1, "node": "n1"},
    ]
    opened = Opened(["conformance"], {"nodes": [{"name": "n1"}], "groups": [{"name": "a", "pods": pods}]})
    state = opened.state("a")
    candidates = Residents(opened.session, [state], (PodStatus.RUNNING,)).on(0)
    contender = Contender(state, 0, opened.session.class_of(state, 0))
    assert [resident.pod.name for resident in opened.tiers.preemptable(contender, candidates)] == ["plain"]


@pytest.mark.parametrize(
    ("deserved", "pod", "share"),
    [
        ({}, {"cpu": 1}, 1),
        ({"cpu": 2, "memory": "4Gi"}, {"cpu": 1, "memory": "3Gi"}, 0.75),
        ({"cpu": 2, "memory": "2Gi"}, {"cpu": 3, "memory": "2Gi"}, 1.5),
        ({"cpu": 0, "memory": 0}, {"cpu": 1}, 1),
    ],
)
def test_scenario_24b_the_share_of_a_queue(deserved: dict[str, Any], pod: dict[str, Any], share: float) -> None:
    world = Miniature(short_config("allocate", [["capacity"]]))
    world.add({"nodes": [{"name": "n1", "cpu": 9}], "queues": [{"name": "q", "deserved": deserved}]})
    world.add({"groups": [{"name": "a", "queue": "q", "pods": [{**pod, "node": "n1"}]}]})
    told = {figure.name: figure.value for figure in world.cycle().figures()}
    assert told["queue_share"] == share


def test_scenario_27_each_pod_of_a_gang_is_told_its_own() -> None:
    world = Miniature(short_config("allocate", [["gang", "predicates"]]))
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": f"node{n}", "cpu": 1} for n in (1, 2, 3)]})
    world.add({"groups": [{"name": "g", "min": 6, "cpu": 1, "pods": 6}]})
    world.settle()
    assert world.message_of("g-t-2") == (
        "Pod test/g-t-2 can possibly be assigned to node3, once minAvailable is satisfied"
    )
    assert world.message_of("g-t-3") == "0/3 nodes are unavailable: 3 Insufficient cpu."
    assert world.message_of("g-t-5") == (
        "pod group is not ready, 6 Pending, 6 minAvailable; Pending: 3 Schedulable, 3 Unschedulable. "
        "Origin reason is g-t-3: 0/3 nodes are unavailable: 3 Insufficient cpu."
    )


def test_scenario_28a_nothing_to_say() -> None:
    assert FitError(0, ()).text == "0/0 nodes are unavailable"


def test_scenario_28b_a_node_without_a_slot() -> None:
    world = Miniature(short_config("backfill", [["predicates"]]))
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "pods": 0}]})
    world.add({"groups": [{"name": "g", "phase": "Inqueue", "pods": [{}]}]})
    world.settle()
    assert world.message_of("g-t-0") == "0/1 nodes are unavailable: 1 node(s) pod number exceeded."


@pytest.mark.parametrize(
    ("left", "right", "holds"),
    [
        pytest.param([0, 0, 0], [4000, 2, 5000], True, id="31a"),
        pytest.param([1000, 1, 1000], [1000, 1, 0], False, id="31b"),
        pytest.param([0, 0, 5000], [0, 0, 4000], False, id="31c"),
        pytest.param([1000.05, 0, 0], [1000, 0, 0], True, id="31d"),
    ],
)
def test_scenario_31_within_means_every_resource_and_a_hair_does_not_count(
    left: list[float], right: list[float], holds: bool
) -> None:
    assert within(np.array(left, dtype=float), np.array(right, dtype=float)) is holds


@pytest.mark.parametrize(
    ("left", "right", "asked", "over"),
    [
        pytest.param([5000, 0, 0], [4000, 0, 0], [1, 0, 0], [0], id="32a"),
        pytest.param([3000, 3000, 0], [4000, 2000, 0], [0, 1, 0], [1], id="32b"),
        pytest.param([4, 4000, 0], [0, 0, 0], [0, 0, 0], [], id="32c"),
        pytest.param([0, 0, 1000], [0, 0, 0], [0, 0, 1000], [2], id="32d"),
        pytest.param([5000, 1, 0], [4000, 2, 0], [0, 1, 0], [], id="32e"),
    ],
)
def test_scenario_32_limits_are_exact_and_about_what_is_asked_for(
    left: list[float], right: list[float], asked: list[float], over: list[int]
) -> None:
    rows = [np.array(row, dtype=float) for row in (left, right, asked)]
    found = exceeded(rows[0], rows[1], rows[2], np.array([True, True, True]))
    assert np.flatnonzero(found).tolist() == over


def container(cpu: Any, memory: Any = None, *, sidecar: bool = False) -> dict[str, Any]:
    requests = {"cpu": str(cpu), **({"memory": memory} if memory else {})}
    return {"resources": {"requests": requests}, **({"restartPolicy": "Always"} if sidecar else {})}


LEVEL = {"resources": {"requests": {"cpu": "250"}}}


def sidecar(cpu: int) -> dict[str, Any]:
    return container(cpu, sidecar=True)


@pytest.mark.parametrize(
    ("init", "apps", "pod", "cpu", "memory"),
    [
        ([container(2, "5G"), container(2, "1G")], [container(1, "1G"), container(2, "1G")], {}, 3, 5e9),
        ([container(5), sidecar(1), sidecar(2), sidecar(3)], [container(1)], {}, 7, None),
        ([container(5), sidecar(1), sidecar(2), container(5), sidecar(3)], [container(1)], {}, 8, None),
        ([sidecar(10), container(200)], [container(100)], {}, 210, None),
        ([sidecar(10), container(200)], [container(100)], LEVEL, 250, None),
    ],
    ids=["33a", "33b", "33c", "33d", "33e"],
)
def test_scenario_33_what_a_pod_asks_for(init: Any, apps: Any, pod: Any, cpu: int, memory: float | None) -> None:
    shape = Shapes().shape_of({"initContainers": init, "containers": apps, **pod})
    assert shape.request["cpu"] == cpu * 1000
    assert shape.request.get("memory") == memory
    assert shape.request["pods"] == 1


def test_scenario_35_a_node_holds_what_runs_on_it_even_too_much() -> None:
    world = Miniature()
    world.add({"nodes": [{"name": "n1", "cpu": 8, "memory": "10G", "pods": 20}, {"name": "n2", "memory": "1G"}]})
    pods = [{"cpu": 1, "memory": "1G", "node": "n1"}, {"cpu": 2, "memory": "2G", "node": "n1"}]
    world.add({"groups": [{"name": "a", "pods": [*pods, {"memory": "2G", "node": "n2", "phase": "Unknown"}]}]})
    nodes = world.cache().snapshot().nodes
    idle = nodes.allocatable - nodes.used
    assert idle[0].tolist() == [5000, 7e9, 18]
    assert nodes.used[0].tolist() == [3000, 3e9, 2]
    assert idle[1, 1] == -1e9


def test_scenario_36_pods_without_a_group_and_groups_without_an_object() -> None:
    world = Miniature(short_config("allocate, preempt", [["conformance", "gang", "priority", "predicates"]]))
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 3}], "classes": {"high": 9}})
    world.add({"pods": [{"name": "loose", "cpu": 1, "node": "n1"}, {"name": "idle", "cpu": 1}]})
    world.add({"groups": [{"name": "gone", "min": 0, "pods": [{"cpu": 1, "node": "n1"}, {"cpu": 1, "node": "n1"}]}]})
    del world.objects["PodGroup", "gone"]
    world.add({"groups": [{"name": "high", "class": "high", "pods": [{"cpu": 1, "class": "high"}]}]})
    world.settle()
    assert world.cache().snapshot().nodes.used[0, 0] == 3000
    assert world.node_of("idle") is None
    assert world.node_of("high-t-0") is None
    assert world.evicted == {}


def test_scenario_37b_a_pod_whose_claim_does_not_exist_waits_for_it() -> None:
    world = Miniature(short_config("allocate", [["gang", "predicates"]]))
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1"}]})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    world.add({"groups": [{"name": "a", "pods": [{"cpu": 1, "volumes": volumes}]}]})
    world.settle()
    assert world.node_of("a-t-0") is None
    assert 'persistentvolumeclaim "data" not found' in str(world.message_of("a-t-0"))


def test_scenario_38f_of_equal_groups_the_lesser_pod_leaves_first() -> None:
    groups = [
        {"name": name, "pods": [{"cpu": 1, "node": "n1", "annotations": {"volcano.sh/task-priority": priority}}]}
        for name, priority in (("a", "100"), ("b", "1"))
    ]
    opened = Opened(["priority"], {"nodes": [{"name": "n1"}], "groups": [*groups, {"name": "c", "pods": [{"cpu": 1}]}]})
    contender = Contender(opened.state("c"), 0, opened.session.class_of(opened.state("c"), 0))
    candidates = Residents(opened.session, opened.session.groups, (PodStatus.RUNNING,)).on(0)
    order = opened.tiers.victims_in_order(candidates, contender)
    assert [resident.pod.name for resident in order] == ["b-t-0", "a-t-0"]


def test_scenario_39d_groups_of_nodes() -> None:
    required, preferred = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
    affinity = {
        "nodeGroupAffinity": {required: ["g1", "g3"], preferred: ["g3"]},
        "nodeGroupAntiAffinity": {required: ["g2", "g4"], preferred: ["g4"]},
    }
    labels = [{"volcano.sh/nodegroup-name": f"g{n}"} for n in (1, 2, 3, 4)]
    nodes = [{"name": f"n{n}", "labels": label} for n, label in enumerate([*labels, {}])]
    groups = [{"name": "a", "queue": "q", "pods": 1}]
    given = {"nodes": nodes, "queues": [{"name": "q", "affinity": affinity}], "groups": groups}
    opened = Opened(["nodegroup"], given)
    of = opened.session.class_of(opened.state("a"), 0)
    mask = opened.tiers.node_mask(of)
    assert mask is not None
    assert mask.tolist() == [True, False, True, True, False]
    score = opened.tiers.class_score(of, np.arange(5))
    assert score(np.arange(5), np.zeros(5, dtype=np.int64)).tolist() == [100, 0, 150, -1, 0]


def test_every_scenario_is_somewhere() -> None:
    cases = yaml.safe_load((TESTS / "scheduler/cases/scenarios.yaml").read_text())
    here = {
        node.name.split("_")[2]
        for node in ast.walk(ast.parse(Path(__file__).read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_scenario_")
    }
    known = {case["scenario"] for case in cases} | here | set(ELSEWHERE) | set(NOT_YET) | set(NOT_DONE)
    wanted = [f"{number}{letter}" for number, letters in VARIANTS.items() for letter in letters or [""]]
    # A test named after a number alone has all variants of it.
    missing = [each for each in wanted if each not in known and each.rstrip("abcdefgh") not in known]
    assert missing == []
    assert sorted(map(int, VARIANTS)) == list(range(1, 41))


@pytest.mark.parametrize("where", ELSEWHERE.values())
def test_what_is_said_to_be_elsewhere_is_there(where: str) -> None:
    place, _, name = where.partition(" ")
    if place == "recording":
        assert (TESTS / "scheduler/recordings" / f"{name}.yaml").exists()
    else:
        assert name in (TESTS / place).read_text()
