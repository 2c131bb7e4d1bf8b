"""The scheduler as a component, against the real API server in memory, in virtual time, with faults on the line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hekla.api.crds import load_crds
from hekla.api.devices import GPU_INDEX, PREDICATE_TIME
from hekla.api.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    EVENT,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    REPLICA_SET,
    SERVICE,
    Obj,
)
from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.client.transport import Transport
from hekla.clock import LoopClock
from hekla.errors import UsageError
from hekla.scheduler.scheduler import SchedulerSettings, run
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, queue_object
from tests.integration.virtual_loop import run_virtually
from tests.transports import Line


class Stage:
    def __init__(self, app: Any, clock: LoopClock) -> None:
        self._app = app
        self._clock = clock
        self.client = Client(InProcessTransport(app))
        self.line = Line(InProcessTransport(app))
        self._task: asyncio.Task[None] | None = None

    async def add(self, given: dict[str, Any]) -> None:
        """Nodes, groups and pods, in the short shape of the cases."""
        for node in given.get("nodes", ()):
            made = {"apiVersion": "v1", **node_object(node)}
            await self.client.create(NODE, made)
            await self.client.update_status(NODE, await self._with_status(NODE, made))
        for group in given.get("groups", ()):
            made = {"apiVersion": POD_GROUP.api_version, **group_object(group)}
            made["metadata"]["namespace"] = "default"
            await self.client.create(POD_GROUP, made)
            for number, pod in enumerate(group.get("pods", ())):
                await self.add_pod({"name": f"{group['name']}-t-{number}", "cpu": 1, **pod}, group["name"])

    def start(self, settings: SchedulerSettings | None = None, *, batches: bool = True) -> Line:
        self.line = Line(self.connection(), batches=batches)
        self.start_on(self.line, settings)
        return self.line

    def connection(self) -> Transport:
        return InProcessTransport(self._app)

    def start_on(self, transport: Transport, settings: SchedulerSettings | None = None) -> None:
        self._task = asyncio.create_task(
            run(
                Client(transport),
                clock=self._clock,
                rng=random.Random(1),
                settings=settings or SchedulerSettings(),
            )
        )

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(300):
            while not await holds():
                assert self._task is not None
                assert not self._task.done(), self._task.exception()
                await asyncio.sleep(0.05)

    async def until_bound(self, *names: str) -> None:
        await self.until(lambda: self.are_bound(*names))

    async def are_bound(self, *names: str) -> bool:
        return all([await self.node_of(name) for name in names])

    async def node_of(self, pod: str) -> str:
        return str((await self.client.get(POD, pod, "default"))["spec"].get("nodeName") or "")

    async def group(self, name: str) -> Obj:
        return await self.client.get(POD_GROUP, name, "default")

    async def condition(self, group: str) -> str:
        conditions = (await self.group(group)).get("status", {}).get("conditions") or [{}]
        return str(conditions[-1].get("message", conditions[-1].get("reason", "")))

    async def add_pod(self, given: dict[str, Any], group: str) -> None:
        made = {"apiVersion": "v1", **pod_object(given, group)}
        made["metadata"]["namespace"] = "default"
        made["spec"]["containers"][0]["image"] = "any"
        await self.client.create(POD, made)
        if made["status"]["phase"] != "Pending":
            await self.client.update_status(POD, await self._with_status(POD, made))

    async def _with_status(self, kind: Any, made: Obj) -> Obj:
        namespace = made["metadata"].get("namespace")
        live = await self.client.get(kind, made["metadata"]["name"], namespace)
        return {**live, "status": {**live.get("status", {}), **made["status"]}}


def on_stage(script: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = LoopClock()
        app = build_app(MemoryStore(clock), clock=clock, rng=random.Random(0))
        await app.start()
        stage = Stage(app, clock)
        for definition in load_crds():
            await stage.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        await script(stage)

    run_virtually(main())


GANG = {"nodes": [{"name": "n1", "cpu": 4}], "groups": [{"name": "a", "min": 3, "pods": [{}, {}, {}]}]}
MEMBERS = ("a-t-0", "a-t-1", "a-t-2")


def test_what_it_could_not_tell_yet_is_told_when_it_ends() -> None:
    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        line = stage.start(batches=False)
        line.fault = lambda write: "cut" if write.endswith("/events") else ""
        await stage.until_bound(*MEMBERS)
        await asyncio.sleep(60.5)
        assert await stage.client.find_all(EVENT) == []
        line.fault = lambda write: ""
        await stage.stop()
        told = {event["involvedObject"]["name"] for event in await stage.client.find_all(EVENT)}
        assert set(MEMBERS) <= told

    on_stage(script)


def test_a_gang_is_bound_and_its_group_told() -> None:
    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        stage.start()
        await stage.until_bound(*MEMBERS)
        await stage.until(lambda: _phase_is(stage, "a", "Running"))
        group = await stage.group("a")
        assert group["spec"]["minMember"] == 3
        assert [item["type"] for item in group["status"]["conditions"]] == ["Scheduled"]
        for name, reclaimable in (("root", False), ("default", True)):
            assert (await stage.client.get(QUEUE, name))["spec"]["reclaimable"] is reclaimable
        await asyncio.sleep(2)
        assert (await stage.client.get(QUEUE, "default"))["status"]["allocated"]["cpu"] == "3"
        events = [event["message"] for event in (await stage.client.list(EVENT)).items]
        assert "Successfully assigned default/a-t-0 to n1" in events
        await stage.stop()

    on_stage(script)


def test_a_gang_without_enough_cards_says_how_many_are_missing() -> None:
    async def script(stage: Stage) -> None:
        stage.start()
        nodes = [{"name": "n1", "cpu": 64, "gpu": 2}]
        await stage.add({"nodes": nodes, "groups": [{"name": "a", "min": 3, "pods": [{"gpu": 1}] * 3}]})
        text = "nvidia.com/gpu: 3 pods ask for 3, 2 of 2 in the whole cluster are free"
        await stage.until(lambda: _waits_for(stage, "a", "NotEnoughResources", text))
        await stage.stop()

    on_stage(script)


def test_a_gang_without_room_says_why_and_goes_when_a_node_comes() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({**GANG, "nodes": [{"name": "small", "cpu": 2}]})
        stage.start()
        await stage.until(lambda: _says(stage, "a", "3 Pending, 3 minAvailable"))
        assert not any([await stage.node_of(name) for name in MEMBERS])
        await stage.add({"nodes": [{"name": "large", "cpu": 8}]})
        await stage.until_bound(*MEMBERS)
        await stage.stop()

    on_stage(script)


def test_a_group_that_may_not_enter_says_how_much_is_missing() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1", "cpu": 4}], "groups": [{"name": "a", "min": 1, "needs": {"cpu": 9}}]})
        stage.start()
        await stage.until(lambda: _waits_for(stage, "a", "NotEnoughResources", "cpu: 9 asked, 4 in the whole cluster"))
        assert (await stage.group("a"))["status"]["phase"] == "Pending"
        await stage.stop()

    on_stage(script)


def test_of_a_gang_that_is_being_bound_nothing_is_told_before_its_phase() -> None:
    async def script(stage: Stage) -> None:
        line = stage.start()
        await _add_gang_that_enters_first(stage)
        await stage.until(lambda: _phase_is(stage, "a", "Running"))
        await asyncio.sleep(5)
        assert [item["type"] for item in (await stage.group("a"))["status"]["conditions"]] == ["Scheduled"]
        assert line.count("/podgroups/a") == 2
        await stage.stop()

    on_stage(script)


def test_a_group_whose_phase_cannot_be_written_keeps_what_it_entered_with() -> None:
    async def script(stage: Stage) -> None:
        line = stage.start()
        line.fault = lambda write: "refuse" if "/podgroups/a" in write else ""
        first = {"name": "a", "min": 1, "needs": {"cpu": 9}, "pods": [{"cpu": 1}]}
        await stage.add({"nodes": [{"name": "n1", "cpu": 10}], "groups": [first]})
        await stage.add({"groups": [{"name": "b", "min": 1, "needs": {"cpu": 5}}]})
        await stage.until_bound("a-t-0")
        await asyncio.sleep(1)
        line.fault = lambda write: ""
        await stage.until(lambda: _phase_is(stage, "a", "Running"))
        assert await _phase_is(stage, "b", "Pending")
        await stage.stop()

    on_stage(script)


def test_a_gang_that_is_never_bound_is_told_that_it_could_be() -> None:
    async def script(stage: Stage) -> None:
        line = stage.start()
        line.fault = lambda write: "refuse" if is_binding(write) else ""
        await _add_gang_that_enters_first(stage)
        await asyncio.sleep(20)
        assert "conditions" not in (await stage.group("a"))["status"]
        await stage.until(lambda: _says(stage, "a", "tasks in gang are ready to be scheduled"))
        await stage.stop()

    on_stage(script)


def test_with_nothing_new_nothing_is_written() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({**GANG, "nodes": [{"name": "small", "cpu": 2}]})
        line = stage.start()
        await asyncio.sleep(10)
        before = len(line.written)
        await asyncio.sleep(50)
        assert line.written[before:] == []
        await stage.stop()

    on_stage(script)


def test_a_half_bound_gang_is_completed() -> None:
    async def script(stage: Stage) -> None:
        group = {"name": "a", "min": 3, "phase": "Inqueue", "pods": [{"node": "n1"}, {}, {}]}
        await stage.add({**GANG, "groups": [group]})
        stage.start()
        await stage.until_bound(*MEMBERS)
        await stage.stop()

    on_stage(script)


@pytest.mark.parametrize("writes", range(1, 12))
def test_killed_after_any_write_it_finishes_when_started_again(writes: int) -> None:
    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        stage.start().cut_after = writes
        await asyncio.sleep(5)
        await stage.stop()
        stage.start()
        await stage.until_bound(*MEMBERS)
        await stage.until(lambda: _phase_is(stage, "a", "Running"))
        await stage.stop()

    on_stage(script)


def is_binding(write: str) -> bool:
    return write.endswith(("/binding", "/bindingbatches"))


@pytest.mark.parametrize("batches", [True, False])
def test_refused_bindings_are_tried_again_and_not_in_a_hurry(batches: bool) -> None:
    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        refusals: list[str] = []

        def refuse(write: str) -> str:
            if is_binding(write) and len(refusals) < (3 if batches else 9):
                refusals.append(write)
                return "refuse"
            return ""

        stage.start(batches=batches).fault = refuse
        await stage.until_bound(*MEMBERS)
        assert asyncio.get_running_loop().time() >= 3
        await stage.stop()

    on_stage(script)


@pytest.mark.parametrize("batches", [True, False])
def test_a_binding_whose_answer_is_lost_is_not_made_twice(batches: bool) -> None:
    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        line = stage.start(batches=batches)
        line.fault = lambda write: "lose" if is_binding(write) else ""
        await stage.until_bound(*MEMBERS)
        await asyncio.sleep(10)
        assert sum(is_binding(write) for write in line.written) == (1 if batches else 3)
        await stage.stop()

    on_stage(script)


def test_a_lost_connection_in_the_middle_of_a_gang_leaves_no_half() -> None:
    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        line = stage.start(batches=False)
        line.fault = lambda write: "cut" if write.endswith(("a-t-1/binding", "a-t-2/binding")) else ""
        await asyncio.sleep(5)
        assert sum([bool(await stage.node_of(name)) for name in MEMBERS]) == 1
        line.fault = lambda write: ""
        await stage.until_bound(*MEMBERS)
        await stage.stop()

    on_stage(script)


def test_where_the_server_can_a_gang_is_bound_in_one_write() -> None:
    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        line = stage.start()
        await stage.until_bound(*MEMBERS)
        assert [write for write in line.written if is_binding(write)] == ["POST /apis/hekla.dev/v1/bindingbatches"]
        await stage.stop()

    on_stage(script)


SMALL = [f"s{number}" for number in range(6)]
MANY = {
    "nodes": [{"name": "n1", "cpu": 8}],
    "groups": [{"name": name, "min": 1, "pods": [{}], "phase": "Inqueue"} for name in SMALL],
}


def test_where_the_server_can_small_gangs_share_a_write() -> None:
    async def script(stage: Stage) -> None:
        await stage.add(MANY)
        line = stage.start()
        await stage.until_bound(*(f"{name}-t-0" for name in SMALL))
        assert len([write for write in line.written if is_binding(write)]) == 1
        await stage.stop()

    on_stage(script)


def test_many_gangs_get_their_nodes_before_all_of_them_are_told_so() -> None:
    async def script(stage: Stage) -> None:
        names = [f"s{number}" for number in range(40)]
        groups = [{"name": name, "min": 1, "pods": [{}]} for name in names]
        await stage.add({"nodes": [{"name": "n1", "cpu": 100, "pods": 100}], "groups": groups})
        line = stage.start(SchedulerSettings(in_flight=8), batches=False)
        await stage.until_bound(*(f"{name}-t-0" for name in names))
        last = max(at for at, write in enumerate(line.written) if is_binding(write))
        told = [write for write in line.written[:last] if write.startswith("PATCH") and "/podgroups/" in write]
        assert len(told) < len(names) // 2
        for name in names:
            await stage.until(lambda name=name: _phase_is(stage, name, "Running"))  # type: ignore[misc]
        await stage.stop()

    on_stage(script)


def test_gangs_that_are_refused_together_go_alone() -> None:
    async def script(stage: Stage) -> None:
        await stage.add(MANY)
        line = stage.start()
        attempts: list[str] = []

        def refuse_the_first(write: str) -> str:
            if is_binding(write):
                attempts.append(write)
            return "refuse" if is_binding(write) and len(attempts) == 1 else ""

        line.fault = refuse_the_first
        await stage.until_bound(*(f"{name}-t-0" for name in SMALL))
        assert len(attempts) == 1 + len(SMALL)
        await stage.stop()

    on_stage(script)


EVICTING = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: conformance}, {name: gang}, {name: priority}, {name: predicates}, {name: proportion}]
"""
FULL = {
    "nodes": [{"name": "n1", "cpu": 2}],
    "groups": [
        {"name": "low", "min": 0, "phase": "Running", "pods": [{"node": "n1"}, {"node": "n1"}]},
        {"name": "high", "min": 1, "class": "high", "pods": [{}]},
    ],
}


