"""What has no owner left goes; what has one stays; and deleting can wait for, or spare, what is owned."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from typing import Any

from hekla.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, EVENT, NAMESPACE, POD, SECRET, Kind, Obj
from hekla.client.rest import Client
from hekla.client.transport import Answer, Request, Transport
from hekla.errors import Disconnected, Expired
from hekla.local import builtins
from tests.apiserver.rig import WIDGET, WIDGETS, Rig, config_map, widget, with_server
from tests.transports import Relay

QUIET = 30.0


class Blind(Relay):
    """While it is `blind`, neither lists nor watches of Secrets come through, and what was watched has expired."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.blind = False

    async def send(self, request: Request) -> Answer:
        if self.blind and request.place == "GET /api/v1/secrets":
            raise Disconnected("blind")
        return await super().send(request)

    async def passed_on(self, path: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if self.blind and path.startswith("/api/v1/secrets?"):
                raise Expired("blind")
            yield chunk


def with_builtins(
    script: Callable[[Rig], Awaitable[None]], connect: Callable[[Rig], Client] = lambda rig: rig.client
) -> None:
    async def main(rig: Rig) -> None:
        running = asyncio.create_task(builtins.run(connect(rig), clock=rig.clock, rng=random.Random(2)))
        try:
            await script(rig)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    with_server(main)


def owned(name: str, *owners: Obj, kind: str = "ConfigMap", version: str = "v1", **fields: Any) -> Obj:
    references = [
        {"apiVersion": version, "kind": kind, "name": o["metadata"]["name"], "uid": o["metadata"]["uid"], **fields}
        for o in owners
    ]
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": references}}


async def exists(rig: Rig, kind: Kind, *names: str) -> list[bool]:
    return [await rig.client.find(kind, name, "default") is not None for name in names]


def test_dependents_follow_their_owner_through_generations() -> None:
    async def script(rig: Rig) -> None:
        owner = await rig.client.create(CONFIG_MAP, config_map("owner"))
        child = await rig.client.create(CONFIG_MAP, owned("child", owner))
        await rig.client.create(SECRET, owned("grandchild", child))
        await rig.client.create(SECRET, {"metadata": {"name": "unrelated", "namespace": "default"}})
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "owner", "child") == [True, True]
        await rig.client.delete(CONFIG_MAP, "owner", "default", propagation="Background")
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "child") == [False]
        assert await exists(rig, SECRET, "grandchild", "unrelated") == [False, True]

    with_builtins(script)


def test_an_owner_of_the_same_name_is_not_the_same_owner() -> None:
    async def script(rig: Rig) -> None:
        stranger = {"metadata": {"name": "owner", "uid": "another"}}
        await rig.client.create(CONFIG_MAP, config_map("owner"))
        await rig.client.create(CONFIG_MAP, owned("child", stranger))
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "child", "owner") == [False, True]

    with_builtins(script)


def test_dependents_of_an_owner_that_came_and_went_unseen_go_too() -> None:
    """While the watch of its kind was broken the server said that it was there, and nobody said that it had gone."""
    lines: list[Blind] = []

    async def script(rig: Rig) -> None:
        (line,) = lines
        await asyncio.sleep(QUIET)
        line.blind = True
        owner = await rig.client.create(SECRET, {"metadata": {"name": "owner", "namespace": "default"}})
        await rig.client.create(CONFIG_MAP, owned("child", owner, kind="Secret"))
        await asyncio.sleep(QUIET)
        await rig.client.delete(SECRET, "owner", "default")
        line.blind = False
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "child") == [False]

    def connect(rig: Rig) -> Client:
        lines.append(Blind(rig.client.transport))
        return Client(lines[0])

    with_builtins(script, connect)


def test_one_owner_left_is_enough() -> None:
    async def script(rig: Rig) -> None:
        one = await rig.client.create(CONFIG_MAP, config_map("one"))
        two = await rig.client.create(CONFIG_MAP, config_map("two"))
        await rig.client.create(CONFIG_MAP, owned("child", one, two))
        await rig.client.delete(CONFIG_MAP, "one", "default")
        await asyncio.sleep(QUIET)
        child = await rig.client.get(CONFIG_MAP, "child", "default")
        assert [each["name"] for each in child["metadata"]["ownerReferences"]] == ["two"]

    with_builtins(script)


async def delete_behind_a_child_that_stays(rig: Rig) -> None:
    owner = await rig.client.create(CONFIG_MAP, config_map("owner"))
    child = owned("child", owner, blockOwnerDeletion=True)
    child["metadata"]["finalizers"] = ["example.org/wait"]
    await rig.client.create(CONFIG_MAP, child)
    await asyncio.sleep(QUIET)
    await rig.client.delete(CONFIG_MAP, "owner", "default", propagation="Foreground")
    await asyncio.sleep(QUIET)


def test_a_foreground_deletion_waits_for_what_blocks_it() -> None:
    async def script(rig: Rig) -> None:
        await delete_behind_a_child_that_stays(rig)
        assert await exists(rig, CONFIG_MAP, "owner", "child") == [True, True]
        assert (await rig.client.get(CONFIG_MAP, "child", "default"))["metadata"]["deletionTimestamp"]
        await rig.client.patch(CONFIG_MAP, "child", {"metadata": {"finalizers": None}}, "default")
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "owner", "child") == [False, False]

    with_builtins(script)


