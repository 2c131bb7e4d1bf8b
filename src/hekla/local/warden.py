"""The warden: sees to it that nothing of a cluster that was made for one run outlives it, however it ends.

    hekla run ── fork ──> warden ── fork ──> supervisor ── fork ──> components, pods, ...

Elsewhere pods, their pauses and the switch belong to nobody, so that the next start takes them back. Here the kernel
gives them to the warden: whatever descends from the supervisor becomes its child when its own parent dies. So all of
them are found, on record or not, and none of another cluster's.

A supervisor that comes to its end by itself has swept. After one that was killed the warden does. Should the warden be
killed, the supervisor is told to stop, and sweeps.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hekla.local.layout import Layout
from hekla.local.running import clearing
from hekla.local.supervisor import STOP_SIGNALS, close_all_but, fork_deaf, listen_again, redirect, stop_with_parent
from hekla.log import configure_logging, get_logger
from hekla.node import syscalls as sys_

log = get_logger("warden")

_KILL_SECONDS = 10.0


def guard(supervise: Callable[[], NoReturn], layout: Layout, *, temporary: bool) -> NoReturn:
    """Fork the supervisor and be its warden. `temporary`: the data dir goes with it.

    Call in a process made for this, deaf (`fork_deaf`) and without threads.
    """
    try:
        os.setsid()
        sys_.prctl(sys_.PR_SET_CHILD_SUBREAPER, 1)
        ourselves = os.getpid()
        supervisor = fork_deaf()
        if supervisor == 0:
            stop_with_parent(ourselves)
            supervise()
        sys_.set_process_name("hekla-warden")
        close_all_but(0, 1, 2)
        _pass_on_requests_to_stop(supervisor)
        redirect(layout.log_of("up"))
        configure_logging()
        # Loaded now: whatever it would be loaded from may be gone by then.
        from hekla.node.cleanup import sweep
        from hekla.node.directory import remove_tree

        was_killed = _wait_for_end(supervisor)
        try:
            _end_what_is_left()
            if was_killed:
                with clearing(layout) as ours:
                    if ours:
                        log.info("swept", report=sweep(layout.nodes))
        finally:
            if temporary:
                layout.socket.unlink(missing_ok=True)
                remove_tree(layout.root)
    except BaseException:
        log.exception("warden failed")
    finally:
        os._exit(0)


def _pass_on_requests_to_stop(supervisor: int) -> None:
    descriptor = os.pidfd_open(supervisor)

    def pass_on(_number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)

    for number in STOP_SIGNALS:
        signal.signal(number, pass_on)
    listen_again()


def _wait_for_end(supervisor: int) -> bool:
    """Return when it has ended: whether it was killed. Others that have become ours come to their ends meanwhile."""
    while True:
        pid, status = os.wait()
        if pid == supervisor:
            return os.WIFSIGNALED(status)


def _end_what_is_left() -> None:
    """Kill our children until there are none, those they leave us included."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        for pid in _children():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if signal.sigtimedwait({signal.SIGCHLD}, _KILL_SECONDS) is None:
            return  # the kernel holds it, and it will not go


def _children() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The second field is the program's name in parentheses and may contain anything.
                parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[1]
                if int(parent) == os.getpid():
                    found.append(int(entry.name))
    return found
