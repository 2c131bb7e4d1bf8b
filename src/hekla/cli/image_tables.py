"""Tables of images that lie beside a job's file: who runs the job without `--images` is told of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
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
