"""A world with bad connections, in which components die and are started again, and every commit is judged."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.meta import controller_of
from hekla.api.review import Admission, Reader
from hekla.client.inprocess import InProcessTransport
from hekla.client.lease import Election, LeaseLost, LeaseSettings
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.errors import Disconnected
from hekla.scheduler.scheduler import SchedulerSettings
from tests.integration.beliefs import wrong_beliefs
from tests.integration.faults import FaultyConnection, Trouble, TroubledWebhook, WrongClock
from tests.integration.history import History
from tests.integration.invariants import ALWAYS, AT_REST, a_gang_is_bound_together
from tests.integration.stage import Commit
from tests.integration.world import COMPONENTS, World

# Who acts only while it holds a Lease.
LED = ("controllers", "scheduler")
LEASES = "default"


class FaultyWorld(World):
    def __init__(self, seed: int, nodes: int = 2, cpu: str = "4", *, settings: SchedulerSettings | None = None) -> None:
        super().__init__(seed, nodes, cpu, settings=settings)
        self.trouble = Trouble(seed)
        self.history = History()
        self.problems: list[str] = []
        self.touched: set[str] = set()  # Jobs whose pods met with an accident
        self.clocks = {name: WrongClock() for name in COMPONENTS}
        self._wrong: asyncio.Event
        self._chores: set[asyncio.Task[None]] = set()
        self._known: set[str] = set()
        self._log = _Exceptions(self._note_problem)
        # On a server without batches bindings go one by one, and a gang is completed, not started whole.
        self._always = tuple(one for one in ALWAYS if self.trouble.batches or one is not a_gang_is_bound_together)

    async def __aenter__(self) -> FaultyWorld:
        self._wrong = asyncio.Event()
        logging.getLogger("hekla").addHandler(self._log)
        asyncio.get_running_loop().set_exception_handler(self._escaped)
        await super().__aenter__()
        return self

    async def open_server(self) -> None:
        await super().open_server()
        self.store.observers.append(self._judge)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        logging.getLogger("hekla").removeHandler(self._log)
        for chore in self._chores:
            chore.cancel()
        await super().__aexit__(kind, error, traceback)

    def connect(self, name: str) -> FaultyConnection:
        return FaultyConnection(InProcessTransport(self.app), name, self.trouble, self._died)

    def clock_of(self, component: str) -> Clock:
        return self.clocks[component]

    def start(self, component: str, name: str = "") -> None:
        super().start(component, name)
        name = name or component
        self.running[name].task.add_done_callback(partial(self._ended, component, name))

    async def _run(self, component: str, name: str, client: Client, rng: random.Random) -> None:
        if component not in LED or not self.trouble.leases:
            await super()._run(component, name, client, rng)
            return
        settings = LeaseSettings(component, LEASES, retry_period=4.0)
        election = Election(client, settings, identity=name, clock=self.clock_of(component), rng=rng)
        fenced = election.fenced(client)
        self.running[name] = replace(self.running[name], client=fenced)
        async with election.won():
            await super()._run(component, name, fenced, rng)

    def _ended(self, component: str, name: str, task: asyncio.Task[None]) -> None:
        """One who has lost its Lease ends; whoever started it starts it again."""
        error = None if task.cancelled() else task.exception()
        lost = error.subgroup(LeaseLost) if isinstance(error, BaseExceptionGroup) else None
        if lost is not None and self.running.get(name) is not None and self.running[name].task is task:
            del self.running[name]
            self.trouble.tell(f"{name} lost its Lease")
            self.see_to(self._come_back(component, name))

    async def _come_back(self, component: str, name: str) -> None:
        await asyncio.sleep(self.trouble.rng.uniform(0.0, 3.0))
        if name not in self.running and (self.trouble.raging or name in COMPONENTS):
            self.start(component, name)

    def admission(self, reader: Reader) -> Admission:
        return TroubledWebhook(super().admission(reader), self.trouble)

    def see_to(self, chore: Coroutine[Any, Any, None]) -> None:
        """Have something done beside everything else, while the trouble lasts or a little longer."""
        task = asyncio.create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, chore: asyncio.Task[None]) -> None:
        self._chores.discard(chore)
        if not chore.cancelled() and chore.exception() is not None:
            self._complain([f"a chore failed: {chore.exception()!r}"])

    async def until_wrong(self, play: Coroutine[Any, Any, None]) -> None:
        """Have something played, to its end or to the first problem."""
        playing, wrong = asyncio.create_task(play), asyncio.create_task(self._wrong.wait())
        await asyncio.wait((playing, wrong), return_when=asyncio.FIRST_COMPLETED)
        wrong.cancel()
        if playing.done():
            playing.result()
        playing.cancel()

    async def chores_done(self) -> None:
        while self._chores:
            await asyncio.wait(self._chores)

    async def crash(self, name: str, away: float) -> None:
        """Kill a component and start it again after a while."""
        if name not in self.running:
            return
        self.trouble.tell(f"kill {name} for {away:.2f} s")
        await self.kill(name)
        await asyncio.sleep(away)
        if name in COMPONENTS:
            self.start(name)

    def touch(self, pod: Obj) -> None:
        owner = controller_of(pod)
        if owner is not None:
            self.touched.add(owner["name"])

    def judge_at_rest(self) -> None:
        for holds in AT_REST:
            self._complain(holds(self.history))
        self._complain(self.trouble.unfenced)
        self._complain(wrong_beliefs({id(each.client): name for name, each in self.running.items()}, self.store))
        self._complain(f"I13: {name} has ended" for name, each in self.running.items() if each.task.done())

    def judge_quiet(self, since: float) -> None:
        """I10: what has come to rest is not written again and again."""
        for (resource, key), moments in self.history.writes.items():
            late = sum(1 for moment in moments if moment > since)
            if late > 5 and resource not in ("/events", "/nodes", "coordination.k8s.io/leases"):
                self._complain([f"I10: {resource} {key} was written {late} times though nothing changed"])

    def _judge(self, commit: Commit) -> None:
        moment = self.history.take(commit)
        for holds in self._always:
            self._complain(holds(self.history, moment))

    def _complain(self, problems: Any) -> None:
        for problem in problems:
            if problem not in self._known:
                self._known.add(problem)
                self._note_problem(f"{self.clock.monotonic():.3f} r{self.store.revision} {problem}")

    def _note_problem(self, problem: str) -> None:
        self.problems.append(problem)
        self._wrong.set()

    def _died(self, name: str) -> None:
        self.see_to(self.crash(name, self.trouble.rng.uniform(0.0, 3.0)))

    def _escaped(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Disconnected):
            self._complain([f"I13: {context.get('message')}: {error!r}"])


class _Exceptions(logging.Handler):
    """I13: no exception escapes a reconcile; the loops that survive one log it."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else ""
        self._note(f"I13: {record.getMessage()}: {error!r}")
