"""Watches: complete, ordered, resumable, filtered, and honest about what they have lost."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest

from hekla.api.kinds import CONFIG_MAP, POD
from hekla.client.watch import Change, ChangeType, watch
from hekla.errors import Expired
from tests.apiserver.rig import Rig, config_map, pod, with_server

MAPS = "/api/v1/namespaces/default/configmaps"


async def take(rig: Rig, count: int, **options: str) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    async with aclosing(watch(rig.client, CONFIG_MAP, **options)) as changes:
        async for change in changes:
            if change.type is ChangeType.BOOKMARK:
                continue
            seen.append((change.type.value, change.obj["metadata"]["name"]))
            if len(seen) == count:
                break
    return seen


async def lines(rig: Rig, query: str) -> list[dict[str, object]]:
    """All lines of a watch that ends by itself."""
    coming = rig.client.stream_many_lines(f"{MAPS}?watch=1&{query}")
    return [msgspec.json.decode(line) async for lines in coming for line in lines if line]


def test_changes_come_in_order_from_a_revision() -> None:
    async def script(rig: Rig) -> None:
        start = str(rig.store.revision)
        await rig.client.create(CONFIG_MAP, config_map("a"))
        await rig.client.patch(CONFIG_MAP, "a", {"data": {"y": "2"}}, "default")
        await rig.client.create(CONFIG_MAP, config_map("b"))
        await rig.client.delete(CONFIG_MAP, "a", "default")
        seen = await take(rig, 4, resource_version=start)
        assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]

    with_server(script)


def test_a_deleted_object_is_shown_at_the_revision_of_its_deletion() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map("a"))
        start = str(rig.store.revision)
        await rig.client.delete(CONFIG_MAP, "a", "default")
        async with aclosing(watch(rig.client, CONFIG_MAP, resource_version=start)) as changes:
            change = await anext(changes)
        assert change.obj["metadata"]["resourceVersion"] == str(rig.store.revision)

    with_server(script)


def test_a_watcher_sees_writes_made_while_it_waits() -> None:
    async def script(rig: Rig) -> None:
        seen = asyncio.create_task(take(rig, 3, resource_version=str(rig.store.revision)))
        await asyncio.sleep(1)
        for name in "abc":
            await rig.client.create(CONFIG_MAP, config_map(name))
        assert await seen == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]

    with_server(script)


def test_objects_enter_and_leave_a_selection() -> None:
    async def script(rig: Rig) -> None:
        start = str(rig.store.revision)
        await rig.client.create(CONFIG_MAP, config_map("a"))
        for number, label in enumerate(["x", "x", None, None, "x"]):
            patch = {"metadata": {"labels": {"l": label}}, "data": {"n": str(number)}}
            await rig.client.patch(CONFIG_MAP, "a", patch, "default")
        await rig.client.delete(CONFIG_MAP, "a", "default")
        seen = await take(rig, 5, resource_version=start, label_selector="l=x")
        assert [type_ for type_, _ in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]

    with_server(script)


def test_a_field_selection_hears_of_a_pod_when_it_is_bound() -> None:
    async def script(rig: Rig) -> None:
        start = str(rig.store.revision)
        made = await rig.client.create(POD, pod())
        await rig.client.create(POD, pod("q"))
        await rig.client.bind("default", "p", "n1", uid=made["metadata"]["uid"])
        selected = watch(rig.client, POD, resource_version=start, field_selector="spec.nodeName=n1")
        async with aclosing(selected) as changes:
            change: Change = await anext(changes)
        assert (change.type.value, change.obj["metadata"]["name"]) == ("ADDED", "p")

    with_server(script)


def test_a_revision_that_is_compacted_away_is_an_error_in_the_stream() -> None:
    async def script(rig: Rig) -> None:
        for number in range(20):
            await rig.client.create(CONFIG_MAP, config_map(f"m{number}"))
        (line,) = await lines(rig, "resourceVersion=1")
        assert line["type"] == "ERROR"
        assert (line["object"]["code"], line["object"]["reason"]) == (410, "Expired")
        assert line["object"]["message"].startswith("too old resource version: 1 (")
        with pytest.raises(Expired):
            await take(rig, 1, resource_version="1")

    with_server(script, keep_changes=5)


def test_without_a_revision_the_present_comes_first() -> None:
    async def script(rig: Rig) -> None:
        for name in "ba":
            await rig.client.create(CONFIG_MAP, config_map(name))
        seen = await lines(rig, "timeoutSeconds=1")
        assert [(line["type"], line["object"]["metadata"]["name"]) for line in seen] == [("ADDED", "a"), ("ADDED", "b")]

    with_server(script)


def test_initial_events_end_with_a_marked_bookmark() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
        added, bookmark, *_ = await lines(rig, query)
        assert added["type"] == "ADDED"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        status, answer, _ = await rig.send("GET", f"{MAPS}?watch=1&sendInitialEvents=true")
        assert (status, answer["reason"]) == (422, "Invalid")

    with_server(script)


def test_bookmarks_move_a_quiet_watcher_on() -> None:
    async def script(rig: Rig) -> None:
        start = rig.store.revision
        seen = asyncio.create_task(lines(rig, f"resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=130"))
        await asyncio.sleep(10)
        await rig.client.create(POD, pod())
        bookmarks = await seen
        assert [line["type"] for line in bookmarks[:2]] == ["BOOKMARK", "BOOKMARK"]
        assert bookmarks[1]["object"]["metadata"]["resourceVersion"] == str(rig.store.revision)

    with_server(script)


def test_a_watch_from_the_future_replays_nothing() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        assert await lines(rig, f"resourceVersion={rig.store.revision + 100}&timeoutSeconds=5") == []

    with_server(script)


def test_ten_watchers_closed_and_resumed_at_random_see_everything_once() -> None:
    async def follow(rig: Rig, first: int, last: int, batch: int) -> list[int]:
        revision, seen = 0, []
        start = str(first)
        while revision < last:
            async with aclosing(watch(rig.client, CONFIG_MAP, resource_version=start)) as changes:
                async for change in changes:
                    revision = int(change.obj["metadata"]["resourceVersion"])
                    seen.append(revision)
                    start = str(revision)
                    if len(seen) % batch == 0 or revision >= last:
                        break
        return seen

    async def script(rig: Rig) -> None:
        first = rig.store.revision
        watchers = [asyncio.create_task(follow(rig, first, first + 300, batch)) for batch in range(1, 11)]
        for number in range(300):
            await rig.client.update(CONFIG_MAP, config_map()) if number else await rig.client.create(
                CONFIG_MAP, config_map()
            )
            await rig.client.patch(CONFIG_MAP, "a", {"data": {"n": str(number)}}, "default")
        for watcher in watchers:
            seen = await watcher
            assert seen == sorted(set(seen))
            assert seen[0] == first + 1

    with_server(script)
