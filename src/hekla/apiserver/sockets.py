"""Where an API server is to be reached. Opened before there is a server: whoever connects meanwhile waits."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from hekla.errors import UsageError

BACKLOG = 1024
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Sockets:
    """A unix socket for the owner's own components, and TCP on loopback for kubectl and everything else."""

    path: Path
    unix: socket.socket
    tcp: socket.socket | None = None

    @property
    def port(self) -> int:
        """0 without TCP."""
        return int(self.tcp.getsockname()[1]) if self.tcp is not None else 0

    def descriptors(self) -> tuple[int, ...]:
        return tuple(each.fileno() for each in (self.unix, self.tcp) if each is not None)

    def close(self) -> None:
        """Nobody is to come any more. A server that was given them has closed them already."""
        self.path.unlink(missing_ok=True)
        self.unix.close()
        if self.tcp is not None:
            self.tcp.close()


def open_sockets(path: Path, port: int | None) -> Sockets:
    """Port 0 takes a free one, None no TCP at all."""
    tcp = listen_tcp(_LOOPBACK, port) if port is not None else None
    return Sockets(path, listen_unix(path), tcp)


def listen_unix(path: Path) -> socket.socket:
    """A socket only its owner may connect to, in a folder only its owner may enter."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _is_served(path):
        raise UsageError(f"another API server answers at {path}")
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode must hold from the first moment: set it before the name exists.
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    listening.listen(BACKLOG)
    return listening


def _is_served(path: Path) -> bool:
    """A server that was killed leaves its path behind, with nobody there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def listen_tcp(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen on {host} port {port}: {reason}") from None
    return listening
