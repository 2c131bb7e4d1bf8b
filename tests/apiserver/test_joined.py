"""Requests that came in one: each counted and refused by itself, and none that could not be."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.batches import OBJECT_BATCH, REQUEST_BATCH
from hekla.api.kinds import CONFIG_MAP, Obj
from tests.apiserver.rig import Rig, config_map, with_server
from tests.apiserver.test_metrics import figures

MAPS = CONFIG_MAP.path("default")


async def send_joined(rig: Rig, *items: Obj) -> tuple[int, Any]:
    code, document, _ = await rig.send("POST", REQUEST_BATCH.path(), {"items": items})
    return code, document


def test_each_is_answered_and_counted_as_if_it_had_come_alone() -> None:
    async def script(rig: Rig) -> None:
        strict = {"method": "POST", "path": f"{MAPS}?fieldValidation=Strict", "body": {**config_map("b"), "odd": 1}}
        loose = {**strict, "path": MAPS}
        patch = {"method": "PATCH", "path": f"{MAPS}/b", "type": "application/merge-patch+json", "body": {"data": None}}
        code, document = await send_joined(rig, strict, loose, patch, {**patch, "type": "text/plain"})
        assert code == 200
        assert [each["code"] for each in document["results"]] == [400, 201, 200, 415]
        assert document["results"][1]["headers"]["warning"] == '299 - "unknown field \\"odd\\""'
        assert document["results"][2]["body"] == await rig.client.get(CONFIG_MAP, "b", "default")
        found = await figures(rig)
        assert found["apiserver_request_total POST configmaps 201"] == 1
        assert found["apiserver_request_total POST configmaps 400"] == 1

    with_server(script)


@pytest.mark.parametrize(
    "item",
    [
        {"method": "GET", "path": f"{MAPS}?watch=true"},
        {"method": "DELETE", "path": MAPS},
        {"method": "POST", "path": REQUEST_BATCH.path(), "body": {"items": []}},
        {"method": "POST", "path": OBJECT_BATCH.path(), "body": {"items": []}},
        {"path": MAPS},
        7,
    ],
)
def test_what_cannot_be_joined_is_refused_before_anything_is_done(item: Any) -> None:
    async def script(rig: Rig) -> None:
        before = rig.store.revision
        code, _ = await send_joined(rig, {"method": "POST", "path": MAPS, "body": config_map("a")}, item)
        assert code == 400
        assert rig.store.revision == before

    with_server(script)
