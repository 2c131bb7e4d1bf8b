"""Objects that Jobs own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hekla.api.kinds import JOB, SERVICE, Kind, Obj
from hekla.api.meta import owner_reference
from hekla.controllers.belongings import Belongings, Lost
from tests import make
from tests.integration.stage import Stage, perform
from tests.transports import Counting

OWNER = make.job("demo")


def service(name: str, *, owned: bool = True) -> Obj:
    owners = [owner_reference(OWNER, JOB)] if owned else []
    meta = {"name": name, "namespace": "default", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "None"}}


@asynccontextmanager
async def running(belongings: Belongings) -> AsyncIterator[None]:
    task = asyncio.create_task(belongings.run())
    await asyncio.sleep(1)
    yield
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])


def told(lost: list[Lost]) -> list[tuple[Kind, str, str, str]]:
    return [(one.kind, one.name, str(one.job), one.job_uid) for one in lost]


def test_only_what_a_job_owned_is_missed_whether_its_going_was_seen_or_not() -> None:
    stage = Stage()

    async def main() -> None:
        await stage.open_server()
        transport = Counting(stage.client.transport)
        belongings, lost = Belongings(stage.client.through(transport), SERVICE, stage.rng), list[Lost]()
        belongings.subscribe(lost.append)
        for name in ("seen", "unseen", "replaced", "kept"):
            await stage.client.create(SERVICE, service(name))
        await stage.client.create(SERVICE, service("of-nobody", owned=False))
        async with running(belongings):
            await stage.client.delete(SERVICE, "seen", "default")
            await stage.client.delete(SERVICE, "of-nobody", "default")
        assert told(lost) == [(SERVICE, "seen", "default/demo", OWNER["metadata"]["uid"])]
        # As after a watch that fell too far behind: there is a new list.
        await stage.client.delete(SERVICE, "unseen", "default")
        await stage.client.delete(SERVICE, "replaced", "default")
        await stage.client.create(SERVICE, service("replaced", owned=False))
        async with running(belongings):
            assert sorted(one.name for one in lost) == ["replaced", "seen", "unseen"]
        assert len(transport.sent) == 2

    perform(main)