async def set_full_stage(stage: Stage, folder: Path) -> SchedulerSettings:
    (folder / "conf").write_text(EVICTING)
    made = {"apiVersion": PRIORITY_CLASS.api_version, "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    await stage.client.create(PRIORITY_CLASS, made)
    await stage.add(FULL)
    return SchedulerSettings(conf=folder / "conf")


async def leaving(stage: Stage) -> list[str]:
    pods = (await stage.client.list(POD)).items
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]


def test_an_evicted_pod_is_told_why_and_deleted_and_the_other_takes_its_place(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        stage.start(await set_full_stage(stage, tmp_path))
        await stage.until(lambda: _any_of(leaving(stage)))
        await asyncio.sleep(10)
        assert await leaving(stage) == ["low-t-1"]
        victim = await stage.client.get(POD, "low-t-1", "default")
        told = {item["type"]: item["reason"] for item in victim["status"]["conditions"]}
        assert told == {"Ready": "Evict", "DisruptionTarget": "PreemptionByScheduler"}
        waiting = await stage.client.get(POD, "high-t-0", "default")
        assert waiting["status"]["nominatedNodeName"] == "n1"
        assert "once resource is released" in waiting["status"]["conditions"][0]["message"]
        assert await stage.condition("high") == (
            "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pipelined, 1 minAvailable"
        )
        told = {event["message"]: event for event in (await stage.client.list(EVENT)).items}
        evicted = told["Pod is evicted, because of preempt"]
        assert (evicted["related"]["kind"], evicted["related"]["name"]) == ("PodGroup", "high")
        await stage.client.delete(POD, "low-t-1", "default", grace_seconds=0)
        await stage.until_bound("high-t-0")
        await stage.stop()

    on_stage(script)


@pytest.mark.parametrize("fault", ["refuse", "lose", "cut"])
def test_an_eviction_that_fails_is_tried_again_and_nobody_else_goes(fault: str, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        failed: list[str] = []

        def fail(write: str) -> str:
            if write.startswith("DELETE") and len(failed) < 3:
                failed.append(write)
                return fault
            return ""

        stage.start(await set_full_stage(stage, tmp_path)).fault = fail
        await asyncio.sleep(60)
        assert await leaving(stage) == ["low-t-1"]
        await stage.stop()

    on_stage(script)


@pytest.mark.parametrize("writes", range(1, 10))
def test_killed_while_evicting_it_finishes_when_started_again(writes: int, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        settings = await set_full_stage(stage, tmp_path)
        stage.start(settings).cut_after = writes
        await asyncio.sleep(5)
        await stage.stop()
        stage.start(settings)
        await stage.until(lambda: _any_of(leaving(stage)))
        assert await leaving(stage) == ["low-t-1"]
        await stage.client.delete(POD, "low-t-1", "default", grace_seconds=0)
        await stage.until_bound("high-t-0")
        await stage.stop()

    on_stage(script)


SLA = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: sla, arguments: {sla-waiting-time: 90s}}]
- plugins: [{name: overcommit}, {name: predicates}]
"""


def test_a_group_enters_when_its_time_has_come_though_nothing_else_happens(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        (tmp_path / "conf").write_text(SLA)
        group = {"name": "a", "needs": {"cpu": 99}, "pods": [{}]}
        await stage.add({"nodes": [{"name": "n1"}], "groups": [group]})
        stage.start(SchedulerSettings(conf=tmp_path / "conf"))
        await asyncio.sleep(60)
        assert not await stage.node_of("a-t-0")
        await asyncio.sleep(40)
        assert await stage.node_of("a-t-0") == "n1"
        await stage.stop()

    on_stage(script)


def test_a_cycle_due_soon_does_not_wait_for_one_due_later(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        (tmp_path / "conf").write_text(SLA)
        group = {"name": "a", "needs": {"cpu": 99}, "pods": [{}]}
        await stage.add({"nodes": [{"name": "n1"}], "groups": [group]})
        stage.start(SchedulerSettings(conf=tmp_path / "conf"))
        await asyncio.sleep(5)
        await stage.add({"groups": [{"name": "b", "min": 3, "pods": [{}]}]})
        await asyncio.sleep(5)
        assert "1 Pending, 3 minAvailable" in await stage.condition("b")
        await stage.add_pod({"name": "b-t-1", "cpu": 1}, "b")
        await asyncio.sleep(5)
        assert "2 Pending, 3 minAvailable" in await stage.condition("b")
        await stage.stop()

    on_stage(script)


def test_a_wrong_configuration_ends_it_at_start(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text("actions: dance\ntiers: []\n")

    async def script(stage: Stage) -> None:
        settings = SchedulerSettings(conf=conf)
        with pytest.raises(UsageError, match="no action named 'dance'"):
            await run(stage.client, clock=LoopClock(), rng=random.Random(0), settings=settings)

    on_stage(script)


PLACING = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"
NOT_PLACING = PLACING.replace("allocate", "enqueue")


@pytest.mark.parametrize(
    "text",
    [
        b"actions: dance\ntiers: []\n", b"", b"{", b"\xff", b"actions: 2001-13-13", b"actions: " + b"[" * 5000, None,
        b"actions: enqueue\ntiers: []\nconfigurations: [{name: allocate, arguments: 5}]",
    ],
)  # fmt: skip
def test_a_configuration_that_becomes_wrong_leaves_the_last_one_in_force(text: bytes | None, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(PLACING)

    async def script(stage: Stage) -> None:
        stage.start(SchedulerSettings(conf=conf))
        await asyncio.sleep(1)
        if text is None:
            conf.unlink()
        else:
            conf.write_bytes(text)
        await stage.add(GANG)
        await stage.until_bound(*MEMBERS)
        await stage.stop()

    on_stage(script)


def test_a_mounted_config_map_is_followed_from_one_version_to_the_next(tmp_path: Path) -> None:
    """As the kubelet mounts it: the file is a link through a link, and the latter is swapped."""

    def mount(version: str, text: str) -> None:
        (tmp_path / version).mkdir()
        (tmp_path / version / "volcano-scheduler.conf").write_text(text)
        (tmp_path / "..data_tmp").symlink_to(version)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    async def script(stage: Stage) -> None:
        mount("..one", NOT_PLACING)
        (tmp_path / "volcano-scheduler.conf").symlink_to("..data/volcano-scheduler.conf")
        stage.start(SchedulerSettings(conf=tmp_path / "volcano-scheduler.conf"))
        await stage.add(GANG)
        await asyncio.sleep(30)
        mount("..two", PLACING.replace("gang", "gangs"))
        await asyncio.sleep(30)
        assert not await stage.node_of("a-t-0")
        mount("..three", PLACING)
        await stage.until_bound(*MEMBERS)
        await stage.stop()

    on_stage(script)


async def _any_of(found: Awaitable[list[str]]) -> bool:
    return bool(await found)


async def _add_gang_that_enters_first(stage: Stage) -> None:
    """As the Job controller does it: no pods before the group is let in."""
    await stage.add({**GANG, "groups": [{"name": "a", "min": 3, "needs": {"cpu": 3}}]})
    await stage.until(lambda: _phase_is(stage, "a", "Inqueue"))
    await asyncio.sleep(5)
    for name in MEMBERS:
        await stage.add_pod({"name": name, "cpu": 1}, "a")


async def _phase_is(stage: Stage, group: str, phase: str) -> bool:
    return bool((await stage.group(group))["status"]["phase"] == phase)


async def _waits_for(stage: Stage, group: str, reason: str, text: str) -> bool:
    annotations = (await stage.group(group))["metadata"].get("annotations") or {}
    return annotations.get(REASON_ANNOTATION) == reason and text in annotations.get(MESSAGE_ANNOTATION, "")


async def _says(stage: Stage, group: str, text: str) -> bool:
    return text in await stage.condition(group)


GATE = "scheduling.volcano.sh/queue-allocation-gate"


def test_a_gate_is_removed_once_the_queue_has_room_and_only_where_that_is_switched_on() -> None:
    async def script(stage: Stage) -> None:
        pod = {"gates": [{"name": GATE}], "annotations": {GATE: "true"}}
        await stage.add({"nodes": [{"name": "n1", "cpu": 4}], "groups": [{"name": "a", "pods": [pod]}]})
        stage.start()
        await asyncio.sleep(30)
        assert (await stage.client.get(POD, "a-t-0", "default"))["spec"]["schedulingGates"] == [{"name": GATE}]
        await stage.stop()
        line = stage.start(SchedulerSettings(queue_gates=True))
        tried: list[str] = []

        def cut(write: str) -> str:
            if write.startswith("PATCH") and write.endswith("pods/a-t-0") and len(tried) < 2:
                tried.append(write)
                return "cut"
            return ""

        line.fault = cut
        await stage.until_bound("a-t-0")
        assert len(tried) == 2
        assert not (await stage.client.get(POD, "a-t-0", "default"))["spec"].get("schedulingGates")
        await stage.stop()

    on_stage(script)


CAPACITY = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: capacity}]
"""


@pytest.mark.parametrize("gone", [False, True])
def test_who_was_let_through_its_gate_holds_its_place_until_gate_or_pod_are_gone(gone: bool, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        (tmp_path / "conf").write_text(CAPACITY)
        narrow = queue_object({"name": "narrow", "capability": {"cpu": 1}})
        await stage.client.create(QUEUE, {"apiVersion": QUEUE.api_version, **narrow})
        urgent = {"apiVersion": PRIORITY_CLASS.api_version, "kind": "PriorityClass", "metadata": {"name": "urgent"}}
        await stage.client.create(PRIORITY_CLASS, {**urgent, "value": 10})
        line = stage.start(SchedulerSettings(queue_gates=True, conf=tmp_path / "conf"))
        tried: list[str] = []

        def cut(write: str) -> str:
            if write.startswith("PATCH") and write.endswith("pods/first-t-0"):
                tried.append(write)
                return "cut"
            return ""

        line.fault = cut
        gated = {"gates": [{"name": GATE}], "annotations": {GATE: "true"}}
        await stage.add({"nodes": [{"name": "n1", "cpu": 4}]})
        await stage.add({"groups": [{"name": "first", "queue": "narrow", "pods": [gated]}]})
        await stage.until(lambda: _has_happened(tried))
        await stage.add({"groups": [{"name": "second", "queue": "narrow", "class": "urgent", "pods": [gated]}]})
        await asyncio.sleep(60)
        assert await _gates(stage, "second-t-0")
        if gone:
            await stage.client.delete(POD, "first-t-0", "default")
        line.fault = lambda write: ""
        if not gone:
            await stage.until_bound("first-t-0")
            assert await _gates(stage, "second-t-0")
            await stage.client.delete(POD, "first-t-0", "default")
        await stage.until_bound("second-t-0")
        await stage.stop()

    on_stage(script)


def test_a_gate_is_removed_though_the_pod_changes_while_it_is_tried() -> None:
    async def script(stage: Stage) -> None:
        line = stage.start(SchedulerSettings(queue_gates=True))
        faults = ["conflict"]
        line.fault = lambda write: faults.pop() if faults and write.endswith("pods/g-t-0") else ""
        await stage.add({"nodes": [{"name": "n1", "cpu": 4}]})
        await stage.add(
            {"groups": [{"name": "g", "pods": [{"gates": [{"name": GATE}], "annotations": {GATE: "true"}}]}]}
        )
        await stage.until_bound("g-t-0")
        assert not faults
        await stage.stop()

    on_stage(script)


async def _has_happened(noted: list[str]) -> bool:
    return bool(noted)


async def _gates(stage: Stage, pod: str) -> list[Obj]:
    return (await stage.client.get(POD, pod, "default"))["spec"].get("schedulingGates") or []


def test_pods_of_a_service_that_comes_and_goes_are_spread_while_it_is_there() -> None:
    async def script(stage: Stage) -> None:
        sizes = [{"name": "n1", "cpu": 64, "memory": "64Gi"}, {"name": "n2", "cpu": 16, "memory": "16Gi"}]
        await stage.add({"nodes": sizes})
        meta = {"name": "web", "namespace": "default"}
        service = {"selector": {"app": "web"}, "clusterIP": "None"}
        await stage.client.create(SERVICE, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service})
        template = {"metadata": {"labels": {"app": "set"}}, "spec": {"containers": [{"name": "main", "image": "any"}]}}
        owned = {"replicas": 0, "selector": {"matchLabels": {"app": "set"}}, "template": template}
        made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {**meta, "name": "set"}, "spec": owned}
        uid = (await stage.client.create(REPLICA_SET, made))["metadata"]["uid"]
        stage.start()
        await stage.add({"groups": [{"name": "a", "pods": [{"labels": {"app": "web"}}] * 2}]})
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": uid}
        await stage.add({"groups": [{"name": "b", "pods": [{"labels": {"app": "set"}, "owner": owner}] * 2}]})
        await stage.until_bound("a-t-0", "a-t-1", "b-t-0", "b-t-1")
        for group in ("a", "b"):
            assert {await stage.node_of(f"{group}-t-{number}") for number in (0, 1)} == {"n1", "n2"}
        await stage.client.delete(SERVICE, "web", "default")
        await stage.add({"groups": [{"name": "c", "pods": [{"labels": {"app": "web"}}] * 2}]})
        await stage.until_bound("c-t-0", "c-t-1")
        assert {await stage.node_of(f"c-t-{number}") for number in (0, 1)} == {"n1"}
        await stage.stop()

    on_stage(script)


