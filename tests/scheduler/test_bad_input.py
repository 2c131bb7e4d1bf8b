"""Whatever is wrong with one object or one file is named once, and everything else is scheduled."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from hekla.api.kinds import NODE, POD_GROUP, QUEUE
from hekla.api.meta import annotations_of
from hekla.api.reasons import MESSAGE_ANNOTATION
from hekla.scheduler.intake import take_in
from hekla.scheduler.rehearsal import rehearse
from hekla.scheduler.scheduler import SchedulerSettings
from hekla.scheduler.trial.miniature import Miniature, short_config
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, queue_object
from tests.scheduler.test_cycle import CROWDED, CROWDED_FLAT, EVICTING
from tests.scheduler.test_scheduler import GANG, MEMBERS, Stage, on_stage

ABSURD: list[dict[str, Any]] = [
    {"cpu": "9999999999999999999E"}, {"memory": "-5Gi"}, {"cpu": "-3"}, {"cpu": "0", "memory": "0", "pods": "0"},
    {"nvidia.com/gpu": "1e18"}, {"cpu": "0.0000000001"}, {"pods": "1e30"},
]  # fmt: skip
NO_AMOUNTS: list[dict[str, Any]] = [{"cpu": "banana"}, {"memory": ""}, {"cpu": None}, {"cpu": "NaN"}, {"cpu": ["1"]}]


@pytest.mark.parametrize("amounts", ABSURD, ids=str)
@pytest.mark.parametrize("config", [CROWDED, CROWDED_FLAT, EVICTING], ids=["crowded", "flat", "evicting"])
def test_a_node_with_absurd_values_disturbs_nobody(amounts: dict[str, Any], config: Any) -> None:
    world = Miniature(config)
    world.add({"queues": [{"name": "root"}, {"name": "default"}], "nodes": [{"name": "good", "cpu": 4}]})
    odd = node_object({"name": "odd"})
    odd["status"]["allocatable"].update(amounts)
    odd["spec"]["taints"] = [{"key": "odd", "effect": "NoSchedule"}]
    world.put(odd)
    world.add({"groups": [{"name": "a", "min": 3, "needs": {"cpu": 3}, "cpu": 1, "pods": 4}]})
    world.settle()
    assert [world.node_of(f"a-t-{number}") for number in range(4)] == ["good"] * 4


@pytest.mark.parametrize("amounts", NO_AMOUNTS, ids=str)
def test_a_node_that_cannot_be_understood_is_named_and_passed_over(
    amounts: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    odd = node_object({"name": "odd", "cpu": 64})
    odd["status"]["allocatable"].update(amounts)
    objects = [
        {"apiVersion": "v1", **odd}, {"apiVersion": "v1", **node_object({"name": "good"})},
        {"apiVersion": QUEUE.api_version, **queue_object({"name": "default"})},
        {"apiVersion": POD_GROUP.api_version, **group_object({"name": "g"})},
        {"apiVersion": "v1", **pod_object({"name": "p", "cpu": 1}, "g")},
    ]  # fmt: skip
    for number, obj in enumerate(objects):
        obj["metadata"] |= {"uid": str(number), "creationTimestamp": "2030-01-01T00:00:00Z", "resourceVersion": "1"}
    with caplog.at_level(logging.ERROR, logger="hekla"):
        plan = rehearse(objects, short_config("enqueue, allocate", [["gang", "predicates"]]))
    assert list(plan.bindings().values()) == ["good"]
    (message,) = [record.getMessage() for record in caplog.records]
    assert "object not understood kind=Node" in message
    assert "name=odd" in message
    assert "is not an amount" in message


TREE = (
    'actions: "enqueue, allocate"\n'
    "tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]}]\n"
)


def test_a_cyclic_hierarchy_holds_up_who_is_in_it_and_says_so(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.write_text(TREE)

    async def script(stage: Stage) -> None:
        for name, parent in (("egg", "hen"), ("hen", "egg")):
            queue = {"apiVersion": QUEUE.api_version, **queue_object({"name": name, "parent": parent})}
            await stage.client.create(QUEUE, queue)
        await stage.add({"nodes": [{"name": "n1", "cpu": 4}]})
        await stage.add({"groups": [{"name": "lost", "queue": "egg", "needs": {"cpu": 1}, "pods": [{}]}]})
        await stage.add({"groups": GANG["groups"]})
        stage.start(SchedulerSettings(conf=conf))
        await stage.until_bound(*MEMBERS)
        await stage.until(lambda: _is_told(stage, "lost", "root queue: egg < hen < egg (a ring)"))
        assert not await stage.node_of("lost-t-0")
        await stage.stop()

    on_stage(script)


@pytest.mark.parametrize("parent", ["leaf", "middle", "nowhere"])
def test_a_hierarchy_that_is_broken_while_it_runs_holds_up_its_branch_until_it_is_mended(
    parent: str, tmp_path: Path
) -> None:
    """`middle` is put below the leaf that is below it, below itself, or below a queue that is not there."""
    (tmp_path / "conf").write_text(TREE)

    async def script(stage: Stage) -> None:
        for name, above in (("middle", "root"), ("leaf", "middle"), ("other", "root")):
            queue = {"apiVersion": QUEUE.api_version, **queue_object({"name": name, "parent": above})}
            await stage.client.create(QUEUE, queue)
        stage.start(SchedulerSettings(conf=tmp_path / "conf"))
        await stage.add({"nodes": [{"name": "n1", "cpu": 8}]})
        await stage.add({"groups": [{"name": "before", "queue": "leaf", "needs": {"cpu": 1}, "pods": [{}]}]})
        await stage.until_bound("before-t-0")
        await stage.client.patch(QUEUE, "middle", {"spec": {"parent": parent}})
        await stage.add({"groups": [{"name": "lost", "queue": "leaf", "needs": {"cpu": 1}, "pods": [{}]}]})
        await stage.add({"groups": [{"name": "next", "queue": "other", "needs": {"cpu": 1}, "pods": [{}]}]})
        await stage.until_bound("next-t-0")
        await stage.until(lambda: _is_told(stage, "lost", "leaf"))
        assert not await stage.node_of("lost-t-0")
        await stage.client.patch(QUEUE, "middle", {"spec": {"parent": "root"}})
        await stage.until_bound("lost-t-0")
        await stage.stop()

    on_stage(script)


async def _is_told(stage: Stage, group: str, text: str) -> bool:
    return text in annotations_of(await stage.group(group)).get(MESSAGE_ANNOTATION, "")


def test_a_broken_configuration_is_named_once_and_a_mended_one_taken_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Though nothing else happens: what waited under the old one goes under the new one."""
    conf = tmp_path / "conf"
    plugins = "[{name: gang}, {name: predicates}, {name: proportion}]"
    conf.write_text(f"actions: enqueue\ntiers: [{{plugins: {plugins}}}]\n")

    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        stage.start(SchedulerSettings(conf=conf))
        await asyncio.sleep(5)
        conf.write_text(f"actions: dance\ntiers: [{{plugins: {plugins}}}]\n")
        await asyncio.sleep(5)
        conf.unlink()
        await asyncio.sleep(5)
        assert not await stage.node_of("a-t-0")
        conf.write_text(f'actions: "enqueue, allocate"\ntiers: [{{plugins: {plugins}}}]\n')
        await stage.until_bound(*MEMBERS)
        await stage.stop()

    with caplog.at_level(logging.ERROR, logger="hekla"):
        on_stage(script)
    told = [record.getMessage() for record in caplog.records if "configuration not used" in record.getMessage()]
    assert len(told) == 2
    assert "no action named 'dance'" in told[0]
    assert "No such file" in told[1]


def test_node_updates_that_are_odd_leave_what_was_known(caplog: pytest.LogCaptureFixture) -> None:
    world = Miniature()
    world.add({"nodes": [{"name": "n1", "cpu": 4}]})
    cache = world.cache()
    odd = {**node_object({"name": "n1"}), "metadata": {"name": "n1", "uid": "1"}}
    odd["status"] = {"allocatable": {"cpu": "lots"}}
    assert not take_in(cache.put_node, odd)
    assert cache.snapshot().nodes.allocatable[0, 0] == 4000
    assert NODE.kind in caplog.text
