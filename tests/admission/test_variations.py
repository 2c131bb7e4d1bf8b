"""What is refused, and in which words: many objects given to a whole system one after the other.

`variations.yaml` holds them with the answer that upstream's rules give to each; an empty answer is a yes. What is let
in is deleted again before the next one, unless it is to `stay`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from hekla.api.kinds import CRON_JOB, JOB, JOB_FLOW, POD, POD_GROUP, QUEUE, Kind
from hekla.api.meta import name_of
from hekla.errors import ApiError
from tests.integration.world import World, in_world

VARIATIONS = yaml.safe_load((Path(__file__).parent / "variations.yaml").read_text())
KINDS = {kind.kind + kind.group: kind for kind in (JOB, CRON_JOB, JOB_FLOW, POD, POD_GROUP, QUEUE)}


def test_every_variation_is_answered_as_upstream_answers_it() -> None:
    assert answers() == [(shown(one), one["says"]) for one in VARIATIONS]


def answers() -> list[tuple[str, str]]:
    async def script(world: World) -> list[tuple[str, str]]:
        return [(shown(one), await answer(world, one)) for one in VARIATIONS]

    return in_world(script)[0]


async def answer(world: World, one: dict[str, Any]) -> str:
    obj = one["given"]
    kind = kind_of(obj)
    namespace = "default" if kind.namespaced else None
    if namespace:
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
    try:
        await world.client.create(kind, obj)
    except ApiError as error:
        return str(error)
    if not one.get("stays"):
        await world.client.delete(kind, name_of(obj), namespace, grace_seconds=0)
        await world.until(lambda: world.store.object(kind, name_of(obj), namespace or "") is None, "it is gone")
    elif kind is QUEUE:
        await world.until(lambda: is_open(world, name_of(obj)), "the queue is open")
    return ""


def is_open(world: World, queue: str) -> bool:
    found = world.store.object(QUEUE, queue) or {}
    return bool((found.get("status") or {}).get("state") == "Open")


def kind_of(obj: dict[str, Any]) -> Kind:
    return KINDS[obj["kind"] + obj["apiVersion"].rpartition("/")[0]]


def shown(one: dict[str, Any]) -> str:
    return json.dumps(one["given"].get("spec", one["given"]["metadata"]))
