"""A verb that is meant for one object never acts on another, or on all of them."""

from __future__ import annotations

import pytest

from hekla.api.kinds import CONFIG_MAP
from hekla.api.meta import name_of
from hekla.client.rest import Client
from hekla.errors import BadRequest
from tests.apiserver.rig import Rig, config_map, with_server


@pytest.mark.parametrize("name", ["", ".", "..", "one/status", "../configmaps/one", "one%2Fstatus"])
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_is_done(name: str) -> None:
    async def script(rig: Rig) -> None:
        client = Client(rig.transport)
        for each in ("one", "two"):
            await client.create(CONFIG_MAP, config_map(each))
        before = (await client.list(CONFIG_MAP, "default")).items
        with pytest.raises(BadRequest, match="configmaps: the name may not"):
            await client.delete(CONFIG_MAP, name, "default")
        with pytest.raises(BadRequest, match="configmaps: the name may not"):
            await client.patch(CONFIG_MAP, name, {"data": {"changed": "yes"}}, "default")
        with pytest.raises(BadRequest, match="configmaps: the name may not"):
            await client.get(CONFIG_MAP, name, "default")
        with pytest.raises(BadRequest, match="configmaps: the name may not"):
            await client.update(CONFIG_MAP, config_map(name))
        assert (await client.list(CONFIG_MAP, "default")).items == before

    with_server(script)


def test_what_would_end_a_path_is_a_part_of_the_name() -> None:
    async def script(rig: Rig) -> None:
        client = Client(rig.transport)
        await client.create(CONFIG_MAP, config_map("one"))
        for name in ("one?dryRun=All", "one#two", "one two"):
            assert await client.find(CONFIG_MAP, name, "default") is None
        assert name_of(await client.get(CONFIG_MAP, "one", "default")) == "one"

    with_server(script)
