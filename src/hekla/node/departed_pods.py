"""Clearing away the folders of pods whose node is gone: `--nodes 3` yesterday, `--nodes 1` today.

What ran in them was ended when the cluster started. Records and logs stay, as for any pod, until its object goes; but
no agent of that name is there to hear of it. Where no such folder is, nothing is watched.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from pathlib import Path

from hekla.api.kinds import POD
from hekla.api.meta import uid_of
from hekla.client.informer import Informer
from hekla.client.rest import Client
from hekla.log import get_logger
from hekla.node.cleanup import end_pod
from hekla.node.directory import PodDirectory, all_pods

log = get_logger("node")


class DepartedPods:
    """`present` are all nodes that share the data directory; `cleared` is called when folders may have gone."""

    def __init__(
        self,
        client: Client,
        data_dir: Path,
        present: Collection[str],
        cleared: Callable[[], None],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._data_dir = data_dir
        self._present = present
        self._cleared = cleared
        self._rng = rng

    async def run(self) -> None:
        """Until nothing of them is left, or cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for node in await asyncio.to_thread(self._departed):
                tasks.create_task(self._see_off(node))

    def _departed(self) -> set[str]:
        owners = {str(directory.owner().get("node", "")) for directory in all_pods(self._data_dir)}
        # A folder that does not say whose it is belongs to whoever looks first at its start.
        return owners - {"", *self._present}

    async def _see_off(self, node: str) -> None:
        pods = Informer(self._client, POD, field_selector=f"spec.nodeName={node}", rng=self._rng)
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(pods.run())
            await pods.synced()
            pods.subscribe(lambda _: changed.set())
            while await asyncio.to_thread(self._clear, node, {uid_of(pod) for pod in pods.all()}):
                self._cleared()
                await changed.wait()
                changed.clear()
            self._cleared()
            following.cancel()

    def _clear(self, node: str, wanted: Collection[str]) -> bool:
        """Whether anything of that node's pods is left."""
        left = False
        for directory in all_pods(self._data_dir):
            if directory.owner().get("node") != node:
                continue
            if directory.uid in wanted or not _end(directory):
                left = True
        return left


def _end(directory: PodDirectory) -> bool:
    log.info("clearing away a pod whose node is gone", uid=directory.uid)
    try:
        end_pod(directory)
    except OSError as error:
        # It is tried again with the next pod that goes; nobody's work here depends on it.
        log.warning("folder not cleared away", uid=directory.uid, error=error)
        return False
    return True
