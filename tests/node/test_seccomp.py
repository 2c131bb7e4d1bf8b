"""The system call filter, run by an interpreter of its instructions, and by the kernel."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys

import pytest

from hekla.node.seccomp import program

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X86, _ARM = 0xC000003E, 0xC00000B7


def verdict(machine: str, number: int, *arguments: int, identity: int | None = None) -> int:
    """What the filter returns: 0 when the call is allowed, else the error it fails with."""
    code = program(machine)
    shown = identity if identity is not None else {"x86_64": _X86, "aarch64": _ARM}[machine]
    data = struct.pack("=IIQ6Q", number, shown, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    at = loaded = 0
    while True:
        kind, if_true, if_false, value = struct.unpack_from("=HBBI", code, at * 8)
        at += 1
        match kind:
            case 0x20:
                (loaded,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += if_true if loaded == value else if_false
            case 0x35:
                at += if_true if loaded >= value else if_false
            case 0x45:
                at += if_true if loaded & value else if_false
            case 0x06:
                return 0 if value == _ALLOW else value & 0xFFFF
            case _:
                raise AssertionError(f"not an instruction we use: {kind:#x}")


@pytest.mark.parametrize(
    ("machine", "number", "arguments", "expected"),
    [
        ("x86_64", 0, (), 0),  # read
        ("x86_64", 59, (), 0),  # execve
        ("x86_64", 165, (), errno.EPERM),  # mount
        ("x86_64", 321, (), errno.EPERM),  # bpf
        ("x86_64", 435, (), errno.ENOSYS),  # clone3
        ("x86_64", 56, (0x01200011,), 0),  # clone, as fork does
        ("x86_64", 56, (0x10000011,), errno.EPERM),  # clone with a user namespace
        ("x86_64", 56, (0x00020000,), errno.EPERM),  # … with a mount namespace
        ("x86_64", 56, (0x00000080,), errno.EPERM),  # … with a time namespace
        ("x86_64", 16, (0, 0x5413), 0),  # ioctl TIOCGWINSZ
        ("x86_64", 16, (0, 0x5412), errno.EPERM),  # ioctl TIOCSTI
        ("x86_64", 16, (0, 0x1_0000_5412), errno.EPERM),  # the kernel looks at the lower half only
        ("x86_64", 41, (2,), 0),  # socket AF_INET
        ("x86_64", 41, (40,), errno.EPERM),  # socket AF_VSOCK
        ("x86_64", 0x40000000 | 165, (), errno.ENOSYS),  # mount by x32's number
        ("aarch64", 40, (), errno.EPERM),  # mount
        ("aarch64", 165, (), 0),  # getrusage there
        ("aarch64", 220, (0x10000000,), errno.EPERM),
    ],
)
def test_a_call_is_allowed_or_refused(machine: str, number: int, arguments: tuple[int, ...], expected: int) -> None:
    assert verdict(machine, number, *arguments) == expected


def test_programs_of_another_machine_get_nothing() -> None:
    assert verdict("x86_64", 0, identity=0x40000003) == errno.ENOSYS


def test_a_machine_we_do_not_know_is_refused() -> None:
    with pytest.raises(OSError, match="no system call filter for vax machines"):
        program("vax")


_TRY = """
import ctypes, os, subprocess, sys
from hekla.node import seccomp, syscalls
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
seccomp.confine()
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == 1
assert libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) == -1 and ctypes.get_errno() == 1
import threading
worker = threading.Thread(target=lambda: print("thread"))
worker.start(); worker.join()
print(subprocess.run(["sh", "-c", "echo child"], capture_output=True, text=True).stdout, end="")
"""


def test_the_kernel_accepts_it_and_programs_still_run() -> None:
    done = subprocess.run([sys.executable, "-c", _TRY], capture_output=True, text=True, env={**os.environ})
    assert done.stdout == "thread\nchild\n", done.stderr
