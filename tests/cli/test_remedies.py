"""What would help a job that waits: told is what was tried, and nothing else."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from hekla.api.kinds import NODE, QUEUE, Obj
from hekla.api.meta import annotations_of, name_of
from hekla.api.scheduling import GROUP_NAME
from hekla.cli.pod_changes import with_at_most, with_toleration, without_required_affinity, without_selector
from hekla.cli.remedies import Help, Remedy, find_remedies, starts
from hekla.cli.supposing import Scene, capability_of, job_of, least, opened, uncordoned, with_capability
from hekla.scheduler.config import Config, default_config, parse_config
from hekla.scheduler.rehearsal import rehearse
from hekla.scheduler.trial.miniature import Miniature
from tests import make

API = {
    "Pod": "v1",
    "Node": "v1",
    "ResourceQuota": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
}
HIERARCHY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: capacity
    enableHierarchy: true
"""
QUOTAS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: proportion
  - name: resourcequota
"""


def scene_of(given: dict[str, Any], waiting: str) -> Scene:
    world = Miniature()
    world.add({"queues": [{"name": "root"}, {"name": "default"}]})
    world.add(given)
    objects = [{"apiVersion": API[kind], **obj} for (kind, _), obj in world.objects.items()]
    (group,) = [obj for obj in objects if obj["kind"] == "PodGroup" and name_of(obj) == waiting]
    pods = [obj for obj in objects if obj["kind"] == "Pod" and annotations_of(obj).get(GROUP_NAME) == waiting]
    # Jobs' PodGroups say what their gangs need.
    group["spec"]["minResources"] = least(pods, group["spec"]["minMember"])
    return Scene.of(objects, group, pods)


def found(given: dict[str, Any], waiting: str = "a", *, limit: int = 100, config: Config | None = None) -> list[Remedy]:
    scene, config = scene_of(given, waiting), config or default_config()
    plan = rehearse(scene.objects, config)
    return find_remedies(scene.rest, scene.group, scene.pods, config, plan=plan, limit=limit, now=0.0)


def told(given: dict[str, Any], waiting: str = "a", **options: Any) -> list[str]:
    return [remedy.sentence for remedy in found(given, waiting, **options)]


def gang(name: str, pods: int, cpu: object, **more: Any) -> dict[str, Any]:
    return {"name": name, "pods": pods, "min": pods, "cpu": cpu, **more}


def running(name: str, cpu: object, node: str = "n1", **more: Any) -> dict[str, Any]:
    return gang(name, 1, cpu, node=node, phase="Running", **more)


def test_a_job_that_waits_for_another_to_end_is_told_for_which() -> None:
    cluster = {"nodes": [{"name": "n1", "cpu": 4}], "groups": [running("small", 1), running("big", 3), gang("a", 1, 2)]}
    assert told(cluster) == ["it would start when PodGroup big has ended"]


def test_of_several_whose_end_would_do_the_two_smallest_are_named() -> None:
    groups = [running("large", 3), running("middle", 2), running("small", 1), gang("a", 1, 1)]
    assert told({"nodes": [{"name": "n1", "cpu": 6}], "groups": groups}) == [
        "it would start when PodGroup small has ended",
        "it would start when PodGroup middle has ended",
    ]


def test_where_no_single_end_would_do_it_is_a_matter_of_several() -> None:
    groups = [running("one", 1), running("two", 1), gang("a", 1, 2)]
    assert told({"nodes": [{"name": "n1", "cpu": 2}], "groups": groups})[0] == (
        "it would start when enough of what runs now has ended"
    )


def test_what_waits_before_it_is_named_where_ends_alone_would_not_do() -> None:
    groups = [running("one", 2), gang("first", 1, 2, **{"class": "high"}), gang("a", 1, 2)]
    cluster = {"nodes": [{"name": "n1", "cpu": 2}], "groups": groups, "classes": {"high": 100}}
    assert told(cluster) == ["it would start when what runs now and what waits before it have ended"]


def test_a_job_that_was_let_in_and_holds_nothing_yet_is_named_as_one_that_waits() -> None:
    groups = [{"name": "inside", "needs": {"cpu": 4}, "phase": "Inqueue"}, gang("a", 1, 1)]
    assert told({"nodes": [{"name": "n1", "cpu": 4}], "groups": groups}) == [
        "it would start if PodGroup inside, which waits itself, were not there"
    ]


def test_jobs_are_called_jobs_and_those_of_other_namespaces_by_both_names() -> None:
    job = make.job("train", namespace="theirs")
    reference = {"apiVersion": job["apiVersion"], "kind": "Job", "name": "train", "controller": True}
    group = make.pod_group("train-uid", namespace="theirs")
    group["metadata"]["ownerReferences"] = [reference]
    assert job_of(group, "theirs") == "job train"
    assert job_of(group, "ours") == "job theirs/train"


def test_a_permanent_obstacle_behind_a_passing_one_is_told_first() -> None:
    queues = [{"name": "small", "capability": {"cpu": 2}}]
    groups = [running("busy", 4), gang("a", 1, 3, queue="small")]
    cluster = {"nodes": [{"name": "n1", "cpu": 4}], "queues": queues, "groups": groups}
    assert told(cluster) == [
        "not even an empty cluster would do: queue small: cpu: 3 asked, 2 allowed in all",
        "once there is room, it would start in queue default",
        "once there is room, it would start if queue small allowed 3 cpu (2 now)",
    ]


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (gang("a", 2, 1, selector={"disk": "ssd"}), "it would start without nodeSelector disk=ssd"),
        (gang("a", 6, 1), "it would start with minAvailable: 4 (it asks for 6)"),
        (gang("a", 1, 9), "it would start if a pod asked for 4 cpu (9 now)"),
        (
            gang("a", 1, 1, queue="shut"),
            "it would start if queue shut were open: hekla queue operate shut --action open",
        ),
    ],
)
def test_what_mends_a_permanent_obstacle_is_told_while_others_have_the_room(
    group: dict[str, Any], sentence: str
) -> None:
    queues = [{"name": "shut", "state": "Closed"}]
    given = {"nodes": [{"name": "n1", "cpu": 4}], "queues": queues, "groups": [running("busy", 4), group]}
    assert f"once there is room, {sentence}" in told(given)


def test_a_permanent_obstacle_that_was_told_already_is_not_told_again() -> None:
    given = {"nodes": [{"name": "n1"}], "groups": [gang("a", 1, 1, selector={"disk": "none"}, affinity=REQUIRED)]}
    assert told(given) == ["not even an empty cluster would do"]


def test_another_queue_that_would_take_it_is_named() -> None:
    closed = {"name": "closed", "state": "Closed"}
    queues = [{"name": "small", "capability": {"cpu": 2}}, {"name": "tiny", "capability": {"cpu": 1}}, closed]
    given = {"nodes": [{"name": "n1", "cpu": 8}], "queues": queues, "groups": [gang("a", 1, 3, queue="small")]}
    assert "it would start now in queue default" in told(given)


def test_queues_with_others_below_them_are_not_proposed() -> None:
    queues = [
        {"name": "small", "capability": {"cpu": 2}},
        {"name": "department"},
        {"name": "team", "parent": "department"},
        {"name": "crew", "parent": "department"},
    ]
    given = {"nodes": [{"name": "n1", "cpu": 8}], "queues": queues, "groups": [gang("a", 1, 3, queue="small")]}
    assert "it would start now in queue crew, default or team" in told(given, config=parse_config(HIERARCHY))


def test_the_largest_part_of_a_gang_that_has_a_place_is_told() -> None:
    given = {"nodes": [{"name": f"n{number}", "cpu": 4} for number in range(3)], "groups": [gang("a", 8, 2)]}
    assert "it would start now with minAvailable: 6 (it asks for 8)" in told(given)


def test_a_smaller_gang_has_to_be_let_in_too() -> None:
    # Its PodGroup asks for as much less.
    given = {"nodes": [{"name": "n1", "cpu": 4}], "groups": [gang("a", 50, 1, roles={"t": 50})]}
    assert "it would start now with minAvailable: 4 (it asks for 50)" in told(given)


def test_the_limit_of_its_queue_that_would_do_is_told() -> None:
    queues = [{"name": "small", "capability": {"cpu": 2, "memory": "1Gi"}}]
    groups = [running("before", 1, queue="small"), gang("a", 2, 1, queue="small", memory="1Gi")]
    (remedy,) = [
        remedy
        for remedy in found({"nodes": [{"name": "n1", "cpu": 8}], "queues": queues, "groups": groups})
        if remedy.kind is Help.QUEUE_LIMIT
    ]
    assert remedy.sentence == "it would start now if queue small allowed 3 cpu (2 now) and 2Gi memory (1Gi now)"
    assert remedy.as_json()["limits"] == {"small": {"cpu": "3", "memory": "2Gi"}}


def test_limits_of_queues_above_are_told_with_it() -> None:
    queues = [
        {"name": "department", "capability": {"cpu": 3}},
        {"name": "team", "parent": "department", "capability": {"cpu": 2}},
    ]
    given = {"nodes": [{"name": "n1", "cpu": 8}], "queues": queues, "groups": [gang("a", 1, 4, queue="team")]}
    assert "it would start now if queue team allowed 4 cpu (2 now) and queue department allowed 4 cpu (3 now)" in told(
        given, config=parse_config(HIERARCHY)
    )


def test_a_limit_that_others_have_asked_for_already_is_told_without_a_figure() -> None:
    inside = gang("inside", 1, 1, queue="small", selector={"disk": "none"}, needs={"cpu": 2}, phase="Inqueue")
    queues = [{"name": "small", "capability": {"cpu": 2}}]
    given = {"nodes": [{"name": "n1", "cpu": 8}], "queues": queues, "groups": [inside, gang("a", 1, 1, queue="small")]}
    assert "it would start now if queue small had no limit on cpu" in told(given)


REQUIRED = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
        }
    }
}


@pytest.mark.parametrize(
    ("node", "pod", "sentence"),
    [
        ({}, {"selector": {"disk": "ssd"}}, "it would start now without nodeSelector disk=ssd"),
        (
            {"labels": {"zone": "a"}},
            {"selector": {"disk": "ssd", "zone": "a"}},
            "it would start now without nodeSelector disk=ssd",
        ),
        (
            {},
            {"selector": {"disk": "ssd", "zone": "a"}},
            "it would start now without nodeSelector disk=ssd, zone=a",
        ),
        ({}, {"affinity": REQUIRED}, "it would start now without its required node affinity"),
        (
            {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
            {},
            "it would start now with a toleration for the taint gpu=yes:NoSchedule",
        ),
        (
            {"taints": [{"key": "own", "effect": "NoExecute"}]},
            {},
            "it would start now with a toleration for the taint own:NoExecute",
        ),
        ({"unschedulable": True}, {}, "it would start now if node n1 took pods again: kubectl uncordon n1"),
        (
            {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
            {},
            "it would start now if node n1 took pods again: kubectl uncordon n1",
        ),
    ],
)
def test_what_keeps_it_from_nodes_is_named(node: dict[str, Any], pod: dict[str, Any], sentence: str) -> None:
    given = {"nodes": [{"name": "n1", **node}], "groups": [gang("a", 2, 1, **pod)]}
    assert told(given) == ["not even an empty cluster would do", sentence]


def test_nobody_is_told_to_tolerate_that_a_node_is_ill() -> None:
    ill = {"name": "n1", "taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}
    assert told({"nodes": [ill], "groups": [gang("a", 1, 1)]}) == ["not even an empty cluster would do"]


def test_a_pod_too_large_for_every_node_is_told_what_the_roomiest_has() -> None:
    nodes = [{"name": "n1", "cpu": "2650m", "memory": "8Gi"}, {"name": "n2", "cpu": 1}]
    assert "it would start now if a pod asked for 2600m cpu (3 now)" in told(
        {"nodes": nodes, "groups": [gang("a", 1, 3)]}
    )


def test_a_pod_that_was_never_let_in_is_told_what_the_roomiest_node_has_as_well() -> None:
    given = {"nodes": [{"name": "n1", "cpu": 4, "gpu": 2}], "groups": [gang("a", 1, 20, gpu=8)]}
    assert "it would start now if a pod asked for 4 cpu (20 now) and 2 nvidia.com/gpu (8 now)" in told(given)


def test_a_closed_queue_is_told_to_be_opened_and_how() -> None:
    given = {
        "nodes": [{"name": "n1"}],
        "queues": [{"name": "shut", "state": "Closed"}],
        "groups": [gang("a", 1, 1, queue="shut")],
    }
    assert told(given) == [
        "it would start now if queue shut were open: hekla queue operate shut --action open",
        "it would start now in queue default",
    ]


def test_a_quota_that_others_use_up_is_free_when_they_have_ended() -> None:
    quota: Obj = {
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "test"},
        "spec": {"hard": {"requests.cpu": "3"}},
        "status": {"hard": {"requests.cpu": "3"}, "used": {"requests.cpu": "4"}},
    }
    groups = [running("b", 2), gang("a", 1, 2)]
    given = {"nodes": [{"name": "n1", "cpu": 8}], "objects": [quota], "groups": groups}
    # The other two are used by something that is no pod here.
    assert told(given, config=parse_config(QUOTAS))[0].startswith("not even an empty cluster would do: resource quota")
    quota["status"]["used"]["requests.cpu"] = "2"
    assert told(given, config=parse_config(QUOTAS))[0] == "it would start when PodGroup b has ended"


@pytest.mark.parametrize(
    "group",
    [
        gang("a", 1, 1),  # it does not wait
        {"name": "a", "pods": [{"gates": [{"name": "example.com/licence"}]}], "cpu": 1},
        {"name": "a", "pods": [{"claims": ["absent"]}], "cpu": 1},
        {"name": "a", "pods": 1, "min": 2, "cpu": 1},  # a pod is missing
        {"name": "a", "pods": [{"node": "n1"}, {}], "min": 1, "cpu": 3, "phase": "Running"},  # what it needs runs
    ],
)
def test_of_what_no_change_of_the_cluster_mends_nothing_is_told(group: dict[str, Any]) -> None:
    assert found({"nodes": [{"name": "n1", "cpu": 4}], "groups": [group]}) == []


def test_nothing_is_told_where_nothing_was_tried() -> None:
    assert found({"nodes": [{"name": "n1"}], "groups": [gang("a", 1, 1, selector={"disk": "ssd"})]}, limit=0) == []


BUSY = {"nodes": [{"name": "n1", "cpu": 4}], "groups": [running("busy", 4), gang("a", 1, 1)]}


def test_with_few_rehearsals_less_is_told_and_all_of_it_was_tried() -> None:
    given = {"nodes": [{"name": "n1", "cpu": 4}], "groups": [gang("a", 9, 1)]}
    everything = found(given)
    assert [one.sentence for one in found(BUSY, limit=1)] == ["it would start in an otherwise empty cluster"]
    for limit in range(8):
        less = {remedy.kind: remedy for remedy in found(given, limit=limit)}
        assert set(less) <= {remedy.kind for remedy in everything}
        if Help.MIN_AVAILABLE in less:
            assert less[Help.MIN_AVAILABLE].details["minAvailable"] <= 4


@pytest.mark.parametrize(
    ("group", "limit", "kind"),
    [
        ({"selector": {"disk": "ssd", "zone": "a"}}, 2, Help.NODE_SELECTOR),
        ({"queue": "shut"}, 1, Help.OPEN_QUEUE),
        ({"queue": "small", "cpu": 3}, 2, Help.QUEUE_LIMIT),
    ],
)
def test_with_few_rehearsals_what_the_reason_is_about_is_tried_first(
    group: dict[str, Any], limit: int, kind: Help
) -> None:
    queues = [{"name": "shut", "state": "Closed"}, {"name": "small", "capability": {"cpu": 2}}]
    nodes = [{"name": "n1", "cpu": 16, "labels": {"zone": "b"}}]
    given = {"nodes": nodes, "queues": queues, "groups": [{**gang("a", 3, 1), **group}]}
    assert [remedy.kind for remedy in found(given, limit=limit)][-1] is kind


def with_limits(queue: Obj, limits: dict[str, str]) -> Obj:
    return with_capability(queue, {**capability_of(queue), **limits})


def applied(remedy: Remedy, scene: Scene) -> Scene:
    """The scene as the remedy's details say it would have to be."""
    details = remedy.details
    match remedy.kind:
        case Help.JOB_ENDS | Help.JOB_GONE:
            (other,) = [other for other in scene.others if name_of(other.group) == details["podGroup"]]
            return scene.without([other.group, *other.pods])
        case Help.OTHERS_END:
            return scene.alone() if details["waiting"] else scene.without_pods_of_others()
        case Help.MIN_AVAILABLE:
            return scene.with_minimum(details["minAvailable"])
        case Help.QUEUE_LIMIT:
            for name, limits in details.get("limits", {}).items():
                scene = scene.with_one(QUEUE, name, partial(with_limits, limits=limits))
            for name in details.get("unlimited", ()):
                scene = scene.with_one(QUEUE, name, partial(with_capability, capability={}))
            return scene
        case Help.NODE_SELECTOR:
            keys = {pair.partition("=")[0] for pair in details["labels"]}
            return scene.with_pods(partial(without_selector, keys=keys))
        case Help.NODE_AFFINITY:
            return scene.with_pods(without_required_affinity)
        case Help.TOLERATION:
            return scene.with_pods(partial(with_toleration, toleration=details["toleration"]))
        case Help.UNCORDON:
            return scene.with_one(NODE, details["node"], uncordoned)
        case Help.REQUEST:
            return scene.with_pods(partial(with_at_most, most=details["requests"]))
        case Help.OPEN_QUEUE:
            return scene.with_one(QUEUE, details["queue"], opened)
    raise AssertionError(remedy.kind)


