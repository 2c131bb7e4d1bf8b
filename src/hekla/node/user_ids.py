"""User namespaces for an ordinary user: which ids its pods may have.

With a range in /etc/subuid and /etc/subgid, and the program newuidmap (Debian's package uidmap), pods have users of
their own: sshd runs, files have owners. Without, the one id of the user is all there is, shown as what is asked for.

    python -m hekla.node.user_ids remove PATH        removes what pods wrote under ids that are not the user's own
    python -m hekla.node.user_ids share ROOT BELOW GROUP   gives files to one of the pods' groups
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hekla.node import syscalls as sys_
from hekla.node.rootfs import open_within

ALL_IDS = 1 << 32
_DEEPEST = 200  # each level costs a descriptor
_ENOUGH = 65536  # up to "nobody"; what every distribution gives
_SECONDS = 10.0
_PROGRAMS = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"


@dataclass(frozen=True)
class Range:
    first: int
    count: int


def range_in(table: Path, user: str, uid: int) -> Range | None:
    """The first large enough range that a file like /etc/subuid gives a user, by name or number."""
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.strip().split(":")
        if len(words) == 3 and words[0] in (user, str(uid)) and words[1].isdigit() and words[2].isdigit():
            found = Range(int(words[1]), int(words[2]))
            if found.count >= _ENOUGH:
                return found
    return None


def missing_for_ids() -> str:
    """What keeps an ordinary user's pods from having users of their own; empty when nothing does."""
    programs = [name for name in ("newuidmap", "newgidmap") if shutil.which(name, path=_PROGRAMS) is None]
    if programs:
        return f"the program {programs[0]} (Debian's package uidmap)"
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"an account for user id {os.getuid()}"
    tables = [name for name in ("/etc/subuid", "/etc/subgid") if range_in(Path(name), user, os.getuid()) is None]
    return f"a line such as {user}:100000:65536 in {' and '.join(tables)}" if tables else ""


def enter_user_namespace() -> int:
    """Become root of a new user namespace; the number of ids in it. The caller has no other threads."""
    uid, gid = os.geteuid(), os.getegid()
    ranges = None if missing_for_ids() else _own_ranges(uid)
    mapped = _unshare_and_map(uid, gid, *ranges) if ranges else _unshare()
    if mapped:
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        os.setgroups([])
    else:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            Path("/proc/self", name).write_text(text)
    # Others of the user find us through /proc, where processes that are not dumpable belong to root.
    sys_.prctl(sys_.PR_SET_DUMPABLE, 1)
    return mapped_ids()


def mapped_ids() -> int:
    """How many user ids there are where we are, from 0 on without a gap."""
    count = 0
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, length = map(int, line.split())
        count = first + length if first <= count else count
    return count


def remove_as_root_of_own_namespace(path: Path) -> bool:
    """Delete a tree whatever the ids it was written under; whether it is gone."""
    _run_in_own_namespace("remove", str(path))
    return not path.exists()


def share(root: str, below: str, group: int, ids: int) -> None:
    """What `fsGroup` says: `below` in `root` is the group's, which may do what its owner may. Raises OSError."""
    if ids == 1:
        return  # everything of the user's belongs to its one id, which is all that its pods are
    if os.geteuid() == 0:
        _share(root, below, group)
    elif not _run_in_own_namespace("share", root, below, str(group)):
        raise OSError(0, f"{Path(root, below)} could not be given to group {group}")


def _run_in_own_namespace(*words: str) -> bool:
    """In a process of its own: this one may have threads."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from hekla.node.user_ids import main; main()"
    command = [sys.executable, "-I", "-S", "-c", code, str(Path(__file__).parents[2]), *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, cwd="/").returncode == 0


def main() -> None:
    enter_user_namespace()
    match sys.argv[-4:]:
        case [*_, "remove", path]:
            shutil.rmtree(path, ignore_errors=True)
        case ["share", root, below, group]:
            _share(root, below, int(group))


def _share(root: str, below: str, group: int) -> None:
    """By descriptors alone: pods may be changing the tree meanwhile, and must not lead us out of it."""
    top = open_within(root, below, create=False)
    try:
        _give(top, group)
        if stat.S_ISDIR(os.fstat(top).st_mode):
            for path, folders, files, folder in os.fwalk(".", follow_symlinks=False, dir_fd=top):
                if path.count("/") > _DEEPEST:
                    raise OSError(0, f"{root}/{below}: folders nested too deeply")
                for name in (*folders, *files):
                    _give_entry(name, folder, group)
    finally:
        os.close(top)


def _give_entry(name: str, folder: int, group: int) -> None:
    try:
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return  # gone meanwhile
    try:
        _give(found, group)
    finally:
        os.close(found)


def _give(descriptor: int, group: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISLNK(mode):
        return  # whose a link is says nothing about who may follow it
    itself = f"/proc/self/fd/{descriptor}"
    os.chown(itself, -1, group)
    more = (mode & 0o700) >> 3 | (stat.S_ISGID if stat.S_ISDIR(mode) else 0)
    Path(itself).chmod(stat.S_IMODE(mode) | more)


def _own_ranges(uid: int) -> tuple[Range, Range] | None:
    user = pwd.getpwuid(uid).pw_name
    users, groups = (range_in(Path(name), user, uid) for name in ("/etc/subuid", "/etc/subgid"))
    return (users, groups) if users and groups else None


def _unshare() -> bool:
    sys_.unshare(sys_.CLONE_NEWUSER)
    return False


def _unshare_and_map(uid: int, gid: int, users: Range, groups: Range) -> bool:
    """Whether the ranges are in force. Set-uid programs write them, started from outside by a child made before."""
    pid = os.getpid()
    entered, mapped = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(entered[1])
            os.read(entered[0], 1)
            done = _map("newuidmap", pid, uid, users) and _map("newgidmap", pid, gid, groups)
            os.write(mapped[1], b"1" if done else b"0")
        finally:
            os._exit(0)
    os.close(mapped[1])
    os.close(entered[0])
    sys_.unshare(sys_.CLONE_NEWUSER)
    sys_.prctl(sys_.PR_SET_DUMPABLE, 1)  # the programs look at who owns our folder in /proc
    os.close(entered[1])
    answer = os.read(mapped[0], 1)
    os.close(mapped[0])
    os.waitpid(child, 0)
    return answer == b"1"


def _map(program: str, pid: int, own: int, rest: Range) -> bool:
    words = [program, str(pid), "0", str(own), "1", "1", str(rest.first), str(rest.count)]
    done = subprocess.run(words, env={"PATH": _PROGRAMS}, capture_output=True, timeout=_SECONDS, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    main()
