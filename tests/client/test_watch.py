"""Following a kind across a server that cuts its streams, whole or cut down to a view."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, TypedDict

import msgspec
import pytest

from hekla.api.kinds import CONFIG_MAP, Obj
from hekla.api.meta import name_of, revision_of
from hekla.client.informer import Informer, Update
from hekla.client.inprocess import InProcessTransport, Message
from hekla.client.partial import follow_partly
from hekla.client.rest import Client
from hekla.client.transport import Answer, Request, StreamedAnswer
from hekla.client.watch import follow, watch_many
from hekla.errors import Expired, Forbidden, TooManyRequests
from tests.apiserver.rig import WIDGET, Rig, config_map, soon, with_server
from tests.transports import Cutting, Disturbed, refusal

_Receive = Callable[[], Awaitable[Message]]
_Send = Callable[[Message], Awaitable[None]]


def test_a_watch_that_is_cut_again_and_again_loses_nothing_and_never_lists_again() -> None:
    async def scenario(rig: Rig) -> None:
        cutting = Cutting(rig.client.transport, after=700)
        heard: list[str] = []

        def note(update: Update) -> None:
            heard.append(name_of(update.obj) + ("" if update.new is not None else " gone"))

        informer = Informer(Client(cutting), CONFIG_MAP, rng=random.Random(1))
        informer.subscribe(note)
        task = asyncio.create_task(informer.run())
        await informer.synced()
        for number in range(20):
            await rig.client.create(CONFIG_MAP, config_map(f"c{number}"))
        await rig.client.delete(CONFIG_MAP, "c7", "default")
        await soon(lambda: len(heard) == 21)
        task.cancel()
        assert heard == [*[f"c{number}" for number in range(20)], "c7 gone"]
        assert cutting.lists == 1
        assert cutting.streams > 5

    with_server(scenario)


def test_a_watch_that_falls_silent_is_given_up_in_time_and_nothing_is_lost() -> None:
    async def scenario(rig: Rig) -> None:
        silent: list[str] = []

        async def serve(scope: Message, receive: _Receive, send: _Send) -> None:
            if b"watch=true" not in scope["query_string"] or silent:
                await rig.app(scope, receive, send)
                return
            silent.append(scope["path"])
            await send({"type": "http.response.start", "status": 200})
            await asyncio.Event().wait()

        informer = Informer(Client(InProcessTransport(serve)), CONFIG_MAP, rng=random.Random(1))
        task = asyncio.create_task(informer.run())
        await informer.synced()
        made = await rig.client.create(CONFIG_MAP, config_map("unheard"))
        assert await informer.wait_for(revision_of(made), 400)
        assert silent
        task.cancel()

    with_server(scenario)


class _Named(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str


class NameOnly(TypedDict, total=False):
    metadata: _Named


class _Word(TypedDict, total=False):
    word: Literal["first", "second"]


class WordView(TypedDict, total=False):
    metadata: _Named
    data: _Word
    status: _Word


def test_with_a_view_the_copy_holds_what_it_names_and_nothing_else() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map("listed"))
        informer = Informer(rig.client, CONFIG_MAP, view=NameOnly)
        task = asyncio.create_task(informer.run())
        await informer.synced()
        made = await rig.client.create(CONFIG_MAP, config_map("watched"))
        assert await informer.wait_for(int(made["metadata"]["resourceVersion"]), 60)
        task.cancel()
        kept: dict[str, Obj] = {name_of(obj): obj for obj in informer.all()}
        assert set(kept) == {"listed", "watched"}
        assert all(
            set(obj["metadata"]) == {"name", "namespace", "uid", "resourceVersion"} and "data" not in obj
            for obj in kept.values()
        )

    with_server(scenario)


def test_a_copy_for_telling_alone_holds_who_is_who_and_nothing_else() -> None:
    async def scenario(rig: Rig) -> None:
        made = await rig.client.create(CONFIG_MAP, {**config_map("one"), "data": {"word": "first"}})
        informer, told = Informer(rig.client, CONFIG_MAP, only_told=True), asyncio.Queue[Update]()
        informer.subscribe(told.put_nowait)
        task = asyncio.create_task(informer.run())
        listed = await told.get()
        await rig.client.update(CONFIG_MAP, {**made, "data": {"word": "second"}})
        watched = await told.get()
        assert [update.obj["data"]["word"] for update in (listed, watched)] == ["first", "second"]
        (kept,) = informer.all()
        assert set(kept) == {"metadata"}
        assert set(kept["metadata"]) == {"name", "namespace", "uid", "resourceVersion"}
        await rig.client.delete(CONFIG_MAP, "one", "default")
        assert (await told.get()).new is None
        task.cancel()

    with_server(scenario)


def test_an_error_in_a_watch_keeps_its_meaning_with_a_view() -> None:
    async def scenario(rig: Rig) -> None:
        for view in (NameOnly, WordView):
            stream = watch_many(rig.client, CONFIG_MAP, resource_version="1", view=view)
            with pytest.raises(Expired):
                await anext(stream)

    with_server(scenario, keep_changes=1)


def test_an_object_that_does_not_fit_the_view_is_left_out_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, {**config_map("listed"), "data": {"word": "third"}})
        informer = Informer(rig.client, CONFIG_MAP, view=WordView)
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.synced(), 5)
        await rig.client.create(CONFIG_MAP, {**config_map("odd"), "data": {"word": "third"}})
        await rig.client.patch(CONFIG_MAP, "odd", {"data": {"word": "fourth"}}, "default")
        made = await rig.client.create(CONFIG_MAP, {**config_map("right"), "data": {"word": "first"}})
        assert await informer.wait_for(int(made["metadata"]["resourceVersion"]), 5)
        task.cancel()
        assert {name_of(obj) for obj in informer.all()} & {"listed", "odd", "right"} == {"right"}

    with_server(scenario)
    assert (caplog.text.count("name=odd "), caplog.text.count("name=listed ")) == (1, 1), caplog.text


def test_an_object_that_no_longer_fits_the_view_stays_as_it_was_until_it_is_deleted() -> None:
    async def scenario(rig: Rig) -> None:
        informer = Informer(rig.client, CONFIG_MAP, view=WordView)
        await rig.client.create(CONFIG_MAP, {**config_map("c"), "data": {"word": "first"}})
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.synced(), 5)
        await rig.client.patch(CONFIG_MAP, "c", {"data": {"word": "third"}}, "default")
        listed = await rig.client.list(CONFIG_MAP, view=WordView)
        informer._replace(listed.items, listed.odd)
        kept = informer.get("c", "default")
        assert kept is not None
        assert kept["data"] == {"word": "first"}
        await rig.client.delete(CONFIG_MAP, "c", "default")
        await soon(lambda: informer.get("c", "default") is None)
        task.cancel()

    with_server(scenario)


class Expiring(Cutting):
    """Whatever revision a watch starts from is gone."""

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedAnswer]:
        refused = refusal(Expired("gone"))
        yield StreamedAnswer(refused.status, {}, _none(), refused.body)


async def _none() -> AsyncIterator[bytes]:
    for chunk in ():
        yield chunk


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Form(msgspec.Struct):
    metadata: _Meta


@pytest.mark.parametrize("partly", [False, True])
def test_a_server_that_forgets_every_revision_at_once_is_not_asked_without_pause(partly: bool) -> None:
    async def scenario(rig: Rig) -> None:
        expiring = Expiring(rig.client.transport, after=0)
        client, rng = Client(expiring), random.Random(1)
        news = follow_partly(client, CONFIG_MAP, _Form, rng=rng) if partly else follow(client, CONFIG_MAP, rng=rng)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                while expiring.lists < 100:
                    await anext(news)
        assert 3 < expiring.lists < 12

    with_server(scenario)


@pytest.mark.parametrize("partly", [False, True])
def test_a_kind_that_is_served_at_last_is_seen_within_moments(partly: bool) -> None:
    """Controllers that were up before the CRDs were installed saw them ten seconds late, one kind after the other."""

    async def scenario(rig: Rig) -> None:
        rng = random.Random(1)
        news = follow_partly(rig.client, WIDGET, _Form, rng=rng) if partly else follow(rig.client, WIDGET, rng=rng)
        first = asyncio.create_task(anext(news))
        await asyncio.sleep(120)
        await rig.define_widgets()
        await asyncio.wait_for(first, 2.0)

    with_server(scenario)


def test_who_may_not_read_a_kind_says_so_once_with_the_remedy_and_goes_on_trying(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(rig: Rig) -> None:
        allowed = asyncio.Event()

        async def refuse(_: str) -> Answer | None:
            return None if allowed.is_set() else refusal(Forbidden("configmaps is forbidden"))

        news = follow(Client(Disturbed(rig.client.transport, refuse)), CONFIG_MAP, rng=random.Random(1))
        first = asyncio.create_task(anext(news))
        await asyncio.sleep(600)
        allowed.set()
        await first

    with_server(scenario)
    (told,) = [record.message for record in caplog.records if "cannot be read" in record.message]
    assert "kind=configmaps error='configmaps is forbidden: `hekla install` gives" in told


def test_a_server_that_says_when_to_come_again_is_asked_about_then() -> None:
    """kube-apiserver refuses a new kind, while it makes ready for it, and says for how long at most."""

    async def scenario(rig: Rig) -> None:
        asked: list[float] = []

        async def refuse(request: str) -> Answer | None:
            asked.append(rig.clock.monotonic())
            return (
                refusal(TooManyRequests("making ready", details={"retryAfterSeconds": 1})) if len(asked) < 20 else None
            )

        news = follow(Client(Disturbed(rig.client.transport, refuse)), CONFIG_MAP, rng=random.Random(1))
        await asyncio.wait_for(anext(news), 40)
        pauses = [after - before for before, after in itertools.pairwise(asked)]
        assert pauses[0] < 0.1
        assert 0.5 <= min(pauses[6:]) <= max(pauses[6:]) <= 1.5

    with_server(scenario)
