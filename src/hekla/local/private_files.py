"""Files only their owner may read, complete or absent: made with mode 0600, written, then renamed into place."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """`durable` False is for what means nothing any more once the machine has gone down."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    temporary.replace(path)
