"""Writes of the same moment in one request: each gets its own answer, and nobody is left waiting."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hekla.api.batches import BATCH_PATH, REQUEST_BATCH
from hekla.api.kinds import CONFIG_MAP, Obj
from hekla.client.joining import JoiningTransport
from hekla.client.rest import Client
from hekla.client.transport import Request
from hekla.errors import AlreadyExists, Disconnected, HeklaError, NotFound
from tests.apiserver.rig import Rig, config_map, with_server
from tests.transports import Counting, Disturbed

JOINED = f"POST {REQUEST_BATCH.path()}"
ASKED = f"GET {BATCH_PATH}"
ALONE = "POST /api/v1/namespaces/default/configmaps"


async def create(client: Client, *names: str) -> list[Obj | BaseException]:
    return await asyncio.gather(
        *(client.create(CONFIG_MAP, config_map(name)) for name in names), return_exceptions=True
    )


def test_writes_of_one_moment_go_together_and_each_has_its_answer() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map("taken"))
        line = Counting(rig.transport)
        client = Client(JoiningTransport(line))
        made, taken, patched, missing = await asyncio.gather(
            client.create(CONFIG_MAP, config_map("a")),
            client.create(CONFIG_MAP, config_map("taken")),
            client.patch(CONFIG_MAP, "taken", {"data": {"x": "2"}}, "default"),
            client.patch(CONFIG_MAP, "nothing", {"data": {"x": "2"}}, "default"),
            return_exceptions=True,
        )
        assert line.sent == [ASKED, JOINED]
        assert made == await rig.client.get(CONFIG_MAP, "a", "default")
        assert patched == await rig.client.get(CONFIG_MAP, "taken", "default")
        assert isinstance(patched, dict)
        assert patched["data"] == {"x": "2"}
        assert isinstance(taken, AlreadyExists)
        assert isinstance(missing, NotFound)

    with_server(script)


def test_a_write_without_company_goes_as_ever() -> None:
    async def script(rig: Rig) -> None:
        line = Counting(rig.transport)
        client = Client(JoiningTransport(line))
        for name in ("a", "b"):
            await client.create(CONFIG_MAP, config_map(name))
        assert line.sent == [ALONE, ALONE]

    with_server(script)


def test_a_server_that_knows_nothing_of_it_is_asked_once() -> None:
    async def script(rig: Rig) -> None:
        line = Counting(rig.transport, batches=False)
        client = Client(JoiningTransport(line))
        await create(client, "a", "b")
        await create(client, "c", "d")
        assert line.sent == [ASKED, ALONE, ALONE, ALONE, ALONE]

    with_server(script)


def test_so_many_go_together_that_the_server_is_never_given_all_at_once() -> None:
    async def script(rig: Rig) -> None:
        line = Counting(rig.transport)
        client = Client(JoiningTransport(line))
        await create(client, "first", "second")
        assert not [
            each for each in await create(client, *(f"n{number}" for number in range(40))) if "metadata" not in each
        ]
        assert line.sent[2:] == [JOINED] * 3
        assert line.most_in_flight == 3

    with_server(script)


def test_when_the_answer_is_lost_everybody_hears_of_it() -> None:
    async def lose(request: str) -> None:
        if request == JOINED:
            raise Disconnected("the answer was lost")

    async def script(rig: Rig) -> None:
        client = Client(JoiningTransport(Disturbed(rig.transport, after=lose)))
        answers = await create(client, "a", "b", "c")
        assert [str(each) for each in answers] == ["the answer was lost"] * 3
        assert len(await rig.client.find_all(CONFIG_MAP, "default")) >= 3

    with_server(script)


def test_who_is_cancelled_takes_nobody_elses_answer_along() -> None:
    async def script(rig: Rig) -> None:
        reached, go = asyncio.Event(), asyncio.Event()

        async def hold(request: str) -> None:
            if request == JOINED:
                reached.set()
                await go.wait()

        client = Client(JoiningTransport(Disturbed(rig.transport, before=hold)))
        first, second = (asyncio.create_task(client.create(CONFIG_MAP, config_map(name))) for name in ("a", "b"))
        await reached.wait()
        first.cancel()
        await asyncio.wait([first])
        go.set()
        assert (await second)["metadata"]["name"] == "b"
        assert first.cancelled()
        assert len(await create(client, "c", "d")) == 2

    with_server(script)


def test_a_client_that_is_closed_leaves_nobody_waiting() -> None:
    async def script(rig: Rig) -> None:
        reached = asyncio.Event()

        async def hold(request: str) -> None:
            if request == JOINED:
                reached.set()
                await asyncio.Event().wait()

        transport = JoiningTransport(Disturbed(rig.transport, before=hold))
        writes = [asyncio.create_task(Client(transport).create(CONFIG_MAP, config_map(name))) for name in ("a", "b")]
        await reached.wait()
        await transport.close()
        for write in writes:
            with pytest.raises(HeklaError, match="was closed"):
                await write

    with_server(script)


def test_too_many_at_once_are_refused() -> None:
    async def script(rig: Rig) -> None:
        item = {"method": "POST", "path": CONFIG_MAP.path("default"), "body": config_map("a")}
        body = msgspec.json.encode({"items": [item] * 65})
        answer = await rig.transport.send(Request("POST", REQUEST_BATCH.path(), body))
        assert answer.status == 400
        assert b"65 requests, at most 64 are taken" in answer.body

    with_server(script)
