"""Events go an hour after they were last written."""

from __future__ import annotations

import asyncio

from hekla.api.kinds import EVENT
from hekla.api.meta import timestamp
from hekla.apiserver.expiry import expire_events
from tests.apiserver.rig import Rig, with_server


def test_old_events_go_and_recent_ones_stay() -> None:
    async def script(rig: Rig) -> None:
        expiring = asyncio.create_task(expire_events(rig.store, rig.clock))
        for name in ("once", "again"):
            involved = {"kind": "Pod", "name": "p", "namespace": "default"}
            await rig.client.create(
                EVENT, {"metadata": {"name": name, "namespace": "default"}, "involvedObject": involved}
            )
        await asyncio.sleep(1800)
        await rig.client.patch(EVENT, "again", {"lastTimestamp": timestamp(rig.clock.now())}, "default")
        await asyncio.sleep(1900)
        assert [each["metadata"]["name"] for each in await rig.client.find_all(EVENT)] == ["again"]
        await asyncio.sleep(1800)
        assert await rig.client.find_all(EVENT) == []
        expiring.cancel()

    with_server(script)
