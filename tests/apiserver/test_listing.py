"""Lists: pages that agree with each other, revisions of the past and of the future."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.kinds import CONFIG_MAP, NAMESPACE, POD
from hekla.errors import BadRequest, Expired, Timeout
from tests.apiserver.rig import Rig, config_map, pod, with_server

MAPS = "/api/v1/namespaces/default/configmaps"


def test_pages_show_one_moment_however_long_they_take() -> None:
    async def script(rig: Rig) -> None:
        for name in "abcde":
            await rig.client.create(CONFIG_MAP, config_map(name))
        first = await rig.client.list(CONFIG_MAP, "default", limit=2)
        await rig.client.delete(CONFIG_MAP, "d", "default")
        await rig.client.create(CONFIG_MAP, config_map("c1"))
        rest, token = [], first.continue_token
        while token:
            page = await rig.client.list(CONFIG_MAP, "default", limit=2, continue_token=token)
            assert page.resource_version == first.resource_version
            rest += page.items
            token = page.continue_token
        assert [each["metadata"]["name"] for each in first.items + rest] == list("abcde")

    with_server(script)


def test_a_page_of_a_time_long_gone_is_expired() -> None:
    async def script(rig: Rig) -> None:
        for name in "abc":
            await rig.client.create(CONFIG_MAP, config_map(name))
        first = await rig.client.list(CONFIG_MAP, "default", limit=1)
        for number in range(10):
            await rig.client.create(CONFIG_MAP, config_map(f"z{number}"))
        with pytest.raises(Expired) as caught:
            await rig.client.list(CONFIG_MAP, "default", limit=1, continue_token=first.continue_token)
        page = await rig.client.list(CONFIG_MAP, "default", continue_token=caught.value.details["continue"])
        assert page.items[0]["metadata"]["name"] == "b"

    with_server(script, keep_changes=5)


def test_a_list_is_of_one_namespace_or_of_all() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "other"}})
        await rig.client.create(CONFIG_MAP, config_map())
        await rig.client.create(CONFIG_MAP, {"metadata": {"name": "b", "namespace": "other"}})
        assert len((await rig.client.list(CONFIG_MAP)).items) == 2
        assert len((await rig.client.list(CONFIG_MAP, "other")).items) == 1

    with_server(script)


def test_selectors_choose() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        await rig.client.create(POD, pod("q"))
        await rig.client.bind("default", "p", "n", uid=made["metadata"]["uid"])
        for selector, names in (
            ("spec.nodeName=n", ["p"]),
            ("spec.nodeName!=n", ["q"]),
            ("status.phase=Pending", ["p", "q"]),
        ):
            found = await rig.client.list(POD, field_selector=selector)
            assert [each["metadata"]["name"] for each in found.items] == names
        with pytest.raises(BadRequest, match=r"field label not supported: spec\.foo"):
            await rig.client.list(POD, field_selector="spec.foo=1")
        with pytest.raises(BadRequest):
            await rig.client.list(POD, label_selector="a in (b")

    with_server(script)


def test_a_revision_of_the_future_is_waited_for_and_then_given_up() -> None:
    async def script(rig: Rig) -> None:
        coming = asyncio.create_task(rig.client.list(CONFIG_MAP, resource_version=str(rig.store.revision + 1)))
        await asyncio.sleep(0.5)
        await rig.client.create(CONFIG_MAP, config_map())
        assert len((await coming).items) == 1
        started = rig.clock.monotonic()
        with pytest.raises(Timeout, match="Too large resource version"):
            await rig.client.list(CONFIG_MAP, resource_version="99999")
        assert rig.clock.monotonic() - started == pytest.approx(3.0)

    with_server(script)


def test_the_past_can_be_listed_exactly() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        then = rig.store.revision
        await rig.client.delete(CONFIG_MAP, "a", "default")
        _, answer, _ = await rig.send("GET", f"{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")
        assert [each["metadata"]["name"] for each in answer["items"]] == ["a"]

    with_server(script)


@pytest.mark.parametrize(
    "query", ["limit=abc", "resourceVersion=abc", "resourceVersion=%C2%B2", "continue=abc", "labelSelector=a,,b"]
)
def test_queries_that_make_no_sense_are_bad_requests(query: str) -> None:
    async def script(rig: Rig) -> None:
        assert (await rig.send("GET", f"{MAPS}?{query}"))[0] == 400

    with_server(script)
