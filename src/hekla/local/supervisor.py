"""Keeps a set of components running, each in a process of its own.

The supervisor forks them: what is loaded before, they share; what only one needs it loads itself, beside the others.
The supervisor has no event loop and no threads, so forking is safe. A component that dies is started again, later and
later if it keeps dying; one that cannot even start the first time ends the whole with its last words. When the
supervisor itself is killed its components stop too (the kernel tells them); pods do not: the next supervisor's nodes
take them back.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

from hekla.errors import HeklaError, told_error
from hekla.local.log_files import open_log, trim
from hekla.local.private_files import write_private
from hekla.log import configure_logging, get_logger

log = get_logger("supervisor")

_PR_SET_PDEATHSIG = 1
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_LONGEST_BACK_OFF = 3.0
_STEADY_SECONDS = 10.0
_MOST_DESCRIPTORS = 4096
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Upstream's scheduler writes down what it knows when it hears these: whoever sends them wants nobody to end.
_DUMP_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)

Ready = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Component:
    """`run` works until cancelled and calls its argument, with a word for the supervisor, once it is ready.

    `loads` are modules for the supervisor to load before it forks; `keeps` are descriptors to leave open.
    """

    name: str
    run: Callable[[Ready], Awaitable[None]]
    log: Path
    loads: tuple[str, ...] = ()
    keeps: tuple[int, ...] = ()


@dataclass(slots=True)
class _Process:
    component: Component
    pid: int = 0
    ready_pipe: int = -1
    ready_word: str | None = None
    started: float = 0.0
    log_begins: int = 0  # how long its log was when it was started: what stands there is of others before it
    restarts: int = -1
    failures: int = 0
    start_at: float | None = None


class ComponentFailed(HeklaError):
    """A component could not start; the text ends with what it said."""


@dataclass(slots=True)
class Supervisor:
    status_file: Path
    log_level: str = "info"
    _processes: dict[str, _Process] = field(default_factory=dict)
    _ready: bool = False
    _stopping: bool = False
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _wakeup: tuple[int, int] = (-1, -1)

    def open(self) -> None:
        """Take over SIGTERM, SIGINT and SIGCHLD. Call once, in the main thread."""
        self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            # Whoever started us with nohup wants us to stay.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._ask_to_stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._selector.register(self._wakeup[0], selectors.EVENT_READ, None)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def names(self) -> list[str]:
        """Of all that were started."""
        return list(self._processes)

    def launch(self, component: Component) -> None:
        """Start this and do not wait for it."""
        for module in component.loads:
            importlib.import_module(module)
        self._processes[component.name] = _Process(component)
        self._spawn(self._processes[component.name])

    def wait_until_ready(self, *, told: Callable[[str, str], None] = lambda _name, _word: None) -> None:
        """Return when all that were launched are ready; `told` hears the name and word of each as soon as it is."""
        deadline = time.monotonic() + _START_SECONDS
        waiting = list(self._processes.values())
        while not self._stopping and waiting:
            self._wait(min(1.0, max(0.0, deadline - time.monotonic())))
            self._reap(first_start=True)
            for process in [each for each in waiting if each.ready_word is not None]:
                waiting.remove(process)
                told(process.component.name, process.ready_word or "")
            if waiting and time.monotonic() > deadline:
                late = waiting[0].component
                raise ComponentFailed(
                    f"{late.name} was not ready in {_START_SECONDS:.0f} s{_tail(late.log, waiting[0].log_begins)}"
                )
        self._write_status()

    def watch(self) -> None:
        """Restart what dies, until somebody asks us to stop."""
        self._ready = True
        while not self._stopping:
            self._wait(self._next_start())
            self._reap(first_start=False)
            self._start_due()
            for process in self._processes.values():
                trim(process.component.log)

    def stop(self, names: Sequence[str]) -> None:
        """End these, together: politely, then not."""
        self._stopping = True
        wanted = [self._processes[name] for name in names if name in self._processes and self._processes[name].pid]
        for process in wanted:
            _signal(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for process in wanted:
            if not _wait_until_gone(process.pid, deadline):
                log.warning("component did not stop", component=process.component.name)
                _signal(process.pid, signal.SIGKILL)
                os.waitpid(process.pid, 0)
            process.pid = 0
        self._write_status()

    def close(self) -> None:
        self.stop(list(self._processes))
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for descriptor in self._wakeup:
            os.close(descriptor)

    def _ask_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _spawn(self, process: _Process) -> None:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        sys.stdout.flush()
        sys.stderr.flush()
        ourselves = os.getpid()
        log_file = process.component.log
        process.log_begins = log_file.stat().st_size if log_file.exists() else 0
        pid = fork_deaf()
        if pid == 0:
            _become(process.component, write_end, ourselves, self.log_level)
        os.close(write_end)
        process.pid, process.started, process.start_at = pid, time.monotonic(), None
        process.restarts += 1
        process.ready_pipe, process.ready_word = read_end, None
        self._selector.register(read_end, selectors.EVENT_READ, process)

    def _wait(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup[0], 4096)
                continue
            process: _Process = key.data
            word = os.read(process.ready_pipe, 4096)
            self._selector.unregister(process.ready_pipe)
            os.close(process.ready_pipe)
            process.ready_pipe = -1
            if word:
                process.ready_word = word.decode().strip()
                self._write_status()

    def _reap(self, *, first_start: bool) -> None:
        for process in self._processes.values():
            if not process.pid:
                continue
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if not pid:
                continue
            process.pid = 0
            name, ending = process.component.name, os.waitstatus_to_exitcode(status)
            if self._stopping:
                continue
            if first_start and process.restarts == 0 and process.ready_word is None:
                raise ComponentFailed(
                    f"{name} could not start (exit {ending}){_tail(process.component.log, process.log_begins)}"
                )
            steady = time.monotonic() - process.started > _STEADY_SECONDS
            process.failures = 0 if steady else process.failures + 1
            delay = 0.0 if process.failures <= 1 else min(0.1 * 2**process.failures, _LONGEST_BACK_OFF)
            process.start_at = time.monotonic() + delay
            log.warning("component died", component=name, exit=ending, restart_in=f"{delay:.1f}s")
            self._write_status()

    def _next_start(self) -> float:
        due = [process.start_at for process in self._processes.values() if process.start_at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else 60.0

    def _start_due(self) -> None:
        for process in self._processes.values():
            if process.start_at is not None and process.start_at <= time.monotonic() and not self._stopping:
                self._spawn(process)
                self._write_status()

    def _write_status(self) -> None:
        components = [
            {"name": p.component.name, "pid": p.pid, "restarts": max(p.restarts, 0), "ready": p.ready_word is not None}
            for p in self._processes.values()
        ]
        document = json.dumps({"pid": os.getpid(), "components": components}).encode()
        try:
            write_private(self.status_file, document, durable=False)
        except OSError as error:
            if not self._ready:
                raise
            # A disk that is full now must not end what works.
            log.warning("status not written", file=str(self.status_file), error=str(error))


def _become(component: Component, ready_pipe: int, parent: int, log_level: str) -> None:
    """The child's whole life. Never returns."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        listen_again()
        stop_with_parent(parent)
        close_all_but(0, 1, 2, ready_pipe, *component.keeps)
        redirect(component.log)
        configure_logging(log_level)
        run_until_terminated(component.run, ready=lambda word: _say_ready(ready_pipe, word))
        code = 0
    except KeyboardInterrupt:
        code = 0
    except BaseException as error:
        told = told_error(error)
        if isinstance(told, HeklaError | OSError):
            print(f"error: {told}", file=sys.stderr)  # noqa: T201 - its log file is where the supervisor looks
        else:
            log.exception("component failed", component=component.name)
    finally:
        sys.stderr.flush()
        os._exit(code)


