"""Volumes for pods that have a node: what a plan chose for their claims is written, and waited for.

A volume that is there is given to its claim by the reference kube-controller-manager completes; for one that has to be
made, the claim is told the node, and whoever makes volumes of its class takes it from there. The pods keep their room
meanwhile. Everything written can be seen by the next scheduler, so that one that is killed here leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hekla.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, Obj
from hekla.api.meta import Key
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import ApiError, Disconnected
from hekla.log import get_logger
from hekla.scheduler.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, Claim, ClaimChoice, Volume
from hekla.scheduler.storagetable import StorageTable

log = get_logger("scheduler")

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class _Wait:
    choices: Mapping[Key, ClaimChoice]  # by claim
    timer: asyncio.TimerHandle
    unbound: set[Key]
    written: bool = False
    told: set[Key] = field(default_factory=set)  # claims that were seen to know their node


class VolumeBinding:
    """`bound` is told the number of a gang whose claims all have their volumes, `failed` why one's will not."""

    def __init__(
        self,
        client: Client,
        storage: StorageTable,
        *,
        bound: Callable[[int], None],
        failed: Callable[[int, str], None],
        in_flight: int,
    ) -> None:
        self._client = client
        self._storage = storage
        self._bound = bound
        self._failed = failed
        self._in_flight = in_flight
        self._due: WorkQueue[int] = WorkQueue()
        self._waits: dict[int, _Wait] = {}
        # Who is concerned by an object: there may be as many gangs as changes, and a gang may have very many claims.
        self._by_claim: dict[Key, list[int]] = {}
        self._by_volume: dict[str, list[tuple[int, Key]]] = {}

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._in_flight):
                    tasks.create_task(self._write_for_ever())
        finally:
            self._due.close()
            for wait in self._waits.values():
                wait.timer.cancel()

    def begin(self, number: int, choices: Iterable[ClaimChoice], seconds: float) -> None:
        """See to the claims of a gang; it fails when they are not bound after so many seconds."""
        decided = {choice.claim: choice for choice in choices}
        timer = asyncio.get_running_loop().call_later(seconds, self._give_up, number)
        self._waits[number] = _Wait(decided, timer, unbound=set(decided))
        for claim, choice in decided.items():
            self._by_claim.setdefault(claim, []).append(number)
            if choice.volume:
                self._by_volume.setdefault(choice.volume, []).append((number, claim))
        self._due.add(number)

    def claim_changed(self, claim: Key) -> None:
        """Some gang may have all it needs now, or need to be decided anew."""
        for number in tuple(self._by_claim.get(claim, ())):
            self._look(number, (claim,))

    def volume_changed(self, volume: str) -> None:
        for number, claim in tuple(self._by_volume.get(volume, ())):
            self._look(number, (claim,))

    def _look(self, number: int, claims: Iterable[Key] | None = None) -> None:
        """See what has become of some of a gang's claims, or of all."""
        wait = self._waits.get(number)
        if wait is None:
            return
        for claim in wait.choices if claims is None else claims:
            choice = wait.choices[claim]
            problem = self._problem_with(choice, wait.told)
            if problem:
                self._end(number)
                self._failed(number, problem)
                return
            (wait.unbound.discard if self._is_bound(choice) else wait.unbound.add)(claim)
        if wait.written and not wait.unbound:
            self._end(number)
            self._bound(number)

    async def _write_for_ever(self) -> None:
        while True:
            number = await self._due.get()
            try:
                await self._write(number)
                self._due.forget(number)
            except Disconnected as error:
                log.debug("claims not written yet", error=error, retry=self._due.retry(number))
            except ApiError as error:
                self._due.forget(number)
                if number in self._waits:
                    self._end(number)
                    self._failed(number, str(error))
            finally:
                self._due.done(number)

    async def _write(self, number: int) -> None:
        self._look(number)
        wait = self._waits.get(number)
        if wait is None:
            return
        for choice in wait.choices.values():
            await self._tell(choice)
        wait.written = True
        self._look(number)

    async def _tell(self, choice: ClaimChoice) -> None:
        claim, volume = self._storage.claims.get(choice.claim), self._storage.volumes.get(choice.volume)
        if claim is None or claim.bound:
            return
        if volume is not None and volume.claim is None:
            await self._client.patch(PERSISTENT_VOLUME, volume.name, _reserve(volume, claim))
        elif not choice.volume and claim.node != choice.node:
            patch = {"metadata": {"uid": claim.uid, "annotations": {SELECTED_NODE: choice.node}}}
            await self._client.patch(PERSISTENT_VOLUME_CLAIM, claim.key.name, patch, claim.key.namespace)

    def _problem_with(self, choice: ClaimChoice, told: set[Key]) -> str:
        claim, volume = self._storage.claims.get(choice.claim), self._storage.volumes.get(choice.volume)
        if claim is None:
            return f"claim {choice.claim.name} is gone"
        if choice.volume and (volume is None or (volume.claim is not None and not volume.is_meant_for(claim))):
            return f"volume {choice.volume} is gone or somebody else's"
        if choice.volume and claim.volume and claim.volume != choice.volume:
            return f"claim {choice.claim.name} was bound to volume {claim.volume}, not to {choice.volume}"
        if claim.node == choice.node:
            told.add(choice.claim)
        elif choice.claim in told and not (choice.volume or claim.volume):
            # Whoever makes volumes takes the node back where none can be made for it.
            return f"no volume was made for claim {choice.claim.name} on node {choice.node}"
        return ""

    def _is_bound(self, choice: ClaimChoice) -> bool:
        claim = self._storage.claims.get(choice.claim)
        return claim is not None and claim.bound

    def _give_up(self, number: int) -> None:
        wait = self._waits[number]
        waiting = sorted(claim.name for claim in wait.unbound)
        self._end(number)
        self._failed(number, f"timed out waiting for the volumes of {', '.join(waiting)}")

    def _end(self, number: int) -> None:
        wait = self._waits.pop(number)
        wait.timer.cancel()
        for claim, choice in wait.choices.items():
            _drop(self._by_claim, claim, number)
            if choice.volume:
                _drop(self._by_volume, choice.volume, (number, claim))


def _drop(index: dict[K, list[V]], key: K, value: V) -> None:
    index[key].remove(value)
    if not index[key]:
        del index[key]


def _reserve(volume: Volume, claim: Claim) -> Obj:
    """Refused by the server when somebody else has changed the volume meanwhile."""
    return {
        "metadata": {"resourceVersion": str(volume.revision), "annotations": {BOUND_BY_CONTROLLER: "yes"}},
        "spec": {
            "claimRef": {
                "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
                "kind": PERSISTENT_VOLUME_CLAIM.kind,
                "namespace": claim.key.namespace,
                "name": claim.key.name,
                "uid": claim.uid,
            }
        },
    }
