"""The Events of events.k8s.io are those of the core group, in other words."""

from __future__ import annotations

from typing import Any

import msgspec

from hekla.api.kinds import EVENT, Obj
from hekla.apiserver.event_group import EVENTS_EVENT
from tests.apiserver.rig import Rig, with_server

ABOUT = {"kind": "Pod", "name": "p", "namespace": "default"}
BASE = EVENTS_EVENT.path("default")


def older(name: str = "a", **more: Any) -> Obj:
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "involvedObject": ABOUT, "message": "hello", "reason": "R", "count": 2, **more}


def newer(name: str = "b", **more: Any) -> Obj:
    event = {"eventTime": "2026-01-01T00:00:00.000001Z", "reportingController": "x/y", "type": "Normal", "reason": "R"}
    return {"metadata": {"name": name, "namespace": "default"}, **event, "regarding": ABOUT, "note": "hi", **more}


def test_an_event_of_either_group_is_seen_in_both() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(EVENT, older())
        shown = await rig.client.get(EVENTS_EVENT, "a", "default")
        assert (shown["apiVersion"], shown["note"], shown["deprecatedCount"]) == ("events.k8s.io/v1", "hello", 2)
        assert shown["regarding"] == ABOUT
        made = await rig.client.create(EVENTS_EVENT, newer())
        assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "hi")
        stored = await rig.client.get(EVENT, "b", "default")
        assert (stored["apiVersion"], stored["message"], stored["reportingComponent"]) == ("v1", "hi", "x/y")
        listed = await rig.client.list(EVENTS_EVENT, "default", field_selector="regarding.name=p,reason=R")
        assert [each["note"] for each in listed.items] == ["hello", "hi"]

    with_server(script)


def test_events_are_watched_in_the_words_of_the_group_that_is_asked() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(EVENT, older())
        async for lines in rig.client.stream_many_lines(f"{BASE}?watch=1&resourceVersion=0"):
            change = msgspec.json.decode(lines[0])
            assert (change["type"], change["object"]["note"]) == ("ADDED", "hello")
            assert change["object"]["apiVersion"] == "events.k8s.io/v1"
            break

    with_server(script)


def test_patches_are_in_the_newer_words() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(EVENTS_EVENT, newer())
        await rig.client.patch(EVENTS_EVENT, "b", {"note": "new"}, "default")
        operations = [{"op": "replace", "path": "/regarding/name", "value": "q"}]
        code, shown, _ = await rig.send("PATCH", f"{BASE}/b", operations, "application/json-patch+json")
        assert (code, shown["regarding"]["name"], shown["note"]) == (200, "q", "new")
        assert (await rig.client.get(EVENT, "b", "default"))["involvedObject"]["name"] == "q"

    with_server(script)


def test_errors_name_the_group_that_was_asked() -> None:
    async def script(rig: Rig) -> None:
        code, status, _ = await rig.send("GET", f"{BASE}/zz")
        assert (code, status["message"]) == (404, 'events.events.k8s.io "zz" not found')
        assert status["details"] == {"name": "zz", "group": "events.k8s.io", "kind": "events"}
        code, status, _ = await rig.send("POST", BASE, {"metadata": {"name": "c"}})
        assert (code, len(status["details"]["causes"])) == (422, 2)
        code, status, _ = await rig.send("GET", f"{BASE}?fieldSelector=involvedObject.kind%3DPod")
        assert (code, status["message"]) == (400, "field label not supported: involvedObject.kind")
        assert (await rig.send("POST", BASE, {**newer(), "apiVersion": "v1"}))[0] == 400

    with_server(script)


def test_the_group_is_found_through_discovery_and_shown_as_a_table() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(EVENT, older())
        _, listed, _ = await rig.send("GET", "/apis/events.k8s.io/v1")
        assert [each["name"] for each in listed["resources"]] == ["events"]
        _, table, _ = await rig.send("GET", BASE, Accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        assert table["kind"] == "Table"
        assert "hello" in table["rows"][0]["cells"]

    with_server(script)