def run_until_terminated(run: Callable[[Ready], Awaitable[None]], *, ready: Ready) -> None:
    """Run a component's coroutine on a fast event loop; SIGTERM and SIGINT cancel it, SIGUSR1 and SIGUSR2 do not."""
    import uvloop

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        for number in _DUMP_SIGNALS:
            advice = "`hekla why --output json` shows what the scheduler knows"
            loop.add_signal_handler(number, partial(log.info, "nothing is dumped", signal=number.name, advice=advice))
        await run(ready)

    expect_many_objects()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, contextlib.suppress(asyncio.CancelledError):
        runner.run(main())


def expect_many_objects() -> None:
    """Have garbage looked for less often. API objects live long and form no cycles: to look through all of them again
    and again costs a component up to a third of its time and finds nothing."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def fork_deaf() -> int:
    """Fork a child that hears no request to stop before it calls `listen_again`.

    One that came earlier would go to the handler of its parent, which does nothing here, and be lost.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    pid = os.fork()
    if pid != 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def listen_again() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def stop_with_parent(parent: int) -> None:
    """Have the kernel send us SIGTERM when our parent ends, even by SIGKILL. Call right after forking."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(0)


def _say_ready(pipe: int, word: str) -> None:
    os.write(pipe, f"{word}\n".encode())
    os.close(pipe)


def close_all_but(*kept: int) -> None:
    """What is alone of the process we were forked from, and what it holds for others, must not stay open in ours."""
    ends = sorted(kept)
    for below, above in zip(ends, [*ends[1:], _MOST_DESCRIPTORS], strict=True):
        os.closerange(below + 1, above)


def redirect(log_file: Path) -> None:
    """Read nothing, and write to that file."""
    output = open_log(log_file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_until_gone(pid: int, deadline: float) -> bool:
    """Wait for our own child without a busy loop: a pidfd becomes readable when it ends."""
    with contextlib.closing(selectors.DefaultSelector()) as selector:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            selector.register(descriptor, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return False
        finally:
            os.close(descriptor)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    return True


def _tail(log_file: Path, begins: int, lines: int = 12) -> str:
    """What a component said last, since it was started; one that said why it cannot start is quoted with that alone."""
    try:
        said = log_file.read_bytes()[begins:]
        text = said.decode(errors="replace").strip().splitlines()[-lines:]
    except OSError:
        return ""
    if text and text[-1].startswith("error: "):
        return f": {text[-1].removeprefix('error: ')}"
    return ":\n  " + "\n  ".join(text) + f"\n(whole log: {log_file})" if text else ""
