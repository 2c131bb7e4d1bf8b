"""Following a kind by a form: everything in parts, then changes; what does not fit the form is left out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Literal

import msgspec

from hekla.api.kinds import CONFIG_MAP, Obj
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client import partial
from hekla.client.inprocess import InProcessTransport
from hekla.client.partial import Listed, Moved, follow_partly
from hekla.client.rest import Client
from hekla.clock import SystemClock


class Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str = ""


class Data(msgspec.Struct):
    word: Literal["", "first", "second"] = ""


class ConfigForm(msgspec.Struct):
    metadata: Metadata
    data: Data = msgspec.field(default_factory=Data)


def config(name: str, word: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"word": word, "other": "x"}}


async def serve() -> Client:
    clock = SystemClock()
    app = build_app(MemoryStore(clock), clock=clock, rng=random.Random(0))
    await app.start()
    return Client(InProcessTransport(app))


async def whole_list(news: AsyncIterator[Listed[ConfigForm] | Moved[ConfigForm]]) -> list[list[str]]:
    parts = []
    while True:
        part = await anext(news)
        assert isinstance(part, Listed)
        assert part.first == (not parts)
        parts.append([item.metadata.name for item in part.items])
        if part.last:
            return parts


def test_all_comes_in_parts_and_then_every_change() -> None:
    async def main() -> None:
        client = await serve()
        before = len((await client.list(CONFIG_MAP)).items)
        for number in range(partial._PAGE + 1 - before):
            await client.create(CONFIG_MAP, config(f"c{number}", "first"))
        news = follow_partly(client, CONFIG_MAP, ConfigForm, rng=random.Random(0))
        parts = await whole_list(news)
        assert [len(part) for part in parts] == [partial._PAGE, 1]
        await client.patch(CONFIG_MAP, "c0", {"data": {"word": "second"}}, "default")
        await client.delete(CONFIG_MAP, "c1", "default")
        seen: list[tuple[str, str, str]] = []
        while len(seen) < 2:
            moved = await anext(news)
            assert isinstance(moved, Moved)
            seen += [(str(type_), item.metadata.name, item.data.word) for type_, item in moved.changes]
        assert seen == [("MODIFIED", "c0", "second"), ("DELETED", "c1", "first")]

    asyncio.run(main())


def test_what_does_not_fit_the_form_is_left_out_and_the_rest_goes_on() -> None:
    async def main() -> None:
        client = await serve()
        await client.create(CONFIG_MAP, config("odd", "third"))
        await client.create(CONFIG_MAP, config("right", "first"))
        news = follow_partly(client, CONFIG_MAP, ConfigForm, rng=random.Random(0))
        (names,) = await whole_list(news)
        assert "right" in names
        assert "odd" not in names
        await client.patch(CONFIG_MAP, "odd", {"data": {"word": "fourth"}}, "default")
        await client.create(CONFIG_MAP, config("late", "second"))
        moved = await anext(news)
        assert isinstance(moved, Moved)
        assert [item.metadata.name for _, item in moved.changes] == ["late"]

    asyncio.run(main())


def test_what_does_not_fit_the_form_is_told_as_there_and_as_deleted_by_its_metadata() -> None:
    async def main() -> None:
        client = await serve()
        await client.create(CONFIG_MAP, config("odd", "third"))
        news = follow_partly(client, CONFIG_MAP, ConfigForm, rng=random.Random(0))
        page = await anext(news)
        assert isinstance(page, Listed)
        assert [item.metadata.name for item in page.odd] == ["odd"]
        await client.delete(CONFIG_MAP, "odd", "default")
        moved = await anext(news)
        assert isinstance(moved, Moved)
        assert [(str(type_), item.metadata.name) for type_, item in moved.changes] == [("DELETED", "odd")]

    asyncio.run(main())
