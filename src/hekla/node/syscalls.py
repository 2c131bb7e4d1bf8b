"""The system calls Python does not offer, by their kernel names.

Imported by the shim inside half-built containers, so it imports nothing but os and ctypes. Every call raises OSError
naming what failed.
"""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine, 155)
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_OPENAT2 = 428, 429, 437
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH, _RESOLVE_IN_ROOT = 0x02, 0x08, 0x10
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_IN_MODIFY, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x80, 0x100
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapabilityData(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int = 0) -> None:
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str | None, target: str, fstype: str | None, flags: int = 0, options: str = "") -> None:
    result = _libc.mount(
        _text(source), target.encode(), _text(fstype), ctypes.c_ulong(flags), options.encode() if options else None
    )
    _check(result, f"mount {fstype or source or ''} on {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    _check(_libc.umount2(target.encode(), flags), f"unmount {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Make `source` (with whatever is mounted below it) appear at `target` too."""
    mount(source, target, None, MS_BIND | MS_REC)
    if read_only:
        make_read_only(target)


def open_beneath(folder: int, path: str) -> int:
    """A descriptor of what is at `path` in `folder`. A link may lead to other places in it, never out of it.

    The kernel looks the whole path up at once: nobody who swaps a part of it for a link meanwhile gets anything else.
    """
    return _open_resolved(folder, path, _RESOLVE_BENEATH)


def open_in_root(folder: int, path: str) -> int:
    """As `open_beneath`, for whom the folder is the root: links lead from there."""
    return _open_resolved(folder, path, _RESOLVE_IN_ROOT)


def _open_resolved(folder: int, path: str, resolve: int) -> int:
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, resolve | _RESOLVE_NO_MAGICLINKS)
    found = _libc.syscall(_SYS_OPENAT2, folder, path.encode(), how, ctypes.c_size_t(len(how)))
    _check(found, path)
    return int(found)


def pick_up(descriptor: int) -> int:
    """A mount of what the descriptor is of, with all that is mounted below, which is nowhere yet; see `put_down`."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE | _AT_EMPTY_PATH
    mount = _libc.syscall(_SYS_OPEN_TREE, descriptor, b"", ctypes.c_uint(flags))
    _check(mount, "open_tree")
    return int(mount)


def put_down(mount: int, target: str) -> None:
    flags = ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
    _check(_libc.syscall(_SYS_MOVE_MOUNT, mount, b"", _AT_FDCWD, target.encode(), flags), f"mount on {target}")


def make_read_only(target: str, *, below: bool = True) -> None:
    """Make the mount at `target`, and all below it, read-only without touching flags the kernel has locked."""
    attributes = _MountAttributes(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        target.encode(),
        _AT_RECURSIVE if below else 0,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, f"make {target} read-only")


def pivot_root(new: str, old: str) -> None:
    _check(_libc.syscall(_SYS_PIVOT_ROOT, new.encode(), old.encode()), "pivot_root")


def prctl(option: int, argument: int = 0, second: int = 0) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(argument), ctypes.c_ulong(second), 0, 0), f"prctl {option}")


def set_process_name(name: str) -> None:
    _libc.prctl(PR_SET_NAME, ctypes.create_string_buffer(name.encode()[:15]), 0, 0, 0)


def sethostname(name: str) -> None:
    text = name.encode()
    _check(_libc.sethostname(text, len(text)), "sethostname")


def watch_directory(path: str) -> int:
    """A descriptor that becomes readable when a file in the directory grows or appears. The caller closes it."""
    descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    _check(descriptor, "inotify_init1")
    if _libc.inotify_add_watch(descriptor, path.encode(), _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE) < 0:
        number = ctypes.get_errno()
        os.close(descriptor)
        raise OSError(number, f"watch {path}: {os.strerror(number)}")
    return int(descriptor)


def keep_capabilities(kept: frozenset[int]) -> None:
    """Give up every capability but `kept`, for this process and all it will ever become."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in kept and _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break  # past the last capability this kernel knows
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    mask = sum(1 << capability for capability in kept)
    words = (_CapabilityData * 2)()
    for index in range(2):
        word = (mask >> (32 * index)) & 0xFFFFFFFF
        words[index] = _CapabilityData(word, word, 0)
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(words)), "capset")


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
