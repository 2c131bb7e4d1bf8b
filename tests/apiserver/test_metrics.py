"""The figures at /metrics are those of this server, and true."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from hekla.api.batches import OBJECT_BATCH
from hekla.api.kinds import CONFIG_MAP
from hekla.client.watch import watch
from tests.apiserver.rig import Rig, config_map, soon, with_server


async def figures(rig: Rig) -> dict[str, float]:
    """Every sample, by its name and the values of its labels."""
    code, text, headers = await rig.send("GET", "/metrics")
    assert code == 200
    assert headers["content-type"].startswith("text/plain")
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    labels = ("verb", "resource", "code")
    return {
        " ".join([each.name, *(each.labels[name] for name in labels if name in each.labels)]): each.value
        for each in samples
    }


def test_requests_are_counted_by_verb_resource_and_answer() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        await rig.client.list(CONFIG_MAP)
        await rig.client.find(CONFIG_MAP, "nothing", "default")
        await rig.send("GET", "/nothing/of/ours")
        await rig.send("POST", OBJECT_BATCH.path(), {"items": []})
        found = await figures(rig)
        assert found["apiserver_request_total POST configmaps 201"] == 1
        assert found["apiserver_request_total LIST configmaps 200"] == 1
        assert found["apiserver_request_total GET configmaps 404"] == 1
        assert found["apiserver_request_total   404"] == 1, "what is no resource adds no label of its own"
        assert found["apiserver_request_total POST objectbatches 200"] == 1
        assert found["apiserver_request_duration_seconds_count POST"] == 2

    with_server(script)


def test_the_store_and_open_watches_are_told() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        seen = asyncio.Event()

        async def listen() -> None:
            async for _ in watch(rig.client, CONFIG_MAP, resource_version="0"):
                seen.set()

        task = asyncio.create_task(listen())
        await soon(seen.is_set)
        found = await figures(rig)
        assert found["hekla_store_revision"] == rig.store.revision
        assert found["apiserver_storage_objects configmaps"] == 1
        assert found["apiserver_longrunning_requests WATCH configmaps"] == 1
        task.cancel()
        await asyncio.wait([task])
        assert (await figures(rig))["apiserver_longrunning_requests WATCH configmaps"] == 0

    with_server(script)
