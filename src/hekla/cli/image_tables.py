"""Images that a run does without: tables of them beside the job's file that nobody named, and what was never pulled."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from hekla.api.kinds import Obj

_TABLE = "images.yaml"


def unused_table(file: str, job: Obj) -> str:
    """A sentence about the table beside the job's file, or its folder, that knows an image of the job; or empty."""
    folder = Path(file).parent
    for table in (folder / _TABLE, folder.parent / _TABLE):
        if table.is_file() and (said := _said_of(table, job)):
            command = f"hekla run --images {shlex.quote(str(table))} {shlex.quote(file)}"
            return f"{said}; to have it:  {command}"
    return ""


def unused_images(pods: Sequence[Obj]) -> str:
    """A sentence about the images of containers that ended badly, which may have missed what is in them; or empty."""
    statuses = [status for pod in pods for status in (pod.get("status") or {}).get("containerStatuses") or ()]
    images = [
        str(status.get("image") or "")
        for status in statuses
        if ((status.get("state") or {}).get("terminated") or {}).get("exitCode")
    ]
    if not images:
        return ""
    named = ", ".join(dict.fromkeys(images))
    return f"{named}: not pulled, pods saw this machine's own files; --runtime podman runs the image itself"


def _said_of(table: Path, job: Obj) -> str:
    from hekla.node.hooks.images import ImageError, read_table, without_tag

    try:
        known = read_table(table)
    except ImageError:
        # Whatever that is: nobody has asked for it.
        return ""
    for name in _images(job):
        image = known.get(name) or known.get(without_tag(name))
        if image is not None:
            parts = [*image.layers, *([image.root] if image.root else [])]
            missing = f" (first {image.hint})" if image.hint and not all(part.exists() for part in parts) else ""
            return f"image {name!r} is this machine's own files; {table} says what it would bring{missing}"
    return ""


def _images(job: Obj) -> Iterator[str]:
    for task in _mappings(job, "spec", "tasks"):
        for containers in ("initContainers", "containers"):
            for container in _mappings(task, "template", "spec", containers):
                yield str(container.get("image") or "")


def _mappings(within: object, *way: str) -> list[Obj]:
    """The mappings in the list that lies there; none where the file is wrong, which others tell with its line."""
    for name in way:
        within = within.get(name) if isinstance(within, dict) else None
    return [item for item in within if isinstance(item, dict)] if isinstance(within, list) else []
