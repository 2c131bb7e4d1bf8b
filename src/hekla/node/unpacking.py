"""The folders an image is made of. Tarballs are unpacked once, below the node's data directory, and found again."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hekla.api.kinds import Obj
from hekla.node.directory import remove_tree
from hekla.node.hooks.images import ImageError, ImageMissing, Images, command_line

STORE = "images"
_LOCK = ".lock"


@dataclass(frozen=True)
class ReadyImage:
    """What a container is put together from: words and folders that are there."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = "/"
    base: str = "/"  # the root; "/" is the machine's own
    above: tuple[str, ...] = ()  # folders laid over it, the top one first

    def home_of(self, uid: int) -> str:
        """What the image's list of users says."""
        for folder in (*self.above, self.base):
            for line in _lines(Path(folder, "etc/passwd")):
                words = line.split(":")
                if len(words) > 5 and words[2] == str(uid):
                    return words[5]
        return "/"


def ready_image(container: Obj, images: Images, data_dir: Path) -> ReadyImage:
    """The container's image with everything it needs in place, unpacked if need be. Blocking. Raises ImageError."""
    name = str(container.get("image") or "")
    image = images.find(name)
    command = command_line(container, image)
    if image is None:
        return ReadyImage(command)
    try:
        base = "/" if image.root is None else _folder(image.root, data_dir)
        above = tuple(_folder(layer, data_dir) for layer in reversed(image.layers))
    except FileNotFoundError as error:
        hint = f": {image.hint}" if image.hint else ""
        raise ImageMissing(f'image "{name}" needs {error.filename}, which is not there{hint}') from error
    except (OSError, tarfile.TarError) as error:
        raise ImageError(f'image "{name}": {error}') from error
    return ReadyImage(command, image.environment, image.working_dir, base, above)


def _folder(source: Path, data_dir: Path) -> str:
    found = source.stat()
    if not source.is_file():
        os.scandir(source).close()  # closed to us, or not a folder: said now, with its name
        return os.path.realpath(source)
    version = f"{os.path.realpath(source)}\n{found.st_mtime_ns}\n{found.st_size}"
    target = data_dir / STORE / hashlib.sha256(version.encode()).hexdigest()[:24]
    if not target.is_dir():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (target.parent / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                _unpack(source, target)
    return os.path.realpath(target)


def _unpack(source: Path, target: Path) -> None:
    """All of it or nothing: a name without `.part` is complete."""
    part = target.with_name(f"{target.name}.part")
    remove_tree(part)
    with tarfile.open(source) as archive:
        names = set(archive.getnames())
        if {"manifest.json", "repositories"} & names or "oci-layout" in names:
            raise ImageError(
                f"{source} is an image archive with layers of its own (docker save); give the file system it holds, "
                "as `docker export` writes it"
            )
        part.mkdir(mode=0o755)
        # Owners are kept where we may give them, by number: names mean what the image's list of users says.
        archive.extractall(part, numeric_owner=True, filter=_as_written)  # noqa: S202 - it refuses what leads outside
    part.chmod(0o755)
    part.rename(target)


def _as_written(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo:
    """Names that lead outside are refused, as by the filter "tar"; modes are kept, /tmp's sticky bit among them."""
    return tarfile.tar_filter(member, target).replace(mode=member.mode, deep=False)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
