"""Whether a file is another than it was: what is put in its place by a link, as mounted volumes are, counts as well."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp:
    """Changes when the file does. OSError while it cannot be looked at."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size
