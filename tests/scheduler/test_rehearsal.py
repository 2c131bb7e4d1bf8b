"""The decision record: what `why` has to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hekla.scheduler.config import CARD_SHARING_CONFIG, Config, parse_config
from hekla.scheduler.plan import Plan
from hekla.scheduler.rehearsal import rehearse
from hekla.scheduler.trial.miniature import Miniature, short_config
from tests import make

API = {
    "Pod": "v1",
    "Node": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
}


def decide(given: dict[str, Any], config: Config | None = None) -> list[Any]:
    world = Miniature()
    world.add({"queues": [{"name": "default"}]})
    world.add(given)
    return list(json.loads(json.dumps(rehearsed(world, config).decisions())))


def rehearsed(world: Miniature, config: Config | None = None) -> Plan:
    return rehearse(({"apiVersion": API[kind], **obj} for (kind, _), obj in world.objects.items()), config)


HANGING = """
import time
from hekla.scheduler.extension import *

class Hanging(SchedulerPlugin, NodeFilter):
    def refusals(self, of):
        time.sleep(600)
"""


def test_a_plugin_that_hangs_is_what_a_gang_is_said_to_wait_for(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(HANGING)
    plugins = "[{name: gang}, {name: predicates}, {name: hanging}]"
    config = parse_config(f"actions: allocate\ntiers: [{{plugins: {plugins}}}]", plugins_dir=tmp_path)
    given = {"nodes": [{"name": "n1"}], "groups": [{"name": "a", "min": 1, "cpu": 1, "pods": 1}]}
    (record,) = decide(given, config)
    assert record["reason"] == "PluginFailed"
    assert record["sentence"] == "scheduler plugin hanging failed: a call took longer than 2 s"


def test_a_gang_without_room_says_what_is_asked_and_what_is_free() -> None:
    nodes = [
        {"name": "n1", "cpu": 2},
        {"name": "n2", "cpu": 3},
        {"name": "n3", "cpu": 8, "taints": [{"key": "k", "effect": "NoSchedule"}]},
    ]
    (record,) = decide({"nodes": nodes, "groups": [{"name": "a", "min": 1, "cpu": 4, "pods": 1}]})
    assert record["reason"] == "NotEnoughResources"
    assert {(clause["text"], clause["nodes"]) for clause in record["clauses"]} == {
        ("Insufficient cpu", 2),
        ("node(s) had untolerated taint(s)", 1),
    }
    cpu = record["resources"][0]
    assert (cpu["name"], cpu["wanted"], cpu["mostFree"], cpu["total"]) == ("cpu", "4", "3", "13")
    assert "a pod asks for 4, the largest node it may use has 3" in record["sentence"]


def test_a_group_larger_than_the_cluster_says_so_in_a_sentence() -> None:
    (record,) = decide({"nodes": [{"name": "n1", "cpu": 3}], "groups": [{"name": "a", "needs": {"cpu": 4}}]})
    assert record["reason"] == "NotEnoughResources"
    assert record["sentence"].startswith("cpu: 4 asked, 3 in the whole cluster")


def test_a_pod_no_node_matches_says_so_and_speaks_of_no_amounts() -> None:
    given = {"nodes": [{"name": "n1"}], "groups": [{"name": "a", "cpu": 1, "selector": {"x": "y"}, "pods": 1}]}
    (record,) = decide(given)
    assert record["reason"] == "NoNodeMatches"
    assert "resources" not in record or record["resources"] == []
    assert "roomiest" not in record["sentence"]


def test_a_gang_short_of_pods_says_how_many_there_are() -> None:
    (record,) = decide({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "min": 3, "cpu": 1, "pods": 2}]})
    assert record["reason"] == "GangNotComplete"
    assert record["sentence"] == "2 of 3 pods are there"


def test_a_rule_that_is_not_supported_is_named() -> None:
    pods = [{"name": "a-t-0", "cpu": 1, "devices": [{"name": "gpu", "resourceClaimName": "mine"}]}]
    (record,) = decide({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "pods": pods}]})
    assert record["reason"] == "Unsupported"
    assert "resourceClaims is not supported yet" in record["sentence"]


def test_a_gated_pod_waits_for_its_gate() -> None:
    pods = [{"name": "a-t-0", "cpu": 1, "gates": [{"name": "g"}]}]
    (record,) = decide({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "pods": pods}]})
    assert record["reason"] == "WaitingForGate"
    assert record["sentence"] == "1 of 1 pods are held by scheduling gates"


def test_a_pod_that_no_node_could_take_says_so_though_its_queue_would_not_let_it_either() -> None:
    (record,) = decide({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "cpu": 1, "gpu": 1, "pods": 1}]})
    assert record["reason"] == "NotEnoughResources"
    assert record["sentence"] == (
        "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu. nvidia.com/gpu: a pod asks for 1, no node has any"
    )
    assert record["objections"][0]["text"] == "nvidia.com/gpu: 1 asked, 0 in use, 0 in the whole cluster"


def test_a_pod_that_an_empty_node_would_take_is_held_back_by_its_queue() -> None:
    given = {
        "nodes": [{"name": "n1"}],
        "queues": [{"name": "q1", "capability": {"cpu": 1}}],
        "groups": [{"name": "a", "queue": "q1", "cpu": 2, "pods": 1}],
    }
    (record,) = decide(given)
    assert record["reason"] == "QueueOverQuota"
    assert record["sentence"] == "queue q1 is at its share (cpu: 2 asked, 0 in use, 1 deserved)"


def test_a_queue_with_room_for_some_of_a_gang_tells_which_pod_is_one_too_many() -> None:
    given = {
        "nodes": [{"name": "n1"}],
        "queues": [{"name": "q1", "capability": {"cpu": 3}}],
        "groups": [{"name": "a", "queue": "q1", "cpu": 1, "pods": 4, "min": 4}],
    }
    (record,) = decide(given)
    assert record["reason"] == "QueueOverQuota"
    assert record["sentence"] == "queue q1 is at its share (cpu: 1 asked, 3 in use, 3 deserved)"


def test_a_gang_that_wants_more_cards_than_there_are_speaks_of_cards_and_not_of_its_queue() -> None:
    """Nobody else is there: what the queue may have is what the cluster has."""
    given: dict[str, Any] = {
        "nodes": [{"name": "n1", "cpu": 64, "gpu": 2}],
        "groups": [{"name": "a", "cpu": 1, "gpu": 1, "pods": 4, "min": 4}],
    }
    (record,) = decide(given)
    assert record["reason"] == "NotEnoughResources"
    assert record["sentence"] == "nvidia.com/gpu: 4 pods ask for 4, 2 of 2 in the whole cluster are free"
    running = {"name": "b", "phase": "Running", "pods": [{"gpu": 1, "node": "n1"}]}
    given["groups"] = [running, {"name": "a", "cpu": 1, "gpu": 1, "pods": 2, "min": 2}]
    (record,) = decide(given)
    assert record["sentence"] == "nvidia.com/gpu: 2 pods ask for 2, 1 of 2 in the whole cluster are free"


def test_a_gang_whose_cards_another_queue_may_have_is_held_back_by_its_own() -> None:
    given = {
        "nodes": [{"name": "n1", "cpu": 64, "gpu": 2}],
        "queues": [{"name": "q1"}, {"name": "q2"}],
        "groups": [{"name": name, "queue": name, "gpu": 1, "pods": 2, "min": 2} for name in ("q1", "q2")],
    }
    for record in decide(given):
        assert record["reason"] == "QueueOverQuota"
        queue = record["queue"]
        assert record["sentence"] == f"queue {queue} is at its share (nvidia.com/gpu: 1 asked, 1 in use, 1 deserved)"


def test_a_pod_larger_than_any_node_hears_so_though_the_node_is_full() -> None:
    running = {"name": "b", "phase": "Running", "pods": [{"gpu": 2, "node": "n1"}]}
    given = {
        "nodes": [{"name": "n1", "gpu": 2}, {"name": "n2", "gpu": 2}],
        "groups": [running, {"name": "a", "gpu": 3, "pods": 1}],
    }
    (record,) = decide(given)
    assert "nvidia.com/gpu: a pod asks for 3, the largest node it may use has 2" in record["sentence"]


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        ({"gpu-memory": 6000}, "no card has enough room: a pod asks for 6k of one, the roomiest has 4k free"),
        ({"gpu-memory": 12000}, "a pod asks for 12k of one card, the largest has 10k"),
        ({"gpu-number": 3}, "volcano.sh/gpu-number: a pod asks for 3, the largest node it may use has 2"),
        ({"gpu-number": 2}, "too few cards are idle: a pod asks for 2, the idlest node has 1"),
    ],
)
def test_it_is_said_what_of_cards_is_missing(asks: dict[str, int], said: str) -> None:
    taken = {"gpu-memory": 6000, "node": "n1"}
    cards = [{**taken, "annotations": {"volcano.sh/gpu-index": "0"}}]
    if asks == {"gpu-memory": 6000}:
        cards.append({**taken, "annotations": {"volcano.sh/gpu-index": "1"}})
    given = {
        "nodes": [{"name": "n1", "cpu": 64, "gpu-number": 2, "gpu-memory": 20000}],
        "groups": [{"name": "b", "phase": "Running", "pods": cards}, {"name": "a", "cpu": 1, **asks, "pods": 1}],
    }
    (record,) = decide(given, parse_config(CARD_SHARING_CONFIG))
    assert said in record["sentence"]


def test_groups_that_run_have_no_record() -> None:
    assert decide({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "cpu": 1, "pods": 1}]}) == []


def test_a_gang_in_partitions_names_those_that_do_not_fit() -> None:
    pods = [{"partition": number // 2} for number in range(6)]
    group = {"name": "a", "min": 6, "cpu": 1, "partitions": {"size": 2}, "pods": pods}
    nodes = [{"name": "n1", "cpu": 3}, {"name": "n2", "cpu": 8, "taints": [{"key": "k", "effect": "NoSchedule"}]}]
    (record,) = decide({"nodes": nodes, "groups": [group]})
    assert record["reason"] == "NotEnoughResources"
    assert record["sentence"].startswith("subgroup part-1, part-2: 0/2 nodes are unavailable: 1 Insufficient cpu, ")
    assert [(part["name"], part["placed"], bool(part["error"])) for part in record["subgroups"]] == [
        ("part-0", 0, False),
        ("part-1", 0, True),
        ("part-2", 0, True),
    ]


GATE = "scheduling.volcano.sh/queue-allocation-gate"
GATED = {"gates": [{"name": GATE}], "annotations": {GATE: "true"}}
BY_QUEUES = short_config("enqueue, allocate", [["gang", "predicates", "capacity"]])


def behind_the_gate(allowed: int, *pods: dict[str, Any]) -> Miniature:
    """A queue in which one pod of 1 CPU runs, and a gang that waits at its gate."""
    world = Miniature()
    running = {"name": "run", "queue": "q", "phase": "Running", "cpu": 1, "pods": [{"node": "n1"}]}
    waiting = {"name": "a", "min": len(pods), "queue": "q", "phase": "Inqueue", "cpu": 1, "pods": list(pods)}
    queues = [{"name": "root"}, {"name": "q", "capability": {"cpu": allowed}}]
    world.add({"nodes": [{"name": "n1", "cpu": 8}], "queues": queues, "groups": [running, waiting]})
    return world


def test_a_pod_at_the_gate_of_a_full_queue_is_told_the_arithmetic_of_the_queue() -> None:
    (record,) = rehearsed(behind_the_gate(1, GATED), BY_QUEUES).decisions()
    assert record["reason"] == "QueueOverQuota"
    assert record["sentence"] == "queue q is at its limit (cpu: 1 asked, 1 in use, 1 allowed)"


def test_pods_that_their_queue_lets_in_are_given_nodes_in_the_same_rehearsal() -> None:
    plan = rehearsed(behind_the_gate(3, GATED, GATED), BY_QUEUES)
    assert sorted(plan.bindings().values()) == ["n1", "n1"]
    assert not plan.decisions()


def test_a_gate_that_is_not_the_queues_is_what_a_pod_waits_for() -> None:
    (record,) = rehearsed(behind_the_gate(1, {"gates": [{"name": "example.com/later"}]}), BY_QUEUES).decisions()
    assert record["reason"] == "WaitingForGate"


def test_where_no_pod_stands_at_such_a_gate_nothing_is_kept_free_for_those_who_asked_for_one() -> None:
    """As for a scheduler that was not told to mind them: nobody put up gates."""
    asked_in_vain = {"annotations": {GATE: "true"}, "selector": {"no": "such"}}
    world = behind_the_gate(2, asked_in_vain)
    world.add({"groups": [{"name": "b", "queue": "q", "phase": "Inqueue", "cpu": 1, "pods": 1}]})
    assert list(rehearsed(world, BY_QUEUES).bindings().values()) == ["n1"]


def test_what_a_queue_holds_and_may_hold_stands_beside_what_is_asked() -> None:
    given = {
        "nodes": [{"name": "n1", "cpu": 8}],
        "queues": [{"name": "q", "capability": {"cpu": 4}}],
        "groups": [
            {"name": "runs", "queue": "q", "cpu": 3, "node": "n1", "pods": 1, "phase": "Running"},
            {"name": "waits", "queue": "q", "min": 2, "cpu": 1, "pods": 3, "phase": "Inqueue"},
        ],
    }
    (record,) = decide(given, short_config("allocate", [["gang", "predicates", "capacity"]]))
    assert record["group"]["name"] == "waits"
    (queue,) = record["queues"]
    assert queue["name"] == "q"
    # Two of its pods have to start together: those are what is asked for.
    (cpu,) = queue["resources"]
    assert {key: cpu[key] for key in ("name", "asked", "held", "limit", "left")} == {
        "name": "cpu", "asked": "2", "held": "3", "limit": "4", "left": "1",
    }  # fmt: skip


def test_what_is_left_for_who_may_not_enter_is_what_those_inside_leave_of_the_limit() -> None:
    given = {
        "nodes": [{"name": "n1", "cpu": 8}],
        "queues": [{"name": "q", "capability": {"cpu": 5}}],
        "groups": [
            # Two that it holds beyond its minimum do not keep others out.
            {"name": "runs", "queue": "q", "min": 1, "needs": {"cpu": 1}, "cpu": 1, "node": "n1", "pods": 3,
             "phase": "Running"},
            {"name": "inside", "queue": "q", "needs": {"cpu": 2}, "cpu": 2, "pods": 1, "selector": {"no": "such"},
             "phase": "Inqueue"},
            {"name": "waits", "queue": "q", "needs": {"cpu": 3}, "phase": "Pending"},
        ],
    }  # fmt: skip
    records = decide(given, short_config("enqueue, allocate", [["gang", "predicates", "capacity"]]))
    told = {record["group"]["name"]: record for record in records}
    assert "cpu: 3 asked, 2 left" in told["waits"]["sentence"]
    assert [told["waits"]["queues"][0]["resources"][0][key] for key in ("held", "letIn", "left")] == ["3", "2", "2"]
    # For who is inside only what is held counts.
    assert "letIn" not in told["inside"]["queues"][0]["resources"][0]
    assert told["inside"]["queues"][0]["resources"][0]["left"] == "2"


def test_the_queues_above_are_told_of_as_well() -> None:
    tiers = [["gang", "predicates", {"name": "capacity", "enableHierarchy": True}]]
    given = {
        "nodes": [{"name": "n1", "cpu": 8}],
        "queues": [
            {"name": "root"},
            {"name": "all", "parent": "root", "capability": {"cpu": 2}},
            {"name": "q", "parent": "all"},
            {"name": "other", "parent": "all"},
        ],
        "groups": [
            {"name": "runs", "queue": "other", "cpu": 2, "node": "n1", "pods": 1, "phase": "Running"},
            {"name": "waits", "queue": "q", "cpu": 1, "pods": 1, "phase": "Inqueue"},
        ],
    }
    (record,) = decide(given, short_config("allocate", tiers))
    assert [queue["name"] for queue in record["queues"]] == ["q", "all", "root"]
    held = {queue["name"]: queue["resources"][0]["held"] for queue in record["queues"]}
    assert (held["q"], held["all"]) == ("0", "2")


def test_without_a_plugin_that_shares_out_nothing_is_said_of_queues() -> None:
    given = {"nodes": [{"name": "n1", "cpu": 1}], "groups": [{"name": "a", "cpu": 2, "pods": 1, "phase": "Inqueue"}]}
    (record,) = decide(given, short_config("allocate", [["gang", "predicates"]]))
    assert record["queues"] == []


def test_who_is_looked_at_first_in_the_same_queue_is_ahead() -> None:
    given = {
        "nodes": [{"name": "n1", "cpu": 4}],
        "queues": [{"name": "q"}],
        "classes": {"high": 9},
        "groups": [
            {"name": "old", "min": 8, "cpu": 1, "pods": 8},
            {"name": "elsewhere", "queue": "q", "min": 8, "cpu": 1, "pods": 8},
            {"name": "young", "min": 8, "cpu": 1, "pods": 8},
            {"name": "urgent", "class": "high", "min": 8, "cpu": 1, "pods": 8},
            {"name": "fits", "min": 1, "cpu": 1, "pods": 1},
        ],
    }
    records = decide(given, short_config("enqueue, allocate", [["priority", "gang", "predicates"]]))
    ahead = {record["group"]["name"]: [one["name"] for one in record["ahead"]["first"]] for record in records}
    assert ahead == {"urgent": [], "old": ["urgent"], "young": ["urgent", "old"], "elsewhere": []}


def test_of_a_long_line_only_the_first_are_named_and_all_are_counted() -> None:
    groups = [{"name": f"g{number}", "cpu": 9, "pods": 1} for number in range(9)]
    *_, last = decide({"nodes": [{"name": "n1", "cpu": 4}], "groups": groups})
    assert last["ahead"]["count"] == 8
    assert [one["name"] for one in last["ahead"]["first"]] == ["g0", "g1", "g2", "g3", "g4"]


def test_everybody_in_a_line_is_told_how_many_are_ahead() -> None:
    groups = (make.pod_group(f"g{number:03}", minResources={"cpu": "9"}) for number in range(300))
    plan = rehearse([make.queue(), make.node("n1", cpu="4"), *groups])
    counts = {decision["group"]["name"]: decision["ahead"]["count"] for decision in plan.decisions()}
    assert counts == {f"g{number:03}": number for number in range(300)}


PREEMPTING = short_config("allocate, preempt", [["priority", "gang", "predicates"]])


def test_it_is_known_who_has_to_leave_for_whom_and_who_gets_the_room() -> None:
    world = Miniature()
    world.add(
        {
            "queues": [{"name": "default"}],
            "nodes": [{"name": "n1", "cpu": 2}],
            "classes": {"high": 9},
            "groups": [
                {"name": "low", "min": 1, "cpu": 1, "node": "n1", "pods": 2, "preemptable": True, "phase": "Running"},
                {"name": "urgent", "class": "high", "min": 1, "cpu": 1, "pods": 1, "phase": "Inqueue"},
            ],
        }
    )
    for number in range(2):
        world.objects["Pod", f"low-t-{number}"]["status"]["phase"] = "Running"
    plan = rehearsed(world, PREEMPTING)
    (eviction,) = plan.evictions
    assert eviction.group.row.key.name == "low"
    assert eviction.contender is not None
    assert eviction.contender.row.key.name == "urgent"
    assert [(promise.pod.name, promise.node) for promise in plan.promises] == [("urgent-t-0", "n1")]
    told = {decision["group"]["name"]: decision for decision in plan.decisions()}["urgent"]
    assert told["reason"] == "WaitingForRoom"
    assert told["sentence"] == "1 pod starts on n1 once those that are being stopped there are gone"


def test_room_that_is_promised_to_the_gang_itself_is_not_called_taken() -> None:
    """Preempting promises what is free to some of a gang that then gets nobody to leave for the rest."""
    given = {
        "nodes": [{"name": "n1", "cpu": 8}],
        "groups": [
            {"name": "runs", "min": 6, "cpu": 1, "node": "n1", "pods": 6, "phase": "Running"},
            {"name": "waits", "min": 4, "cpu": 1, "pods": 4, "phase": "Inqueue"},
        ],
    }
    (record,) = decide(given, PREEMPTING)
    cpu = next(one for one in record["resources"] if one["name"] == "cpu")
    assert (cpu["mostFree"], cpu["free"]) == ("2", "2")
