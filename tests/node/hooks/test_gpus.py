"""Every container its own GPUs, or its part of one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.kinds import EVENT, NODE, POD, Obj
from hekla.node import records
from hekla.node.directory import PodDirectory
from hekla.node.hooks.gpus import Assignment, Gpus, Holding, NoFreeGpu, assign, variables
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, NODE_NAME, Rig, rig

WHOLE, NUMBER, MEMORY = "nvidia.com/gpu", "volcano.sh/gpu-number", "volcano.sh/gpu-memory"
INDEX = "volcano.sh/gpu-index"


def container(name: str, gpus: int, resource: str = WHOLE) -> Obj:
    amounts = {resource: str(gpus)}
    return {"name": name, "resources": {"limits": amounts, "requests": amounts}}


def pod(*containers: Obj, cards: str = "", init: tuple[Obj, ...] = ()) -> Obj:
    annotations = {INDEX: cards} if cards else {}
    return {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": list(containers), "initContainers": list(init)},
    }


def given_to(one: Obj, others: list[Assignment], gpus: Gpus) -> Assignment:
    """What all containers of a pod get."""
    own: Assignment = {}
    for each in (*one["spec"]["initContainers"], *one["spec"]["containers"]):
        own = assign(own, others, one, each, gpus)
    return own


@given(st.lists(st.integers(0, 4), max_size=10), st.integers(0, 12), st.integers(0, 12))
def test_no_device_is_ever_given_twice(wishes: list[int], total: int, first: int) -> None:
    pods: list[Assignment] = []
    for wanted in wishes:
        try:
            pods.append(given_to(pod(container("main", wanted)), pods, Gpus(first, total)))
        except NoFreeGpu:
            continue
    given = [device for each in pods for holding in each.values() for device in holding["devices"]]
    assert len(given) == len(set(given)) <= total
    assert all(first <= device < first + total for device in given)


wishes_of_schedulers = st.lists(
    st.tuples(st.sampled_from([WHOLE, NUMBER, MEMORY]), st.integers(1, 3), st.permutations(range(4))), max_size=8
)


@given(wishes_of_schedulers)
def test_whatever_a_scheduler_says_no_device_is_given_beyond_what_it_has(
    wishes: list[tuple[str, int, list[int]]],
) -> None:
    gpus, pods = Gpus(0, 3, memory=5), list[Assignment]()
    for resource, amount, order in wishes:
        cards = ",".join(map(str, order[: amount if resource == NUMBER else 1]))
        try:
            pods.append(given_to(pod(container("main", amount, resource), cards=cards), pods, gpus))
        except NoFreeGpu:
            continue
    for device in range(4):
        held = [each["main"]["part"] for each in pods if device in each["main"]["devices"]]
        assert not held or device < 3
        assert held == [0] or (0 not in held and sum(held) <= 5)


def test_a_container_keeps_what_it_had() -> None:
    before = {"a": Holding(devices=[3], part=0)}
    one, two = container("a", 1), container("b", 2)
    assert assign(before, [], pod(one, two), one, Gpus(0, 4)) == before
    others: list[Assignment] = [{"x": Holding(devices=[0], part=0)}]
    found = assign(before, others, pod(one, two), two, Gpus(0, 4))
    assert found == {**before, "b": Holding(devices=[1, 2], part=0)}


@pytest.mark.parametrize(
    ("wanted", "cards", "held", "said"),
    [
        (container("a", 2), "", Holding(devices=[0, 1], part=0), "2 of nvidia.com/gpu needed, 1 free of 3"),
        (container("a", 1, NUMBER), "", None, "no scheduler has said which GPU"),
        (container("a", 1, NUMBER), "3", None, "was given GPU 3 .* the node has 3"),
        (container("a", 2, NUMBER), "1", None, "2 of volcano.sh/gpu-number needed, the pod was given fewer"),
        (container("a", 1, NUMBER), "1", Holding(devices=[1], part=10), "GPU 1 is not free"),
        (container("a", 5, MEMORY), "1", Holding(devices=[1], part=0), "GPU 1 is not free"),
        (container("a", 60, MEMORY), "1", Holding(devices=[1], part=50), "GPU 1 has 50 of .* left, the pod needs 60"),
    ],
)
def test_what_cannot_be_had_is_said(wanted: Obj, cards: str, held: Holding | None, said: str) -> None:
    others: list[Assignment] = [{"x": held}] if held else []
    with pytest.raises(NoFreeGpu, match=said):
        given_to(pod(wanted, cards=cards), others, Gpus(0, 3, memory=100))


def test_a_card_that_is_given_away_as_a_whole_is_shared_by_nobody() -> None:
    """Whoever bound the pods, and wrote on them that they may."""
    with pytest.raises(NoFreeGpu, match="gives its GPUs away as whole ones"):
        given_to(pod(container("a", 1, MEMORY), cards="0"), [], Gpus(0, 2))


def test_whole_cards_are_dealt_to_the_containers_that_run_side_by_side() -> None:
    sidecar = {**container("beside", 1, NUMBER), "restartPolicy": "Always"}
    one = pod(
        container("a", 1, NUMBER), container("b", 2, NUMBER), cards="4,5,6,7", init=(container("i", 4, NUMBER), sidecar)
    )
    found = {name: holding["devices"] for name, holding in given_to(one, [], Gpus()).items()}
    assert found == {"i": [4, 5, 6, 7], "beside": [4], "a": [5], "b": [6, 7]}


def test_containers_of_a_pod_share_its_part() -> None:
    """The pod as a whole has what they ask for together; one that ran before them needs nothing beside them."""
    one = pod(container("a", 20, MEMORY), container("b", 30, MEMORY), cards="1", init=(container("i", 40, MEMORY),))
    found = given_to(one, [], Gpus(4, 2, memory=100))
    assert found == dict.fromkeys(("i", "a", "b"), Holding(devices=[5], part=50))
    assert given_to(pod(container("c", 50, MEMORY), cards="1"), [found], Gpus(4, 2, memory=100))


def test_whole_cards_go_from_a_container_to_those_that_come_after_it() -> None:
    """As with all resources, the pod needs what it has at once, not what all its containers have ever had."""
    sidecar = {**container("beside", 1), "restartPolicy": "Always"}
    one = pod(container("a", 1), container("b", 1), init=(container("i", 2), sidecar, container("j", 1)))
    found = {name: holding["devices"] for name, holding in given_to(one, [], Gpus(0, 3)).items()}
    assert found == {"i": [0, 1], "beside": [0], "j": [1], "a": [1], "b": [2]}


def test_a_pod_takes_no_second_card_while_it_has_one() -> None:
    """Of a container that is over: the scheduler may have promised a lower one, free since then, to somebody else."""
    one = pod(container("a", 1), init=(container("i", 1),))
    before: Assignment = {"i": Holding(devices=[1], part=0)}
    assert assign(before, [], one, container("a", 1), Gpus(0, 2))["a"]["devices"] == [1]


def test_what_an_agent_of_the_version_before_gave_away_is_known(tmp_path: Path) -> None:
    directory = PodDirectory(tmp_path, "u")
    directory.path.mkdir(parents=True)
    records.write(str(directory.path / "gpus.json"), {"main": [1]}, durable=False)
    assert directory.gpus() == {"main": Holding(devices=[1], part=0)}
    assert given_to(pod(container("a", 1)), [directory.gpus()], Gpus(1, 2))["a"]["devices"] == [2]


def test_a_container_without_any_sees_none_on_a_node_that_has_some() -> None:
    assert variables({}, container("a", 0), Gpus(0, 2)) == {
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    assert variables({}, container("a", 0), Gpus()) == {}


def said(node: Rig, one: Obj) -> str:
    try:
        return node.log(one)
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


@pytest.mark.parametrize("account", ACCOUNTS)
def test_pods_see_the_card_their_scheduler_chose_and_the_next_agent_keeps_them_apart(account: str) -> None:
    show = "echo [$CUDA_VISIBLE_DEVICES] $VOLCANO_GPU_ALLOCATED of $VOLCANO_GPU_TOTAL; sleep 600"

    async def main() -> None:
        async with rig(account) as node:
            await node.start_agent(gpus=2, gpu_memory=100, first_gpu=2)
            await node.create_pod("a", show, container=container("main", 40, MEMORY), annotations={INDEX: "1"})
            first = await node.running("a")
            await node.kill_agent()
            await node.start_agent(gpus=2, gpu_memory=100, first_gpu=2)
            await node.create_pod("b", show, container=container("main", 60, MEMORY), annotations={INDEX: "1"})
            second = await node.running("b")
            await soon(lambda: said(node, first) and said(node, second))
            assert (said(node, first), said(node, second)) == ("[3] 40 of 100\n", "[3] 60 of 100\n")
            # One that somebody else has sent to the same card waits until those on it have gone.
            await node.create_pod("c", show, container=container("main", 1, NUMBER), annotations={INDEX: "1"})
            third = await node.until("c", lambda one: "GPU 3 is not free" in str(one.get("status")))
            for name in ("a", "b"):
                await node.client.delete(POD, name, "default")
            third = await node.running("c")
            await soon(lambda: said(node, third))
            assert said(node, third) == "[3] 1 of\n"

    asyncio.run(main())


def test_the_next_pod_finds_the_device_free_as_soon_as_the_one_before_is_said_to_be_over() -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            await node.start_agent(gpus=1)
            for number in range(5):
                await node.create_pod(f"p{number}", "true", container=container("main", 1))
                await node.finished(f"p{number}")
            events = (await node.client.list(EVENT, "default")).items
            assert [event["message"] for event in events if event["reason"] == "Failed"] == []

    asyncio.run(main())


def test_a_node_that_begins_to_share_its_cards_no_longer_counts_whole_ones() -> None:
    async def declared(node: Rig) -> dict[str, str]:
        found = (await node.client.get(NODE, NODE_NAME))["status"]
        assert found["capacity"] == found["allocatable"]
        return {name: amount for name, amount in found["capacity"].items() if "gpu" in name}

    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            for settings, expected in (
                ({"gpus": 2}, {WHOLE: "2"}),
                ({"gpus": 2, "gpu_memory": 100}, {NUMBER: "2", MEMORY: "200"}),
                ({}, {}),
            ):
                await node.start_agent(**settings)
                assert await declared(node) == expected
                await node.kill_agent()

    asyncio.run(main())


def test_what_a_person_says_about_devices_stands() -> None:
    own = {**container("main", 1), "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "7"}]}

    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            await node.start_agent(gpus=2)
            await node.create_pod("mine", "echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES", container=own)
            assert node.log(await node.finished("mine")) == "7 0\n"

    asyncio.run(main())


@pytest.mark.parametrize("account", ACCOUNTS)
def test_the_drivers_files_are_there_for_those_who_have_a_device(account: str) -> None:
    show = "ls /dev | grep nvidia; test -c /dev/nvidiactl && echo data > /dev/nvidia0 && echo written"

    async def main() -> None:
        async with rig(account) as node:
            devices = node.home / "devices"
            devices.mkdir(mode=0o755)
            for name in ("nvidia0", "nvidia1", "nvidiactl"):
                (devices / name).symlink_to("/dev/null")
            await node.start_agent(gpus=2, device_files=str(devices))
            await node.create_pod("one", show, container=container("main", 1))
            await node.create_pod("none", show)
            assert node.log(await node.finished("one")) == "nvidia0\nnvidia1\nnvidiactl\nwritten\n"
            assert said(node, await node.finished("none")) == ""

    asyncio.run(main())