def test_a_foreground_deletion_does_not_wait_for_what_has_another_owner() -> None:
    async def script(rig: Rig) -> None:
        one = await rig.client.create(CONFIG_MAP, config_map("one"))
        two = await rig.client.create(CONFIG_MAP, config_map("two"))
        await rig.client.create(CONFIG_MAP, owned("child", one, two, blockOwnerDeletion=True))
        await asyncio.sleep(QUIET)
        await rig.client.delete(CONFIG_MAP, "one", "default", propagation="Foreground")
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "one", "two", "child") == [False, True, True]

    with_builtins(script)


def test_a_foreground_deletion_does_not_wait_for_what_was_disowned() -> None:
    async def script(rig: Rig) -> None:
        await delete_behind_a_child_that_stays(rig)
        await rig.client.patch(CONFIG_MAP, "child", {"metadata": {"ownerReferences": None}}, "default")
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "owner") == [False]

    with_builtins(script)


def test_orphans_are_spared_and_forget_their_owner() -> None:
    async def script(rig: Rig) -> None:
        owner = await rig.client.create(CONFIG_MAP, config_map("owner"))
        await rig.client.create(CONFIG_MAP, owned("child", owner))
        await asyncio.sleep(QUIET)
        await rig.client.delete(CONFIG_MAP, "owner", "default", propagation="Orphan")
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "owner", "child") == [False, True]
        assert "ownerReferences" not in (await rig.client.get(CONFIG_MAP, "child", "default"))["metadata"]

    with_builtins(script)


def test_custom_resources_own_as_soon_as_they_are_defined() -> None:
    async def script(rig: Rig) -> None:
        await asyncio.sleep(QUIET)
        await rig.define_widgets()
        owner = await rig.client.create(WIDGET, widget())
        await rig.client.create(CONFIG_MAP, owned("child", owner, kind="Widget", version="example.org/v1"))
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "child") == [True]
        await rig.client.delete(WIDGET, "w", "default")
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "child") == [False]

    with_builtins(script)


def test_an_owner_of_an_unknown_kind_is_not_judged() -> None:
    async def script(rig: Rig) -> None:
        stranger = {"metadata": {"name": "owner", "uid": "another"}}
        await rig.client.create(CONFIG_MAP, owned("child", stranger, kind="Mystery", version="example.org/v7"))
        await asyncio.sleep(QUIET)
        assert await exists(rig, CONFIG_MAP, "child") == [True]

    with_builtins(script)


def test_a_namespace_is_emptied_and_removed() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(NAMESPACE, {"metadata": {"name": "n"}})
        for kind, obj in ((CONFIG_MAP, config_map()), (WIDGET, widget())):
            await rig.client.create(kind, {**obj, "metadata": {"name": "a", "namespace": "n"}})
        container = {"name": "c", "image": "x"}
        await rig.client.create(POD, {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [container]}})
        await rig.client.bind("n", "p", "node", uid="")
        await rig.client.delete(NAMESPACE, "n")
        await asyncio.sleep(QUIET)
        assert (await rig.client.get(NAMESPACE, "n"))["status"]["phase"] == "Terminating", "a pod is still stopping"
        await rig.client.delete(POD, "p", "n", grace_seconds=0)
        await asyncio.sleep(2 * QUIET)
        assert await rig.client.find(NAMESPACE, "n") is None
        assert (await rig.client.list(CONFIG_MAP, "n")).items == []

    with_builtins(script)


def test_what_was_told_of_a_namespace_goes_with_it() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "n"}})
        about = {"kind": "ConfigMap", "name": "a", "namespace": "n"}
        await rig.client.create(EVENT, {"metadata": {"name": "e", "namespace": "n"}, "involvedObject": about})
        await rig.client.delete(NAMESPACE, "n")
        await asyncio.sleep(2 * QUIET)
        assert await rig.client.find(NAMESPACE, "n") is None
        assert (await rig.client.list(EVENT, "n")).items == []

    with_builtins(script)


def test_a_definition_goes_after_its_objects() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget())
        await rig.client.delete(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org")
        await asyncio.sleep(QUIET)
        assert await rig.client.find(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org") is None
        await rig.define_widgets()
        assert (await rig.client.list(WIDGET)).items == []

    with_builtins(script)


def test_a_kind_that_comes_back_with_another_scope_is_collected_where_it_is_now() -> None:
    async def script(rig: Rig) -> None:
        of_the_cluster = deepcopy(WIDGETS)
        of_the_cluster["spec"]["scope"] = "Cluster"
        await rig.client.create(CUSTOM_RESOURCE_DEFINITION, of_the_cluster)
        await asyncio.sleep(QUIET)
        await rig.client.delete(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org")
        await asyncio.sleep(QUIET)
        await rig.define_widgets()
        await asyncio.sleep(QUIET)
        stranger = {"metadata": {"name": "owner", "uid": "another"}}
        await rig.client.create(WIDGET, {**owned("child", stranger), "spec": {"size": 1}})
        await asyncio.sleep(QUIET)
        assert await exists(rig, WIDGET, "child") == [False]

    with_builtins(script)