CARDS = """\
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: deviceshare, arguments: {deviceshare.GPUSharingEnable: true}}]
"""


@pytest.mark.parametrize("batches", [True, False])
def test_a_pod_is_told_its_cards_with_its_node_and_the_next_scheduler_knows(tmp_path: Path, batches: bool) -> None:
    async def script(stage: Stage) -> None:
        (tmp_path / "conf").write_text(CARDS)
        node = {"name": "n1", "cpu": 9, "gpu-number": 2, "gpu-memory": 2000}
        await stage.add({"nodes": [node], "groups": [{"name": "a", "min": 2, "pods": [{"gpu-memory": 600}] * 2}]})
        stage.start(SchedulerSettings(conf=tmp_path / "conf"), batches=batches)
        await stage.until_bound("a-t-0", "a-t-1")
        await stage.stop()
        await stage.add({"groups": [{"name": "b", "pods": [{"gpu-memory": 500}, {"gpu-memory": 400}]}]})
        stage.start(SchedulerSettings(conf=tmp_path / "conf"), batches=batches)
        await stage.until_bound("b-t-1")
        assert not await stage.node_of("b-t-0")
        told = [(await stage.client.get(POD, name, "default"))["metadata"] for name in ("a-t-0", "a-t-1", "b-t-1")]
        assert [meta["annotations"][GPU_INDEX] for meta in told] == ["0", "1", "0"]
        # The clock of the stage began in 2030.
        assert all(int(meta["annotations"][PREDICATE_TIME]) // 10**9 in range(1893456000, 1893457000) for meta in told)
        await stage.stop()

    on_stage(script)


def test_a_queue_that_cannot_be_made_is_told_once_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def script(stage: Stage) -> None:
        await stage.add(GANG)
        with caplog.at_level(logging.WARNING, logger="hekla.scheduler"):
            line = stage.start()
            line.fault = lambda write: "refuse" if write.endswith("/queues") else ""
            await asyncio.sleep(60)
        (told,) = [record.getMessage() for record in caplog.records if record.name == "hekla.scheduler"]
        assert told.startswith("queue not made yet queue=root error=")
        line.fault = lambda write: ""
        await stage.until_bound(*MEMBERS)
        await stage.stop()

    on_stage(script)
