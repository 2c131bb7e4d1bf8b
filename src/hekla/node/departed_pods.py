"""Clearing away the folders of pods whose node is gone: `--nodes 3` yesterday, `--nodes 1` today.

What ran in them was ended when the cluster started. Records and logs stay, as for any pod, until its object goes; but
no agent of that name is there to hear of it, so one of another name does (where there is none, with `--nodes 0`, the
next start's). Where no such folder is, nothing is watched.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hekla.api.kinds import POD
from hekla.api.meta import uid_of
from hekla.client.informer import Informer
from hekla.client.rest import Client
from hekla.log import get_logger
from hekla.node.cleanup import end_pod
from hekla.node.directory import all_pods
from hekla.node.patience import Patience

log = get_logger("node")


@dataclass
class _Left:
    """What is still there after a look."""

    nodes: set[str] = field(default_factory=set)  # those whose pods are wanted, or not known yet
    failed: bool = False  # something could not be read, or would not go


class DepartedPods:
    """`is_departed` says of a node's name whether its folders may go; `looked` is called when some may have gone."""

    def __init__(
        self,
        client: Client,
        data_dir: Path,
        is_departed: Callable[[str], bool],
        looked: Callable[[], None],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._data_dir = data_dir
        self._is_departed = is_departed
        self._looked = looked
        self._rng = rng
        self._pods: dict[str, Informer] = {}  # by node
        self._patience = Patience()

    async def run(self) -> None:
        """Until nothing of them is left, or cancelled."""
        async with asyncio.TaskGroup() as tasks:
            following: list[asyncio.Task[None]] = []
            while True:
                wanted = {node: {uid_of(pod) for pod in pods.all()} for node, pods in self._pods.items()}
                left = await asyncio.to_thread(self._clear, wanted)
                self._looked()
                if not left.nodes and not left.failed:
                    break
                unknown = left.nodes - wanted.keys()
                for node in unknown:
                    following.append(tasks.create_task(self._pods_of(node).run()))
                    await self._pods[node].synced()
                if not unknown:
                    await self._patience.wait(failed=left.failed)
            for task in following:
                task.cancel()

    def _pods_of(self, node: str) -> Informer:
        pods = Informer(self._client, POD, field_selector=f"spec.nodeName={node}", rng=self._rng)
        pods.subscribe(lambda _: self._patience.wake())
        self._pods[node] = pods
        return pods

    def _clear(self, wanted: Mapping[str, Collection[str]]) -> _Left:
        """`wanted` are the uids of the pods of each node that is known about."""
        left = _Left()
        try:
            directories = all_pods(self._data_dir)
        except OSError as error:
            log.warning("folders of pods not looked at", error=error)
            return _Left(failed=True)
        for directory in directories:
            try:
                node = str(directory.owner().get("node", ""))
                if not self._is_departed(node):
                    continue
                if node not in wanted or directory.uid in wanted[node]:
                    left.nodes.add(node)
                else:
                    log.info("clearing away a pod whose node is gone", uid=directory.uid)
                    end_pod(directory)
            except OSError as error:
                # What one folder refuses concerns no other, and nobody's work here depends on it.
                log.warning("folder not cleared away", uid=directory.uid, error=error)
                left.failed = True
        return left
