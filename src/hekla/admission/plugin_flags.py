"""The flags of job plugins, without the code of those that did not come with Hekla.

Such a plugin is loaded in a process of its own (`flag_reader.py`): whatever it does meanwhile, hang or exit, and
whatever it starts, is over when that process is, and the server has gone on answering others.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint

import msgspec

from hekla.admission.flag_reader import Answer
from hekla.api.job_plugins import Flag, UnloadablePlugin, load_flags, runs_others_code
from hekla.api.kinds import Obj

# An API server waits ten for an answer of ours.
_SECONDS = 5.0
_TIMES_LEFT_ALONE = 12

_Flags = tuple[Flag, ...] | None


class PluginFlags:
    def __init__(self, points: Mapping[str, EntryPoint], seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._flags: dict[str, Callable[[], _Flags]] = {
            name: partial(load_flags, each) for name, each in points.items()
        }
        self._unread = {name: each for name, each in points.items() if runs_others_code(each)}
        # Whoever asked before is told what was found out, in the loop's time: those that took too long are left alone.
        self._answered_until: dict[str, float] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def of(self, job: Obj) -> Mapping[str, Callable[[], _Flags]]:
        """Those of all plugins, to be asked for where the Job names them."""
        unread = [name for name in _named(job) if name in self._unread]
        async with asyncio.TaskGroup() as tasks:
            for name in unread:
                tasks.create_task(self._read(name))
        return self._flags

    def doubts_about(self, job: Obj) -> list[str]:
        """What could not be found out in time, and so was not checked."""
        late = f"took longer than {self._seconds:g} s to load: whether it can be, and its arguments, were not checked"
        return [f"spec.plugins[{name}]: {late}" for name in _named(job) if self._flags.get(name) is _anything]

    async def _read(self, name: str) -> None:
        """What is known once is known for good; what is wrong with a plugin may have been mended."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with self._turns.setdefault(name, asyncio.Lock()):
            # Of those who waited for an answer, the first has asked for all.
            if name not in self._unread or asked <= self._answered_until.get(name, -math.inf):
                return
            try:
                flags = await asyncio.to_thread(_read_apart, self._unread[name], self._seconds)
            except UnloadablePlugin as error:
                self._flags[name] = partial(_refuse, str(error))
                self._answered_until[name] = loop.time()
            except TimeoutError:
                self._flags[name] = _anything
                self._answered_until[name] = loop.time() + self._seconds * _TIMES_LEFT_ALONE
            else:
                self._flags[name] = lambda: flags
                del self._unread[name]


def _named(job: Obj) -> Iterable[str]:
    return (job.get("spec") or {}).get("plugins") or {}


def _read_apart(point: EntryPoint, seconds: float) -> _Flags:
    """Raises UnloadablePlugin and TimeoutError."""
    command = [sys.executable, "-P", "-m", "hekla.admission.flag_reader", point.name, point.value]
    # It must find what is found here.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise UnloadablePlugin(f"no process to load it in: {error}") from error
    with process:
        try:
            told, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # What it has started is of its group.
            os.killpg(process.pid, signal.SIGKILL)
            raise TimeoutError from None
    try:
        answer = msgspec.json.decode(told, type=Answer)
    except msgspec.DecodeError:
        raise UnloadablePlugin(f"it ended the process that loaded it, with exit code {process.returncode}") from None
    if answer.problem:
        raise UnloadablePlugin(answer.problem)
    return answer.flags


def _refuse(problem: str) -> _Flags:
    raise UnloadablePlugin(problem)


def _anything() -> _Flags:
    return None
