"""What is done while `hekla run` follows its job: the following is ended when there is nothing to wait for.

When that is so is for `hopeless.py` and `room.py` to say.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import POD, Obj
from hekla.api.reasons import Reason
from hekla.cli.connection import Connection
from hekla.cli.hopeless import Hopeless
from hekla.cli.private_cluster import completion
from hekla.cli.progress import stuck_reason, unstartable_reason
from hekla.errors import ApiError, Disconnected, UsageError
from hekla.local.layout import Layout
from hekla.local.running import inspect

if TYPE_CHECKING:
    from hekla.client.rest import Client
    from hekla.local.launch import LaunchedCluster

_LOOK_SECONDS = 0.25
_MEASURE_SECONDS = 60.0  # until a cluster is looked at again that was large enough


class Attendant:
    """Cancels the following; why is told by `broken`, else `missing`, else `hopeless`."""

    def __init__(self, connection: Connection, private: LaunchedCluster | None) -> None:
        self._connection = connection
        self._private = private
        self.hopeless = Hopeless(time.monotonic)
        self.missing = ""
        """What the whole of a cluster lacks for the job."""
        self.broken: UsageError | None = None
        """Why a private cluster could not be completed."""

    async def attend(self, following: asyncio.Task[Obj], client: Client, job: Obj) -> None:
        if self._private:
            await self._attend_private(following, self._private, client)
        elif (local := self._connection.local_layout()) and inspect(local.root):
            await self._measure(following, client, job, local)

    async def _attend_private(self, following: asyncio.Task[Obj], private: LaunchedCluster, client: Client) -> None:
        """See a private cluster through its start. After that nobody will make room on it or bring what is missing: do
        not wait for ever."""
        try:
            await completion(private)
        except UsageError as error:
            self.broken = error
            following.cancel()
            return
        self.hopeless.count_from_now()
        they_run = False
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self.hopeless.for_long():
                continue
            ran_before, they_run = they_run, await others_run(client)
            if not they_run and not ran_before:
                following.cancel()
                return
            # Other pods of the file will make room, or have just made it.
            self.hopeless.count_from_now()

    async def _measure(self, following: asyncio.Task[Obj], client: Client, job: Obj, local: Layout) -> None:
        """On a local cluster that stays others make room, but never more than it has."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.hopeless.for_long() and self.hopeless.code == Reason.NOT_ENOUGH_RESOURCES:
                # Brings the scheduler with it, which few runs need.
                from hekla.cli.room import missing_room

                self.missing = await missing_room(client, job, local)
                if self.missing:
                    following.cancel()
                    return
                await asyncio.sleep(_MEASURE_SECONDS)


async def others_run(client: Client) -> bool:
    """Whether anything runs, or is about to, or that cannot be known now. Asked when nothing of our job does."""
    try:
        listed = await client.list(POD)
    except (ApiError, Disconnected):
        return True
    pods = [pod for pod in listed.items if (pod.get("spec") or {}).get("nodeName")]
    alive = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in FINISHED_POD_PHASES]
    return any(not stuck_reason([pod])[0] and not unstartable_reason(pod)[0] for pod in alive)
