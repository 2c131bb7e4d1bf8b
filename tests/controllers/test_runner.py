"""When a key is looked at again because of what came while, or after, it was looked at."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from hekla.api.kinds import CONFIG_MAP, Obj
from hekla.api.meta import Key, key_of, revision_of
from hekla.client.informer import Informer
from hekla.client.rest import Client
from hekla.client.transport import Answer
from hekla.controllers.runner import Reconcile, Runner, Tell
from hekla.errors import Conflict
from tests.apiserver.rig import Rig, config_map, with_server
from tests.integration.virtual_loop import run_virtually
from tests.transports import Disturbed

KEY = Key("default", "ours")
# Long beyond what a look takes on virtual time.
CALM_SECONDS = 60.0

Look = Callable[[Rig, Runner, Informer], Awaitable[None]]


async def write_and_hear_the_answer_first(rig: Rig, runner: Runner, informer: Informer) -> None:
    runner.wrote(KEY, informer, await create(rig))


async def write_and_hear_the_watch_first(rig: Rig, runner: Runner, informer: Informer) -> None:
    written = await create(rig)
    assert await informer.wait_for(revision_of(written), CALM_SECONDS)
    runner.wrote(KEY, informer, written)


async def write_beside_another(rig: Rig, runner: Runner, informer: Informer) -> None:
    written = await create(rig)
    changed = await rig.client.patch(CONFIG_MAP, KEY.name, {"data": {"a": "1"}}, KEY.namespace)
    assert await informer.wait_for(revision_of(changed), CALM_SECONDS)
    runner.wrote(KEY, informer, written)


async def write_before_another(rig: Rig, runner: Runner, informer: Informer) -> None:
    runner.wrote(KEY, informer, await create(rig))
    await rig.client.patch(CONFIG_MAP, KEY.name, {"data": {"a": "1"}}, KEY.namespace)


async def hear_of_another(rig: Rig, runner: Runner, informer: Informer) -> None:
    assert await informer.wait_for(revision_of(await create(rig)), CALM_SECONDS)


async def create(rig: Rig) -> Obj:
    return await rig.client.create(CONFIG_MAP, config_map(KEY.name))


@pytest.mark.parametrize(
    ("first", "looks"),
    [
        (write_and_hear_the_answer_first, 1),
        (write_and_hear_the_watch_first, 1),
        (write_beside_another, 2),
        (write_before_another, 2),
        (hear_of_another, 2),
    ],
)
def test_what_a_look_wrote_itself_brings_no_other_look(first: Look, looks: int) -> None:
    async def scenario(rig: Rig) -> None:
        done: list[Key] = []

        async def reconcile(key: Key) -> float | None:
            done.append(key)
            if len(done) == 1:
                await first(rig, runner, informer)
            return None

        runner = Runner("test", reconcile)
        informer = Informer(rig.client, CONFIG_MAP, rng=random.Random(0))
        informer.subscribe(lambda update: runner.enqueue_unless_written(key_of(update.obj), informer, update.obj))
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(informer.run()), tasks.create_task(runner.run())]
            await informer.synced()
            runner.enqueue(KEY)
            await asyncio.sleep(CALM_SECONDS)
            for task in running:
                task.cancel()
        assert len(done) == looks

    with_server(scenario)


async def look_for_a_while(reconcile: Reconcile) -> None:
    runner = Runner("test", reconcile)
    runner.enqueue(KEY)
    await run_for_a_while(runner)


async def run_for_a_while(runner: Runner) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(runner.run())
        await asyncio.sleep(CALM_SECONDS)
        running.cancel()


def test_a_server_that_asks_for_time_is_given_it() -> None:
    """As kube-apiserver asks when it has too much to do: in a header, beside a line of plain text."""
    looks: list[float] = []

    async def refuse(request: str) -> Answer | None:
        return Answer(429, {"Retry-After": "7"}, b"Too many requests, please try again later.\n")

    async def scenario(rig: Rig) -> None:
        client = Client(Disturbed(rig.client.transport, refuse))

        async def reconcile(key: Key) -> float | None:
            looks.append(rig.clock.monotonic())
            await client.get(CONFIG_MAP, key.name, key.namespace)
            return None

        await look_for_a_while(reconcile)

    with_server(scenario)
    assert [round(later - earlier) for earlier, later in pairwise(looks)] == [7] * 8


@pytest.mark.parametrize(("vanished", "warnings"), [(1, 0), (3, 2)])
def test_what_vanished_during_a_look_is_no_fault_unless_it_stays_so(
    vanished: int, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(rig: Rig) -> None:
        looks = 0

        async def reconcile(key: Key) -> float | None:
            nonlocal looks
            looks += 1
            if looks <= vanished:
                await rig.client.get(CONFIG_MAP, key.name, key.namespace)
            return None

        await look_for_a_while(reconcile)
        assert looks == vanished + 1

    with caplog.at_level(logging.WARNING, logger="hekla"):
        with_server(scenario)
    assert sum("reconcile failed" in record.message for record in caplog.records) == warnings


async def tell_well() -> None:
    pass


async def tell_of_what_has_changed() -> None:
    raise Conflict("it has changed")


@pytest.mark.parametrize(
    ("looks_asked_for", "tell", "done"),
    [
        (0, tell_well, ["told"]),
        (1, tell_well, ["looked"]),
        (0, tell_of_what_has_changed, ["told", "looked"]),
    ],
)
def test_what_a_look_left_to_be_told_is_told_unless_there_is_another_look(
    looks_asked_for: int, tell: Tell, done: list[str]
) -> None:
    async def work() -> list[str]:
        seen: list[str] = []

        async def reconcile(key: Key) -> float | None:
            seen.append("looked")
            return None

        async def note_and_tell() -> None:
            seen.append("told")
            await tell()

        runner = Runner("test", reconcile)
        runner.tell_last(KEY, note_and_tell)
        for _ in range(looks_asked_for):
            runner.enqueue(KEY)
        await run_for_a_while(runner)
        return seen

    assert run_virtually(work()) == done
