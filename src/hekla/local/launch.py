"""Starting a local cluster in the background, from a program that has other things to do."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NoReturn

from hekla.errors import HeklaError, UsageError
from hekla.local.components import ClusterSettings
from hekla.local.layout import Layout
from hekla.local.supervisor import fork_deaf, listen_again, redirect, stop_with_parent
from hekla.local.warden import guard
from hekla.log import configure_logging, get_logger

log = get_logger("supervisor")

_READY_SECONDS = 90.0


class Stage(StrEnum):
    """How far a cluster has come, as its supervisor tells it."""

    TAKES_JOBS = "takes-jobs"
    READY = "ready"
    FAILED = "failed"


@dataclass(slots=True)
class LaunchedCluster:
    """A cluster whose supervisor, or warden, is our child. It tells on a pipe how far it has come, one line a stage."""

    pid: int
    stages: int
    _heard: bytes = b""

    def wait_until(self, wanted: Stage) -> None:
        """Return once it has come so far; UsageError with the reason if it cannot."""
        deadline = time.monotonic() + _READY_SECONDS
        while not self.has_reached(wanted):
            if not select.select([self.stages], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self.stop()
                raise UsageError(f"the local cluster was not ready in {_READY_SECONDS:.0f} s")
            self.listen()

    def listen(self) -> None:
        """Take in what it has said, if anything (then `stages` is readable). Raises UsageError when it failed."""
        try:
            said = os.read(self.stages, 65536)
        except BlockingIOError:
            return
        self._heard += said
        for line in self._heard.decode(errors="replace").splitlines():
            stage, _, text = line.partition(" ")
            if stage == Stage.FAILED:
                raise UsageError(text.replace("\0", "\n"))
        if not said:
            raise UsageError("the local cluster could not start" if not self._heard else "the local cluster has ended")

    def has_reached(self, stage: Stage) -> bool:
        return stage.encode() in self._heard.splitlines()

    def stop(self) -> None:
        """End the cluster and wait until nothing of it is left."""
        try:
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return
        # A warden that was killed did not wait for its supervisor, which then stops by itself.
        os.set_blocking(self.stages, True)
        while os.read(self.stages, 65536):
            pass


def launch_cluster(settings: ClusterSettings, *, outlives_us: bool) -> LaunchedCluster:
    """Fork a supervisor into a session of its own. Call before any event loop or thread exists.

    Unless it is to outlive this process, it stops when we do, however we end, and whatever it left is ended too.
    """
    settings.validate()
    layout = Layout(settings.data_dir)
    layout.prepare()
    parent = os.getpid()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(read_end, False)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = fork_deaf()
    if pid == 0:
        os.close(read_end)
        if outlives_us:
            _supervise(settings, layout, write_end)
        stop_with_parent(parent)
        guard(partial(_supervise, settings, layout, write_end), layout, temporary=settings.temporary)
    os.close(write_end)
    return LaunchedCluster(pid, read_end)


def _supervise(settings: ClusterSettings, layout: Layout, pipe: int) -> NoReturn:
    """The supervisor's whole life."""
    code = 1
    try:
        os.setsid()
        listen_again()
        redirect(layout.log_of("up"))
        from hekla.local.cluster import run_cluster

        configure_logging(settings.log_level)
        run_cluster(settings, takes_jobs=lambda: _say(pipe, Stage.TAKES_JOBS), ready=lambda: _say(pipe, Stage.READY))
        code = 0
    except HeklaError as error:
        _say(pipe, f"{Stage.FAILED} {error}")
    except BaseException as error:
        _say(pipe, f"{Stage.FAILED} {type(error).__name__}: {error}")
        log.exception("supervisor failed")
    finally:
        os._exit(code)


def _say(pipe: int, text: str) -> None:
    try:
        os.write(pipe, text.replace("\n", "\0").encode() + b"\n")
    except (BrokenPipeError, OSError):
        return
