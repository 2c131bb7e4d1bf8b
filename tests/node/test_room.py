"""A node that is full says so, in a kubelet's words, to pods that come by another way than our scheduler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.kinds import POD, Obj
from hekla.node.room import Room
from tests import make
from tests.node.rig import Rig, phase, rig


def wanting(uid: str, **amounts: str) -> Obj:
    pod = make.pod(uid, spec={"containers": [make.container(resources={"requests": amounts})]})
    pod["metadata"]["uid"] = uid
    return pod


def test_the_first_resource_that_is_short_is_named_with_its_figures() -> None:
    room = Room({"cpu": "1", "memory": "1Gi", "pods": "10"})
    assert room.take(wanting("a", cpu="600m", memory="256Mi")) is None
    full = room.take(wanting("b", cpu="500m"))
    assert full is not None
    assert (full.reason, full.message) == (
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 1000",
    )
    full = room.take(wanting("c", memory="1Gi"))
    assert full is not None
    assert full.reason == "OutOfmemory"


def test_a_pod_that_is_in_stays_in_and_leaves_its_room_once() -> None:
    room = Room({"cpu": "1", "pods": "1"})
    assert room.take(wanting("a", cpu="1")) is None
    assert room.take(wanting("a", cpu="1")) is None
    assert room.take(wanting("b")) is not None
    room.give_back("a")
    room.give_back("a")
    assert room.take(wanting("b", cpu="1")) is None
    assert room.take(wanting("c", cpu="1")) is not None


def test_what_the_node_does_not_count_is_for_others_to_watch_over() -> None:
    assert Room({"cpu": "1", "pods": "1"}).take(wanting("a", **{"example.com/dongle": "3"})) is None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 1500), st.booleans()), max_size=40))
def test_never_more_is_let_in_than_there_is(steps: list[tuple[str, int, bool]]) -> None:
    room, held = Room({"cpu": "2", "pods": "3"}), dict[str, int]()
    for uid, milli, goes in steps:
        if goes:
            room.give_back(uid)
            held.pop(uid, None)
        elif room.take(wanting(uid, cpu=f"{milli}m")) is None:
            held.setdefault(uid, milli)
        assert sum(held.values()) <= 2000
        assert len(held) <= 3


@pytest.mark.root
def test_a_full_node_refuses_and_has_room_again_when_a_pod_is_over() -> None:
    async def main() -> None:
        async with rig("root") as node:
            await node.start_agent(cpu="1")
            await create(node, "first", "sleep 600")
            await node.until("first", lambda pod: phase(pod) == "Running")
            await create(node, "second", "true")
            assert refused(await node.finished("second")) == "OutOfcpu"
            # One that takes over knows who is here.
            await node.kill_agent()
            await create(node, "third", "true")
            await node.start_agent(cpu="1")
            assert refused(await node.finished("third")) == "OutOfcpu"
            await node.client.delete(POD, "first", "default", grace_seconds=0)
            await create(node, "fourth", "true")
            assert phase(await node.finished("fourth")) == "Succeeded"
            # Nothing that has ended is counted.
            await create(node, "fifth", "true")
            assert phase(await node.finished("fifth")) == "Succeeded"

    asyncio.run(main())


async def create(node: Rig, name: str, script: str) -> None:
    await node.create_pod(name, script, container={"resources": {"requests": {"cpu": "600m"}}})


def refused(pod: dict[str, Any]) -> str:
    assert phase(pod) == "Failed"
    assert not any("terminated" in each["state"] for each in pod["status"].get("containerStatuses") or ())
    return str(pod["status"]["reason"])
