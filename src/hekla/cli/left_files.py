"""What a job's pods wrote into what looked like the machine's folders, and is gone. Pure: objects in, lines out."""

from __future__ import annotations

from collections.abc import Sequence

from hekla.api.batch import TASK_SPEC
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.cli.usage import amount_of_bytes, used_by_container


def left_files(pods: Sequence[Obj]) -> list[str]:
    """A line for each task and folder."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for pod in pods:
        used = used_by_container(pod)
        for container in pod["spec"].get("containers") or ():
            mine = used.get(container["name"], {})
            folder = str(container.get("workingDir") or "its working directory")
            where = (annotations_of(pod).get(TASK_SPEC, ""), folder)
            if mine.get("filesLeft"):
                files, size = found.get(where, (0, 0))
                found[where] = (files + int(mine["filesLeft"]), size + int(mine.get("bytesLeft", 0)))
    return [_line(task, folder, *amounts) for (task, folder), amounts in found.items()]


def _line(task: str, folder: str, files: int, size: int) -> str:
    unit = " bytes" if size < 1 << 10 else ""
    what = f"{files} file{'s' if files > 1 else ''}, {amount_of_bytes(size)}{unit}"
    return f"what {task} wrote below {folder} ({what}) went with its pods: docs/files.md tells how to keep it"
