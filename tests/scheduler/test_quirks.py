"""Upstream's oddities, by the number the reference gives them: which of them we have mended, kept, or not met yet.

Each mended one has a test named after it, here or beside the part it is about; the index at the end sees to that.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hekla.api.kinds import POD, PRIORITY_CLASS
from hekla.scheduler.extension import Preemptable, SchedulerPlugin
from hekla.scheduler.residents import Contender, Resident, Residents
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.scheduler import SchedulerSettings
from hekla.scheduler.session import Session
from hekla.scheduler.statement import Statement
from hekla.scheduler.tiers import OpenPlugin, Tiers
from hekla.scheduler.trial.miniature import Miniature, short_config
from tests.scheduler.plugins.opened import Opened
from tests.scheduler.test_scheduler import EVICTING, Stage, leaving, on_stage

MENDED = {
    "A1": "an undone eviction gives the pod back the state it had",
    "A2": "a pod that is told to go is deleted, whatever its conditions say already",
    "A3": "plugins of one tier that agree on nobody allow nobody (that the next tier is then asked is kept)",
    "A9": "of a gang those are kept who are missed most",
    "A11": "queues that cannot be used hold up the groups in them and no others",
    "A15": "a budget says nothing about pods it does not cover",
    "A23": "of equal nodes the first by name",
    "A26": "a scorer that fails is passed over",
    "A29": "how long volumes may take is what the file in force says",
}
KEPT = {
    "A4", "A7", "A8", "A10", "A12", "A14", "A19", "A20", "A21", "A22", "A24", "A25", "A27", "A30",
}  # fmt: skip
NOT_MET = {  # they belong to parts that come later
    "A5": "network topology",
    "A6": "network topology",
    "A13": "tdm",
    "A16": "rescheduling",
    "A17": "resource claims",
    "A18": "extender",
    "A28": "network topology",
}


def test_fix_A1_an_undone_eviction_leaves_a_bound_pod_bound() -> None:
    pods = [{"cpu": 1, "node": "n1", "phase": "Pending"}, {"cpu": 1, "node": "n1"}]
    opened = Opened(["gang"], {"nodes": [{"name": "n1"}], "groups": [{"name": "a", "pods": pods}]})
    state, session = opened.state("a"), opened.session
    before = state.status.copy()
    assert sorted(before) == [PodStatus.BOUND, PodStatus.RUNNING]
    statement = Statement(session)
    for resident in Residents(session, session.groups, (PodStatus.BOUND, PodStatus.RUNNING)).on(0):
        statement.evict(resident, "test")
    assert set(state.status) == {PodStatus.RELEASING}
    statement.discard()
    assert np.array_equal(state.status, before)


def test_fix_A2_a_pod_that_was_told_to_go_before_is_deleted_now(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(EVICTING)
    said = [
        {"type": "Ready", "status": "False", "reason": "Evict", "message": "Pod is evicted, because of preempt"},
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "volcano: preempting to accommodate a higher priority pod",
        },
    ]

    async def script(stage: Stage) -> None:
        made = {"apiVersion": PRIORITY_CLASS.api_version, "kind": "PriorityClass", "metadata": {"name": "high"}}
        await stage.client.create(PRIORITY_CLASS, {**made, "value": 9})
        await stage.add({"nodes": [{"name": "n1", "cpu": 1}]})
        await stage.add({"groups": [{"name": "low", "min": 0, "phase": "Running", "pods": [{"node": "n1"}]}]})
        pod = await stage.client.get(POD, "low-t-0", "default")
        await stage.client.update_status(POD, {**pod, "status": {"phase": "Running", "conditions": said}})
        await stage.add({"groups": [{"name": "high", "min": 1, "class": "high", "pods": [{}]}]})
        stage.start(SchedulerSettings(conf=tmp_path / "conf"))
        await stage.until(lambda: _goes(stage, "low-t-0"))
        await stage.stop()

    on_stage(script)


async def _goes(stage: Stage, name: str) -> bool:
    return await leaving(stage) == [name]


class Allowing(SchedulerPlugin, Preemptable):
    """Allows the candidates at the positions given, or abstains."""

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        wanted: Sequence[int] | None = self.arguments["allowed"]
        return None if wanted is None else [candidates[at] for at in wanted]


def allowed_by(*tiers: Sequence[Sequence[int] | None]) -> list[str]:
    """Of running pods A, B and C those that may leave, where each plugin of each tier allows these."""
    world = Miniature()
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1"}]})
    world.add({"groups": [{"name": "g", "pods": [{"name": name, "cpu": 1, "node": "n1"} for name in "ABC"]}]})
    world.add({"groups": [{"name": "h", "pods": [{"cpu": 1}]}]})
    session = Session(world.cache().snapshot())
    plugins = [[OpenPlugin("p", Allowing({"allowed": one}, session), frozenset()) for one in tier] for tier in tiers]
    running, pending = session.groups
    candidates = Residents(session, [running], (PodStatus.RUNNING,)).on(0)
    contender = Contender(pending, 0, session.class_of(pending, 0))
    return [resident.pod.name for resident in Tiers(session, plugins).preemptable(contender, candidates)]


def test_fix_A3_a_tier_that_agrees_on_nobody_does_not_start_again_within() -> None:
    assert allowed_by([[0], [1], [1]]) == []
    assert allowed_by([[0], [], [0]]) == []


def test_scenario_38_tiers_combine_as_upstreams_do() -> None:
    assert allowed_by([[0, 1], [1, 2]]) == ["B"]
    assert allowed_by([None, [0]]) == ["A"]
    assert allowed_by([[], [0]], [[0]]) == ["A"]
    assert allowed_by([]) == []


def test_fix_A9_of_a_gang_the_least_important_leave() -> None:
    config = short_config("allocate, preempt", [["conformance", "gang", "priority", "predicates"]])
    world = Miniature(config)
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 3}]})
    world.add({"classes": {"mid": 5, "low": 1, "high": 9}})
    pods = [{"cpu": 1, "node": "n1", "class": name} for name in ("low", "mid", "low")]
    world.add({"groups": [{"name": "gang", "min": 1, "phase": "Running", "class": "low", "pods": pods}]})
    world.add({"groups": [{"name": "high", "min": 1, "class": "high", "pods": [{"cpu": 2, "class": "high"}]}]})
    world.settle()
    assert sorted(world.evicted) == ["gang-t-0", "gang-t-2"]


def test_fix_A11_a_broken_branch_waits_alone() -> None:
    config = short_config("enqueue, allocate", [["gang", "predicates", {"name": "capacity", "enableHierarchy": True}]])
    world = Miniature(config)
    queues: list[dict[str, Any]] = [
        {"name": "root"}, {"name": "good"}, {"name": "lost", "parent": "nowhere"}, {"name": "inner"},
        {"name": "leaf", "parent": "inner"}, {"name": "egg", "parent": "hen"}, {"name": "hen", "parent": "egg"},
    ]  # fmt: skip
    world.add({"queues": queues, "nodes": [{"name": "n1", "cpu": 9}]})
    for queue in ("good", "lost", "inner", "leaf", "egg"):
        world.add({"groups": [{"name": queue, "queue": queue, "pods": [{"cpu": 1}]}]})
    world.settle()
    assert [queue for queue in ("good", "lost", "inner", "leaf", "egg") if world.node_of(f"{queue}-t-0")] == [
        "good",
        "leaf",
    ]
    assert world.waiting_of("egg")[0] == world.waiting_of("inner")[0] == "QueueUnusable"


def test_fix_A15_pods_without_labels_may_leave() -> None:
    config = short_config("allocate, preempt", [["conformance", "gang", "priority", "pdb", "predicates"]])
    world = Miniature(config)
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "test"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 0},
    }
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 2}], "objects": [budget]})
    world.add({"classes": {"low": 1, "high": 9}})
    pods = [{"cpu": 1, "node": "n1"}, {"cpu": 1, "node": "n1", "labels": {"app": "kept"}}]
    world.add({"groups": [{"name": "low", "min": 0, "phase": "Running", "class": "low", "pods": pods}]})
    world.add({"groups": [{"name": "high", "min": 1, "class": "high", "pods": [{"cpu": 1, "class": "high"}]}]})
    world.settle()
    assert list(world.evicted) == ["low-t-0"]


def test_fix_A23_of_equal_nodes_the_first_by_name_is_taken() -> None:
    for names in (["b", "a", "c"], ["c", "b", "a"]):
        world = Miniature(short_config("allocate", [["gang", "predicates", "nodeorder"]]))
        world.add({"queues": [{"name": "default"}], "nodes": [{"name": name} for name in names]})
        world.add({"groups": [{"name": "g", "pods": [{"cpu": 1}]}]})
        world.settle()
        assert world.node_of("g-t-0") == "a"


def test_fix_A29_the_time_for_volumes_follows_the_configuration() -> None:
    world = Miniature()
    for seconds in (600, 30, 600):
        arguments = {"volumebinding.bindTimeoutSeconds": seconds}
        world.config = short_config("allocate", [[{"name": "predicates", "arguments": arguments}]])
        assert world.cycle().volume_seconds == seconds


def test_every_number_is_accounted_for_and_every_mended_one_has_its_test() -> None:
    tested = {
        name.split("_")[2]
        for path in Path(__file__).parent.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (name := node.name).startswith("test_fix_A")
    }
    assert tested == set(MENDED)
    numbers = [*MENDED, *KEPT, *NOT_MET]
    assert sorted(numbers, key=lambda number: int(number[1:])) == [f"A{number}" for number in range(1, 31)]
