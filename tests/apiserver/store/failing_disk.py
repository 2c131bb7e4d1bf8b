"""Disks that fail, as SQLite file systems: one whose power can be cut, one that returns an error at the n-th write."""

from __future__ import annotations

import random
from pathlib import Path

import apsw


class PowerCutDisk(apsw.VFS):
    """Remembers what has been synced. `cut` leaves files as a power cut may: synced bytes, and any of the others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, _Image] = {}
        super().__init__(name, base="")

    def xOpen(self, name: object, flags: list[int]) -> apsw.VFSFile:
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.files.pop(filename, None)

    def cut(self, folder: Path, rng: random.Random) -> None:
        for filename, image in self.files.items():
            (folder / Path(filename).name).write_bytes(image.after_cut(rng))


class _Image:
    def __init__(self) -> None:
        self.synced = bytearray()
        self.pending: list[tuple[int, bytes] | int] = []

    def sync(self) -> None:
        for change in self.pending:
            self._apply(self.synced, change)
        self.pending.clear()

    def after_cut(self, rng: random.Random) -> bytes:
        content = bytearray(self.synced)
        for change in self.pending:
            if rng.random() < 0.5:
                self._apply(content, change)
        return bytes(content)

    @staticmethod
    def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
        if isinstance(change, int):
            del content[change:]
            return
        offset, data = change
        content.extend(b"\0" * (offset + len(data) - len(content)))
        content[offset : offset + len(data)] = data


class _RecordedFile(apsw.VFSFile):
    def __init__(self, disk: PowerCutDisk, name: object, flags: list[int]) -> None:
        super().__init__("", name, flags)
        filename = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._image = disk.files.setdefault(filename, _Image())

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._image.pending.append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._image.pending.append(size)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._image.sync()


class FailingDisk(apsw.VFS):
    """Works until `remaining` writes and syncs have been made, then every further one is an error."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.remaining = 1 << 30
        super().__init__(name, base="")

    def xOpen(self, name: object, flags: list[int]) -> apsw.VFSFile:
        return _FailingFile(self, name, flags)

    def spend(self) -> None:
        self.remaining -= 1
        if self.remaining < 0:
            raise apsw.IOError


class _FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: object, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.spend()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.spend()
        super().xSync(flags)
