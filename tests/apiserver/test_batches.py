"""Many writes in one request: each item as if it were alone, a gang's bindings all or none, never more than fits."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.api.batches import BATCH_PATH, OBJECT_BATCH, Binding
from hekla.api.kinds import CONFIG_MAP, NODE, POD, Obj
from hekla.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound
from tests.apiserver.rig import WIDGET, Rig, config_map, pod, widget, with_server


def asking(name: str, cpu: str = "1", **more: str) -> Obj:
    resources = {"requests": {"cpu": cpu, **more}, "limits": more}
    container = {"name": "main", "image": "python:3", "resources": resources}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]}}


async def make_node(rig: Rig, name: str = "n", **allocatable: str) -> None:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}}
    await rig.client.create(NODE, {"metadata": {"name": name}, "status": status})


async def make_pods(rig: Rig, *pods: Obj, node: str = "n") -> list[Binding]:
    made = await rig.client.create_many(POD, pods)
    return [binding(each, node) for each in made if isinstance(each, dict)]


def binding(made: Obj, node: str) -> Binding:
    return Binding("default", made["metadata"]["name"], node, made["metadata"]["uid"])


async def nodes_of_pods(rig: Rig) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["spec"].get("nodeName") for each in await rig.client.find_all(POD)}


def test_many_objects_are_created_in_one_transaction_with_a_result_each() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map("taken"))
        before = rig.store.revision
        names = ["a", "taken", "B_", "b"]
        results = await rig.client.create_many(CONFIG_MAP, [config_map(name) for name in names])
        assert [type(each) for each in results] == [dict, AlreadyExists, Invalid, dict]
        assert rig.store.revision == before + 2
        for result in (results[0], results[3]):
            assert isinstance(result, dict)
            assert await rig.client.get(CONFIG_MAP, result["metadata"]["name"], "default") == result

    with_server(script)


def test_an_item_is_treated_as_if_it_came_alone() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        one, two, three = await rig.client.create_many(WIDGET, [widget("a"), widget("b", size=50), widget("c", odd=1)])
        assert isinstance(one, dict)
        assert one["spec"] == {"size": 3, "color": "red"}
        assert isinstance(two, Invalid)
        assert "should be less than or equal to 10" in str(two)
        assert isinstance(three, dict)
        assert "odd" not in three["spec"]
        plain = {"automountServiceAccountToken": False}  # the token's volume has a random name
        defaulted, _ = await rig.client.create_many(POD, [pod("p", **plain), pod("q")])
        assert isinstance(defaulted, dict)
        alone = await rig.client.create(POD, pod("r", **plain))
        assert defaulted["spec"] == alone["spec"]

    with_server(script)


def test_the_names_of_a_batch_are_taken_by_its_own_items_too() -> None:
    async def script(rig: Rig) -> None:
        results = await rig.client.create_many(CONFIG_MAP, [config_map("a"), config_map("a")])
        assert [type(each) for each in results] == [dict, AlreadyExists]

    with_server(script)


def test_nothing_is_created_in_a_namespace_that_is_not_there() -> None:
    async def script(rig: Rig) -> None:
        results = await rig.client.create_many(CONFIG_MAP, [config_map("a"), config_map("b", namespace="nowhere")])
        assert [type(each) for each in results] == [dict, NotFound]

    with_server(script)


def test_the_batch_form_is_found_through_discovery() -> None:
    async def script(rig: Rig) -> None:
        code, listed, _ = await rig.send("GET", BATCH_PATH)
        assert code == 200
        assert [each["name"] for each in listed["resources"]] == ["bindingbatches", "objectbatches", "requestbatches"]
        assert all(each["verbs"] == ["create"] for each in listed["resources"])
        assert (await rig.send("GET", OBJECT_BATCH.path()))[0] == 404
        assert (await rig.send("POST", f"{BATCH_PATH}/others", {}))[0] == 404

    with_server(script)


def test_what_is_no_batch_is_refused() -> None:
    async def script(rig: Rig) -> None:
        for body in ({}, {"items": 5}, []):
            assert (await rig.send("POST", OBJECT_BATCH.path(), body))[0] == 400
        code, answer, _ = await rig.send("POST", OBJECT_BATCH.path(), {"items": [5, {"metadata": {}}]})
        assert code == 200
        assert [each["status"]["code"] for each in answer["results"]] == [400, 404]
        assert (await rig.send("POST", f"{BATCH_PATH}/bindingbatches", {"items": [{"metadata": {}}]}))[0] == 400

    with_server(script)


def test_a_gang_is_bound_as_one() -> None:
    async def script(rig: Rig) -> None:
        await make_node(rig)
        bindings = await make_pods(rig, *(asking(f"p{n}") for n in range(4)))
        before = rig.store.revision
        assert await rig.client.bind_many(bindings, all_or_nothing=True) == [None] * 4
        assert set((await nodes_of_pods(rig)).values()) == {"n"}
        assert rig.store.revision == before + 4
        bound = await rig.client.get(POD, "p0", "default")
        assert bound["status"]["conditions"][0]["type"] == "PodScheduled"

    with_server(script)


def test_a_gang_that_does_not_fit_any_more_is_refused_as_one_and_told_why() -> None:
    async def script(rig: Rig) -> None:
        await make_node(rig)
        await rig.client.bind_many(
            await make_pods(rig, asking("other", "1500m"), asking("x", "1")), all_or_nothing=True
        )
        bindings = await make_pods(rig, asking("a"), asking("b"))
        results = await rig.client.bind_many(bindings, all_or_nothing=True)
        assert "nothing was bound: 1 others of the same batch were refused" in str(results[0])
        assert 'node "n" has no room: cpu 1 asked, 500m free' in str(results[1])
        assert all(isinstance(each, Conflict) for each in results)
        found = await nodes_of_pods(rig)
        assert (found["a"], found["b"]) == (None, None)

    with_server(script)


def test_room_counts_pods_and_extended_resources_and_needs_the_node() -> None:
    async def script(rig: Rig) -> None:
        await make_node(rig, "few", pods="1")
        await make_node(rig, "gpus", **{"nvidia.com/gpu": "1"})
        pods = [asking(name, "1m", **{"nvidia.com/gpu": "1"}) for name in ("g0", "g1")]
        a, b, c, g0, g1 = await make_pods(rig, asking("a"), asking("b"), asking("c"), *pods)
        cases = (
            ([a, b], "few", 'node "few" has no room: pods 1 asked, 0 free'),
            ([g0, g1], "gpus", 'node "gpus" has no room: nvidia.com/gpu 1 asked, 0 free'),
            ([g0], "few", "nvidia.com/gpu 1 asked, 0 free"),
            ([c], "nowhere", 'node "nowhere" not found'),
        )
        for bindings, node, words in cases:
            moved = [Binding(each.namespace, each.pod, node, each.uid) for each in bindings]
            results = await rig.client.bind_many(moved, all_or_nothing=True)
            assert words in str(results[-1])
        assert set((await nodes_of_pods(rig)).values()) == {None}

    with_server(script)


def test_the_room_of_pods_that_end_or_go_is_free_again() -> None:
    async def script(rig: Rig) -> None:
        await make_node(rig)
        for name in ("first", "second", "third"):
            bindings = await make_pods(rig, asking(name, "4"))
            made = await rig.client.create(POD, asking(f"{name}-late", "1"))
            assert await rig.client.bind_many([binding(made, "n"), *bindings], all_or_nothing=True) != [None, None]
            assert await rig.client.bind_many(bindings, all_or_nothing=True) == [None]
            if name == "first":
                await rig.client.patch(POD, name, {"status": {"phase": "Succeeded"}}, "default", subresource="status")
            else:
                await rig.client.delete(POD, name, "default", grace_seconds=0)

    with_server(script)


def test_of_two_gangs_that_want_the_same_room_at_the_same_time_one_gets_it() -> None:
    async def script(rig: Rig) -> None:
        await make_node(rig)
        gangs = [await make_pods(rig, *(asking(f"{gang}{n}") for n in range(3))) for gang in ("a", "b")]
        first, second = await asyncio.gather(*(rig.client.bind_many(gang, all_or_nothing=True) for gang in gangs))
        assert sorted([first == [None] * 3, second == [None] * 3]) == [False, True]
        assert sum(node is not None for node in (await nodes_of_pods(rig)).values()) == 3

    with_server(script)


def test_one_pod_that_cannot_be_bound_stops_its_gang_but_not_other_bindings() -> None:
    async def script(rig: Rig) -> None:
        await make_node(rig)
        a, b = await make_pods(rig, asking("a"), asking("b"))
        wrong = Binding("default", "b", "n", "another-uid")
        results = await rig.client.bind_many([a, wrong], all_or_nothing=True)
        assert "UID in precondition" in str(results[1])
        assert set((await nodes_of_pods(rig)).values()) == {None}
        results = await rig.client.bind_many([a, wrong], all_or_nothing=False)
        assert results[0] is None
        assert isinstance(results[1], Conflict)
        assert (await nodes_of_pods(rig)) == {"a": "n", "b": None}
        again = await rig.client.bind_many([a, b], all_or_nothing=True)
        assert 'is already assigned to node "n"' in str(again[0])

    with_server(script)


def test_a_pod_may_not_be_twice_in_a_gang() -> None:
    async def script(rig: Rig) -> None:
        await make_node(rig)
        bindings = await make_pods(rig, asking("a"), asking("b"))
        results = await rig.client.bind_many([*bindings, bindings[0]], all_or_nothing=True)
        assert all(isinstance(each, BadRequest) for each in results)
        assert set((await nodes_of_pods(rig)).values()) == {None}

    with_server(script)


@settings(max_examples=30, deadline=None)
@given(
    gangs=st.lists(
        st.lists(st.tuples(st.sampled_from(["n0", "n1", "n2"]), st.sampled_from([100, 700, 1500, 4000])), min_size=1),
        max_size=8,
    )
)
def test_gangs_bound_at_the_same_time_never_fill_a_node_over_its_capacity(gangs: list[list[tuple[str, int]]]) -> None:
    async def script(rig: Rig) -> None:
        for name in ("n0", "n1", "n2"):
            await make_node(rig, name)
        async with asyncio.TaskGroup() as group:
            for number, gang in enumerate(gangs):
                group.create_task(bind_gang(rig, f"g{number}", gang))
        used: dict[str, int] = {}
        for each in await rig.client.find_all(POD):
            node = each["spec"].get("nodeName")
            cpu = each["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            used[node] = used.get(node, 0) + int(cpu.removesuffix("m"))
        assert all(amount <= 4000 for node, amount in used.items() if node)

    with_server(script)


async def bind_gang(rig: Rig, name: str, gang: list[tuple[str, int]]) -> None:
    made = await rig.client.create_many(POD, [asking(f"{name}-{n}", f"{cpu}m") for n, (_, cpu) in enumerate(gang)])
    bindings = [binding(each, node) for each, (node, _) in zip(made, gang, strict=True) if isinstance(each, dict)]
    results = await rig.client.bind_many(bindings, all_or_nothing=True)
    bound = [result is None for result in results]
    assert all(bound) or not any(bound)
    assert all(isinstance(result, ApiError) for result in results if result is not None)
