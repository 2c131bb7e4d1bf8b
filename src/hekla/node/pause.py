"""The pause: a process that holds a pod's network, host name and IPC namespaces, and does nothing else.

It is forked from the switch, and keeps the switch's own namespace open too (descriptor 3): whoever finds a pause finds
the way back into the network.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import traceback
from dataclasses import dataclass
from pathlib import Path

from hekla.node import syscalls as sys_
from hekla.node.links import Links

HELD_NAMESPACE = 3
POD_LINK = "eth0"
_OK = b"ok"
_ANSWER_SECONDS = 5.0
_MESSAGE_BYTES = 4096


@dataclass(frozen=True)
class ForkedPause:
    """A pause that waits to be told what comes next; it ends when whoever forked it goes before `release`."""

    pid: int
    _talk: socket.socket

    def configure(self, address: str, gateway: str) -> None:
        """Its end of the cable is there: have it set up."""
        self._talk.sendall(json.dumps([address, gateway]).encode())
        _expect(self._talk)

    def release(self) -> None:
        """It is on record: it may outlive us."""
        self._talk.sendall(_OK)

    def kill(self) -> None:
        """It may have ended by itself, and be forgotten already."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self._talk.close()


def fork_pause(hostname: str) -> ForkedPause:
    """Return when its namespaces are there."""
    ours, theirs = socket.socketpair()
    ours.settimeout(_ANSWER_SECONDS)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _be_pause(hostname, theirs.detach())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    theirs.close()
    forked = ForkedPause(pid, ours)
    try:
        _expect(ours)
    except OSError:
        forked.kill()
        forked.close()
        raise
    return forked


def _be_pause(hostname: str, talk: int) -> None:
    """Hold a pod's namespaces, and the switch's, until told to end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    held = os.open("/proc/self/ns/net", os.O_RDONLY)
    talk, held = _renumber(talk, held)
    sys_.unshare(sys_.CLONE_NEWNET | sys_.CLONE_NEWUTS | sys_.CLONE_NEWIPC)
    sys_.sethostname(hostname)
    sys_.set_process_name("hekla-pause")
    os.setsid()
    os.write(talk, _OK)
    address, gateway = json.loads(os.read(talk, _MESSAGE_BYTES))
    _configure_link(address, gateway)
    _allow_ping()
    os.write(talk, _OK)
    # Not before we are on record: a pause that nobody knows of would stay for ever.
    if os.read(talk, 16) != _OK:
        os._exit(1)
    os.close(talk)
    while True:
        signal.pause()


def _renumber(talk: int, held: int) -> tuple[int, int]:
    """Keep nothing open but the two, at fixed numbers above the standard streams."""
    talk = fcntl.fcntl(talk, fcntl.F_DUPFD, 10)
    os.dup2(held, HELD_NAMESPACE, inheritable=False)
    os.closerange(HELD_NAMESPACE + 1, talk)
    os.closerange(talk + 1, 4096)
    return talk, HELD_NAMESPACE


def _configure_link(address: str, gateway: str) -> None:
    """A pod's end of its cable. Nobody is on it but the switch: neighbours, too, are reached through that."""
    with Links() as links:
        links.bring_up("lo")
        links.add_address(POD_LINK, address, 32)
        links.bring_up(POD_LINK)
        links.add_neighbour_route(POD_LINK, gateway)
        links.add_default_route(gateway)


def _allow_ping() -> None:
    """To everybody in the pod: the kernel itself writes those packets, so nobody needs the right to write any."""
    for groups in ("0 2147483647", "0 0"):
        try:
            Path("/proc/sys/net/ipv4/ping_group_range").write_text(groups)
            return
        except OSError:
            continue  # an ordinary user's namespace has few groups, or its /proc is closed: then no ping


def _expect(talk: socket.socket) -> None:
    if talk.recv(16) != _OK:
        raise OSError(0, "the pod's network could not be set up")
