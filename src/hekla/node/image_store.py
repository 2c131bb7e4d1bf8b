"""File systems of images, unpacked once below a node's data directory; several pods, and nodes, may ask at once."""

from __future__ import annotations

import copy
import fcntl
import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hekla.node.directory import remove_tree

STORE = "images"
_LOCK = ".lock"
# We judge the members ourselves: Python's filters came with 3.11.4, and Debian 12 has 3.11.2.
_AS_GIVEN: dict[str, Any] = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}


def once(data_dir: Path, version: str, unpack: Callable[[Path], None]) -> Path:
    """The folder for this version of an image. Where it is missing, `unpack` fills an empty one."""
    target = data_dir / STORE / hashlib.sha256(version.encode()).hexdigest()[:24]
    if not target.is_dir():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (target.parent / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                # A name without `.part` is complete.
                part = target.with_name(f"{target.name}.part")
                remove_tree(part)
                part.mkdir(mode=0o755)
                unpack(part)
                part.chmod(0o755)
                part.rename(target)
    return Path(os.path.realpath(target))


def extract(archive: tarfile.TarFile, target: Path) -> None:
    # Owners are kept where we may give them, by number: names mean what the image's list of users says.
    archive.extractall(target, members=_allowed(archive, target), numeric_owner=True, **_AS_GIVEN)  # noqa: S202


def _allowed(archive: tarfile.TarFile, target: Path) -> Iterator[tarfile.TarInfo]:
    """The members one after the other, each judged by what those before it have made.

    Modes are kept, /tmp's sticky bit among them. Devices are left out: /dev is the container's own, and elsewhere they
    would not work.
    """
    for member in archive:
        if member.isdev():
            continue
        kept = copy.copy(member)
        kept.name = member.name.lstrip("/")
        name = Path(kept.name)
        _refuse_detour(name.parent if kept.issym() else name, target)
        yield _second_name(kept, target) if kept.islnk() else kept


def _refuse_detour(name: Path, target: Path) -> None:
    """An image's links lead around in its containers; followed here they lead around on this machine."""
    walked = target
    for part in name.parts:
        walked /= part
        if part == ".." or walked.is_symlink():
            raise OSError(0, f"{name} leads through a link or outside")


def _second_name(member: tarfile.TarInfo, target: Path) -> tarfile.TarInfo:
    """A hard link: of a file unpacked before it, and of nothing else."""
    first = Path(member.linkname.lstrip("/"))
    _refuse_detour(first.parent, target)
    found = target / first
    if not os.path.lexists(found):
        raise OSError(0, f"{member.name} is a second name of {first}, which is not there")
    member.linkname = str(first)
    if found.is_symlink():
        # To a second name of a link tarfile gives a mode, which goes to what the link leads to.
        member.type, member.linkname = tarfile.SYMTYPE, str(found.readlink())
    return member
