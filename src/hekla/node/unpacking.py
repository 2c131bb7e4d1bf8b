"""The folders and words a container is made of: from the table of images, from podman, or the machine's own."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hekla.api.kinds import Obj
from hekla.node import syscalls as sys_
from hekla.node.hooks.images import OWN_FILES, Image, ImageError, ImageMissing, Images, command_line
from hekla.node.image_store import extract, once
from hekla.node.podman import Podman

_LONGEST_LIST = 1 << 20  # characters of an image's list of users that are read
_NOBODY = 2**32 - 1  # to the kernel: no user at all


@dataclass(frozen=True)
class ReadyImage:
    """What a container is put together from: words and folders that are there."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = "/"
    base: str = "/"  # the root; "/" is the machine's own
    above: tuple[str, ...] = ()  # folders laid over it, the top one first
    user: str = ""  # who runs in it unless the pod says: `user[:group]`, names or numbers
    about: str = ""  # what explains that a program is not there

    def home_of(self, uid: int) -> str:
        """What the image's list of users says."""
        return next((words[5] for words in self._entries("passwd", 2, str(uid)) if len(words) > 5), "/")

    def identity(self) -> tuple[int, int]:
        """The numbers of the image's user and group. Raises ImageError for a name that is not in its lists."""
        user, _, group = self.user.partition(":")
        uid, gid = (_number(user or "0"), 0) if user.isdecimal() or not user else self._numbers_of(user)
        if group:
            gid = _number(group) if group.isdecimal() else self._number_of_group(group)
        return uid, gid

    def _numbers_of(self, user: str) -> tuple[int, int]:
        for words in self._entries("passwd", 0, user):
            return _number(words[2]), _number(words[3])
        raise ImageError(f"the image's user {user!r} is not in its /etc/passwd")

    def _number_of_group(self, group: str) -> int:
        for words in self._entries("group", 0, group):
            return _number(words[2])
        raise ImageError(f"the image's group {group!r} is not in its /etc/group")

    def _entries(self, table: str, column: int, value: str) -> Iterator[list[str]]:
        for folder in (*self.above, self.base):
            for line in _lines(folder, f"etc/{table}"):
                words = line.split(":")
                if len(words) > 3 and words[column] == value:
                    yield words


def ready_image(container: Obj, images: Images, data_dir: Path, podman: Podman | None = None) -> ReadyImage:
    """The container's image with everything it needs in place, unpacked if need be. Blocking. Raises ImageError.

    What the table does not know is podman's, where that is used, and otherwise the machine's own file system.
    """
    name = str(container.get("image") or "")
    image = images.find(name)
    if image is None and podman is not None:
        image = _podmans(podman, container, name)
    command = command_line(container, image)
    if image is None:
        return ReadyImage(command, about=f'image "{name}" is not mapped: {OWN_FILES} (docs/images.md)')
    try:
        base = "/" if image.root is None else _folder(image.root, data_dir)
        above = tuple(_folder(layer, data_dir) for layer in reversed(image.layers))
    except FileNotFoundError as error:
        hint = f": {image.hint}" if image.hint else ""
        raise ImageMissing(f'image "{name}" needs {error.filename}, which is not there{hint}') from error
    except (OSError, tarfile.TarError) as error:
        raise ImageError(f'image "{name}": {error}') from error
    return ReadyImage(command, image.environment, image.working_dir, base, above, image.user)


def _podmans(podman: Podman, container: Obj, name: str) -> Image:
    if not name:
        raise ImageError(f'container "{container["name"]}" names no image')
    try:
        return podman.find(name, str(container.get("imagePullPolicy") or "IfNotPresent"))
    except (OSError, tarfile.TarError) as error:
        raise ImageError(f'image "{name}": {error}') from error


def _folder(source: Path, data_dir: Path) -> str:
    found = source.stat()
    if not source.is_file():
        os.scandir(source).close()  # closed to us, or not a folder: said now, with its name
        return os.path.realpath(source)
    version = f"{os.path.realpath(source)}\n{found.st_mtime_ns}\n{found.st_size}"
    return str(once(data_dir, version, lambda target: _unpack(source, target)))


def _unpack(source: Path, target: Path) -> None:
    with tarfile.open(source) as archive:
        names = set(archive.getnames())
        if {"manifest.json", "repositories"} & names or "oci-layout" in names:
            raise ImageError(
                f"{source} is an image archive with layers of its own (docker save); give the file system it holds, "
                "as `docker export` writes it"
            )
        extract(archive, target)


def _lines(folder: str, path: str) -> list[str]:
    """Of a file in the folder; none where there is no such file. An image's links lead from its own root."""
    try:
        with ExitStack() as stack:
            root = _closed_with(stack, os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
            found = _closed_with(stack, sys_.open_in_root(root, path))
            if not stat.S_ISREG(os.fstat(found).st_mode):
                return []
            with Path(f"/proc/self/fd/{found}").open(errors="replace") as table:
                return table.read(_LONGEST_LIST).splitlines()
    except OSError:
        return []


def _closed_with(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _number(text: str) -> int:
    number = int(text) if text.isdecimal() and len(text) < 11 else _NOBODY
    if number >= _NOBODY:
        raise ImageError(f"the image's user or group has the number {text!r}, which is none")
    return number
