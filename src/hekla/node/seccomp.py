"""Which system calls a container's processes may not make: a filter the kernel runs on every one of them.

A deny list of what no batch job needs and what has been, again and again, the way out of a container: mounting,
namespaces, kernel modules and keys, other ways to run programs in the kernel. Denied calls fail like forbidden ones, so
programs that can do without do so. `clone3` is said not to exist: its flags are out of a filter's sight, and C
libraries fall back to `clone`, whose flags are not.

Runs in shims, between fork and exec: standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from functools import cache

from hekla.node import syscalls as sys_

# Numbers on x86_64 and aarch64; None where a machine does not have the call.
_DENIED: dict[str, tuple[int, int | None]] = {
    # the clock, the machine, its disks
    "acct": (163, 89), "clock_adjtime": (305, 266), "clock_settime": (227, 112), "settimeofday": (164, 170),
    "reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "swapon": (167, 224),
    "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443), "iopl": (172, None),
    "ioperm": (173, None), "vhangup": (153, 58), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "nfsservctl": (180, 42), "lookup_dcookie": (212, 18),
    # kernel code
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # keys, which have no namespace
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97),
    "setns": (308, 268), "fanotify_init": (300, 262),
    # files by number instead of by name, past every mount
    "open_by_handle_at": (304, 265),
}  # fmt: skip
_CLONE, _CLONE3, _IOCTL, _SOCKET = (56, 220), (435, 435), (16, 29), (41, 198)
_NEW_NAMESPACES = 0x7E020080  # all of clone's CLONE_NEW… flags
# Typing into the terminal one has been given, as if its owner did.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
# Talking to the hypervisor; the kernel's own ciphers, a long list of bugs nobody here needs.
_AF_VSOCK, _AF_ALG = 40, 38

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32_CALLS = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
_UNKNOWN = 0x00050000 | errno.ENOSYS

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def confine() -> None:
    """Put the filter on this process and all it will ever become. It must have given up new privileges before."""
    code = program(os.uname().machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_ = _Program(len(code) // 8, ctypes.addressof(buffer))
    sys_.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(filter_))


@cache
def program(machine: str) -> bytes:
    """The filter's instructions. Raises OSError for a machine whose numbers we do not know."""
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine} machines")
    column, identity = _MACHINES[machine]
    denied = sorted(number for each in _DENIED.values() if (number := each[column]) is not None)
    steps = [
        _load(_MACHINE),
        _skip(_JUMP_EQUAL, identity, 1, 0),
        _return(_UNKNOWN),  # programs of another machine would have other numbers
        _load(_NUMBER),
        _skip(_JUMP_AT_LEAST, _X32_CALLS, 0, 1),
        _return(_UNKNOWN),
    ]
    for number in denied:
        steps += [_skip(_JUMP_EQUAL, number, 0, 1), _return(_DENY)]
    steps += [_skip(_JUMP_EQUAL, _CLONE3[column], 0, 1), _return(_UNKNOWN)]
    steps += _deny_argument(_CLONE[column], 0, [(_JUMP_ANY_BIT, _NEW_NAMESPACES)])
    steps += _deny_argument(_IOCTL[column], 1, [(_JUMP_EQUAL, _TIOCSTI), (_JUMP_EQUAL, _TIOCLINUX)])
    steps += _deny_argument(_SOCKET[column], 0, [(_JUMP_EQUAL, _AF_VSOCK), (_JUMP_EQUAL, _AF_ALG)])
    steps.append(_return(_ALLOW))
    return b"".join(steps)


def _deny_argument(number: int, argument: int, tests: list[tuple[int, int]]) -> list[bytes]:
    """Deny one call where the lower half of an argument meets one of the tests."""
    inner = [_load(_ARGUMENTS + 8 * argument)]
    for test, value in tests:
        inner += [_skip(test, value, 0, 1), _return(_DENY)]
    inner.append(_return(_ALLOW))
    return [_skip(_JUMP_EQUAL, number, 0, len(inner)), *inner]


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", _LOAD, 0, 0, offset)


def _skip(test: int, value: int, if_true: int, if_false: int) -> bytes:
    """Compare what is loaded, and leave out so many of the instructions that follow."""
    return struct.pack("=HBBI", test, if_true, if_false, value)


def _return(verdict: int) -> bytes:
    return struct.pack("=HBBI", _RETURN, 0, 0, verdict)
