"""Log files of components: opened for appending by the component, kept small by the supervisor."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

LARGEST_BYTES = 16 << 20


def open_log(path: Path) -> int:
    """A descriptor that always writes at the end of the file, wherever somebody else puts that."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)


def trim(path: Path, largest: int = LARGEST_BYTES) -> None:
    """Move what a log holds to `<path>.1` once it is large; who writes it goes on in the emptied file.

    Lines written between the copy and the emptying are lost: the price of not asking the component to reopen it.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size <= largest:
            return
        older = path.with_name(f"{path.name}.1")
        older.unlink(missing_ok=True)
        descriptor = os.open(older, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with path.open("rb") as source, os.fdopen(descriptor, "wb") as copy:
            shutil.copyfileobj(source, copy)
        os.truncate(path, 0)
