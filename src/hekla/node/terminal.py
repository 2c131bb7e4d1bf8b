"""A terminal of a container's own, so that programs in it find it by name. Runs in shims: os only."""

from __future__ import annotations

import fcntl
import os
import sys
import termios

_TIOCGPTN, _TIOCSPTLCK = 0x80045430, 0x40045431  # not among termios' names before Python 3.13


def open_terminal(uid: int) -> tuple[int, int]:
    """Both ends: the one to be held outside, and the one programs use. The caller is inside the container's root."""
    master = os.open("/dev/pts/ptmx" if os.path.exists("/dev/pts/ptmx") else "/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(master, _TIOCSPTLCK, b"\0\0\0\0")
    number = int.from_bytes(fcntl.ioctl(master, _TIOCGPTN, b"\0\0\0\0"), sys.byteorder)
    slave = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)
    try:
        os.fchown(slave, uid, -1)
    except OSError:
        pass  # not an owner that is mapped here
    return master, slave


def live_in_terminal(slave: int) -> None:
    """Make it the standard streams, and the one that governs this session."""
    for descriptor in (0, 1, 2):
        os.dup2(slave, descriptor)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
