"""An API server in memory on virtual time, and eyes on its store: what the whole system and its parts are rehearsed on.

The store tells its observers of every commit, at once and by whom (`actor`): they see each revision, not what some
informer made of it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from hekla.admission.review import VolcanoAdmission
from hekla.api.kinds import JOB, POD, QUEUE, Kind, Obj
from hekla.api.meta import name_of
from hekla.api.review import Admission, Reader
from hekla.apiserver.app import App, build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.apiserver.store.sequencer import Sequenced
from hekla.apiserver.store.store import Change, Entry, Key
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import Clock, LoopClock
from hekla.local.bootstrap import install_crds
from tests.integration.virtual_loop import run_virtually

T = TypeVar("T")

PATIENCE_SECONDS = 600.0

# Who writes: set once in a component's task, inherited by everything it starts. Empty is the test itself.
actor: ContextVar[str] = ContextVar("actor", default="")


@dataclass(frozen=True, slots=True)
class Commit:
    at: float
    actor: str
    changes: tuple[Change, ...]


class WatchedStore(MemoryStore):
    def __init__(self, clock: Clock, entries: Iterable[Entry] = ()) -> None:
        super().__init__(clock)
        for entry in entries:
            self._feed.load(entry)
            self._feed.revision = self._feed.compacted = max(self._feed.revision, entry.revision)
        self._next = self._feed.revision + 1
        self.observers: list[Callable[[Commit], None]] = []

    def objects(self, kind: Kind) -> list[Obj]:
        return [entry.decode() for entry in self.entries(storage_of(kind))]

    def object(self, kind: Kind, name: str, namespace: str = "") -> Obj | None:
        entry = self.get(Key(storage_of(kind), namespace, name))
        return entry.decode() if entry is not None else None

    def _committed(self, batch: list[Sequenced]) -> list[Change]:
        dropped = super()._committed(batch)
        commit = Commit(self._clock.monotonic(), actor.get(), tuple(sequenced.change for sequenced in batch))
        for observer in self.observers:
            observer(commit)
        return dropped


class Stage:
    """Make one outside the event loop, `open_server` inside."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = LoopClock()
        self.rng = random.Random(seed)
        self._foundation = _foundation()
        self._moved: asyncio.Event
        self.app: App
        self.client: Client
        self.store: WatchedStore

    async def open_server(self) -> None:
        self.store = WatchedStore(self.clock, self._foundation)
        self._moved = asyncio.Event()
        self.store.observers.append(lambda _: self._moved.set())
        self.app = build_app(self.store, clock=self.clock, rng=self.rng, admission=self.admission)
        self.client = Client(InProcessTransport(self.app), user_agent="test")

    def admission(self, reader: Reader) -> Admission:
        """Who is asked before something is written."""
        return VolcanoAdmission(reader)

    def takes_jobs(self) -> bool:
        """Whether the default queue is open: admission refuses Jobs before."""
        queue = self.store.object(QUEUE, "default") or {}
        return (queue.get("status") or {}).get("state") == "Open"

    def job(self, name: str) -> Obj:
        """The Job, or an empty object when there is none."""
        return self.store.object(JOB, name, "default") or {}

    def phase(self, job: str) -> str:
        return str(((self.job(job).get("status") or {}).get("state") or {}).get("phase") or "")

    def pods(self) -> list[Obj]:
        return self.store.objects(POD)

    def pod_phases(self) -> dict[str, str]:
        return {name_of(pod): pod["status"].get("phase", "") for pod in self.pods()}

    async def until_phase(self, phase: str, job: str = "demo") -> Obj:
        await self.until(lambda: self.phase(job) == phase, f"{job} is {phase}")
        return self.job(job)

    async def until_gone(self, job: str = "demo") -> None:
        await self.until(lambda: not self.job(job), f"{job} is gone")

    async def until(self, holds: Callable[[], T], what: str) -> T:
        """Let virtual time pass until it holds; asked again after each commit."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not (answer := holds()):
            self._moved.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._moved.wait()
            except TimeoutError:
                jobs = {name_of(job): job.get("status") for job in self.store.objects(JOB)}
                raise AssertionError(f"never: {what}; jobs {jobs}; pods {self.pod_phases()}") from None
        return answer


def storage_of(kind: Kind) -> str:
    return f"{kind.group}/{kind.plural}"


def perform(work: Callable[[], Awaitable[T]]) -> T:
    """Run to the end on a virtual loop."""

    async def main() -> T:
        return await work()

    return run_virtually(main())


@cache
def _foundation() -> tuple[Entry, ...]:
    """What every server holds before anything runs on it. Made once: it takes longer than most rehearsals."""

    async def lay() -> tuple[Entry, ...]:
        clock = LoopClock()
        store = MemoryStore(clock)
        app = build_app(store, clock=clock, rng=random.Random("foundation"), admission=VolcanoAdmission)
        await app.start()
        await install_crds(Client(InProcessTransport(app)))
        return tuple(entry for resource in store.resources() for entry in store.entries(resource))

    return run_virtually(lay())
