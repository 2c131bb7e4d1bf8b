"""What a container wrote where it worked, into its own view of a folder of the machine: it goes with the container.

Who starts a program in a folder of their own expects its results there. The shim uses this module once its container
has ended: standard library only.
"""

from __future__ import annotations

import os
import stat

from hekla.node.records import UsedRecord
from hekla.node.rootfs import open_within

_MOST = 10_000
_NOBODYS = "__pycache__"


def left_files(scratch: str, folder: str) -> UsedRecord:
    """Of the working directory `folder`, where the machine has it too; empty when nothing was written there."""
    if folder == "/" or not os.path.isdir(folder):
        return {}
    try:
        # The container may have put links anywhere in it.
        top = open_within(f"{scratch}/upper", os.path.normpath(folder).lstrip("/"), create=False)
    except OSError:
        return {}
    try:
        return _count(top)
    except (OSError, RecursionError):
        # Too deep to be looked through; that must not cost the container the record of its end.
        return {}
    finally:
        os.close(top)


def _count(top: int) -> UsedRecord:
    files = size = seen = 0
    for _, folders, names, directory in os.fwalk(".", dir_fd=top):
        folders[:] = [name for name in folders if name != _NOBODYS]
        for name in names:
            try:
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except OSError:
                continue
            # A file that was deleted is remembered as a device.
            if stat.S_ISREG(found.st_mode):
                files, size = files + 1, size + found.st_size
        seen += 1 + len(names)
        if seen >= _MOST:
            break
    return {"filesLeft": files, "bytesLeft": size} if files else {}
