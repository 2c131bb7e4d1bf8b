"""Ports for programs that have to be told theirs before they listen.

Not from the range the kernel gives to connections that ask for any: between our look and the program's own `bind`, one
of the hundreds that a starting kube-apiserver opens would now and then be given the very port.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

_FIRST = 10_000
_DRAWS = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """All different, and nobody listens there now."""
    lent = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", _DRAWS.randrange(_FIRST, lent)))
                found.append(int(probe.getsockname()[1]))
    return found


def free_port() -> int:
    (port,) = free_ports(1)
    return port
