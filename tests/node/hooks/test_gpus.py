"""Every container its own GPUs."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.kinds import Obj
from hekla.node.hooks.gpus import Assignment, NoFreeGpu, assign
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, Rig, rig


def container(name: str, gpus: int) -> Obj:
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}


@given(st.lists(st.integers(0, 4), max_size=10), st.integers(0, 12), st.integers(0, 12))
def test_no_device_is_ever_given_twice(wishes: list[int], total: int, first: int) -> None:
    pods: list[Assignment] = []
    for number, wanted in enumerate(wishes):
        try:
            pods.append(assign({}, pods, container(f"c{number}", wanted), range(first, first + total)))
        except NoFreeGpu:
            continue
    given = [device for pod in pods for devices in pod.values() for device in devices]
    assert len(given) == len(set(given)) <= total
    assert all(first <= device < first + total for device in given)


def test_a_container_keeps_what_it_had() -> None:
    before = {"a": [3]}
    assert assign(before, [], container("a", 1), range(4)) == before
    assert assign(before, [{"x": [0]}], container("b", 2), range(4)) == {"a": [3], "b": [1, 2]}


def test_too_few_are_said_to_be_too_few() -> None:
    with pytest.raises(NoFreeGpu, match=r"2 of nvidia.com/gpu needed, 1 free of 3"):
        assign({}, [{"x": [0, 1]}], container("a", 2), range(3))


def said(node: Rig, pod: Obj) -> str:
    try:
        return node.log(pod)
    except FileNotFoundError:
        return ""


def test_containers_see_their_own_devices_and_the_next_agent_keeps_to_it() -> None:
    show = "echo [$CUDA_VISIBLE_DEVICES]; sleep 600"

    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            await node.start_agent(gpus=2)
            await node.create_pod("first", show, container=container("main", 1))
            first = await node.running("first")
            await node.create_pod("none", "echo [$CUDA_VISIBLE_DEVICES]")
            assert node.log(await node.finished("none")) == "[]\n"
            await node.kill_agent()
            await node.start_agent(gpus=2)
            await node.create_pod("second", show, container=container("main", 1))
            second = await node.running("second")
            await soon(lambda: said(node, first) and said(node, second))
            assert {said(node, first), said(node, second)} == {"[0]\n", "[1]\n"}

    asyncio.run(main())
