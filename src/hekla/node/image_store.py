"""File systems of images, unpacked once below a node's data directory; several pods, and nodes, may ask at once."""

from __future__ import annotations

import copy
import fcntl
import hashlib
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

from hekla.node.directory import remove_tree

STORE = "images"
_LOCK = ".lock"


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
    archive.extractall(target, numeric_owner=True, filter=_as_written)  # noqa: S202 - it refuses what leads outside


def _as_written(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo | None:
    """Names that lead outside are refused, as by the filter "tar"; modes are kept, /tmp's sticky bit among them.

    Devices are left out: /dev is the container's own, and elsewhere they would not work.
    """
    if member.isdev():
        return None
    kept = tarfile.tar_filter(member, target).replace(mode=member.mode, deep=False)
    name = Path(kept.name)
    _refuse_detour(name.parent if kept.issym() else name, target)
    return _second_name(kept, target) if kept.islnk() else kept


def _refuse_detour(name: Path, target: str) -> None:
    """An image's links lead around in its containers; followed here they lead around on this machine."""
    walked = Path(target)
    for part in name.parts:
        walked /= part
        if part == ".." or walked.is_symlink():
            raise OSError(0, f"{name} leads through a link or outside")


def _second_name(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo:
    """A hard link: of a file unpacked before it, and of nothing else."""
    first = Path(member.linkname.lstrip("/"))
    _refuse_detour(first.parent, target)
    found = target / first
    if not os.path.lexists(found):
        raise OSError(0, f"{member.name} is a second name of {first}, which is not there")
    if not found.is_symlink():
        return member.replace(linkname=str(first), deep=False)
    # To a second name of a link tarfile gives a mode, which goes to what the link leads to.
    link = copy.copy(member)
    link.type, link.linkname = tarfile.SYMTYPE, str(found.readlink())
    return link