AMOUNTS = st.sampled_from([1, 2, 3, 4])
NODES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([4, 6, 8]),
        "labels": st.sampled_from([{"disk": "ssd"}, {"disk": "hdd"}]),
        "taints": st.sampled_from([[], [], [{"key": "own", "effect": "NoSchedule"}]]),
        "unschedulable": st.sampled_from([False, False, True]),
    },
)
SMALL = {"queue": st.just("small")}
RUNNING = st.fixed_dictionaries({"cpu": AMOUNTS}, optional=SMALL)
WAITING = st.fixed_dictionaries(
    {"pods": st.integers(1, 4), "cpu": AMOUNTS},
    optional={**SMALL, "selector": st.just({"disk": "ssd"}), "affinity": st.just(REQUIRED)},
)
STATES = st.sampled_from(["Open", "Open", "Closed"])
QUEUES = st.fixed_dictionaries({"state": STATES}, optional={"capability": st.just({"cpu": 2})})


@given(
    nodes=st.lists(NODES, min_size=1, max_size=3),
    ran=st.lists(RUNNING, max_size=4),
    waiting=st.lists(WAITING, min_size=1, max_size=3),
    queue=QUEUES,
)
def test_every_remedy_is_true_and_every_obstacle_called_permanent_is(
    nodes: list[Obj], ran: list[Obj], waiting: list[Obj], queue: Obj
) -> None:
    groups = [running(f"r{number}", node=f"n{number % 2}", **one) for number, one in enumerate(ran)]
    groups += [{"name": f"w{number}", "min": one["pods"], **one} for number, one in enumerate(waiting)]
    given = {
        "nodes": [{"name": f"n{number}", **one} for number, one in enumerate(nodes)],
        "queues": [{"name": "small", **queue}],
        "groups": groups,
    }
    asked = f"w{len(waiting) - 1}"
    scene, before = scene_of(given, asked), scene_of(given, asked)
    for remedy in found(given, asked):
        event(remedy.kind)
        base = scene.alone() if remedy.details.get("onceThereIsRoom") else scene
        if remedy.kind is Help.OTHER_QUEUE:
            scenes = [base.in_queue(name) for name in remedy.details["queues"]]
        elif remedy.kind is Help.NOT_EVEN_EMPTY:
            assert not starts(rehearse(scene.alone().objects), scene)
            continue
        else:
            scenes = [applied(remedy, base)]
        assert all(starts(rehearse(one.objects), one) for one in scenes), remedy
    assert scene == before
