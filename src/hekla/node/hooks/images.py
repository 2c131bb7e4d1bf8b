"""Images: with no container engine, the machine's own root file system is the image.

`images.yaml` in the data directory maps image names to what an image would have said:

    python:3: {entrypoint: [python3], command: [], environment: {PYTHONUNBUFFERED: "1"}, workingDir: /}

A container that gives a command of its own needs no entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hekla.api.kinds import Obj


@dataclass(frozen=True)
class Image:
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    working_dir: str = "/"


class ImageError(Exception):
    """The image cannot be run here. The text tells the person what to do."""


def load_images(path: Path) -> dict[str, Image]:
    """The table, empty where there is none. A file that does not parse is an error the person must see."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, yaml.YAMLError) as error:
        raise ImageError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise ImageError(f"{path}: expected a mapping of image names")
    return {str(name): _image(entry or {}) for name, entry in document.items()}


def command_line(container: Obj, images: dict[str, Image]) -> tuple[list[str], Image]:
    """Command and arguments as written (not yet expanded), by Kubernetes' rules, and the image behind them."""
    name = str(container.get("image") or "")
    image = images.get(name)
    command, args = list(container.get("command") or ()), list(container.get("args") or ())
    if command:
        return command + args, image or Image()
    if image is None or not (image.entrypoint or image.command):
        raise ImageError(
            f'container "{container["name"]}" gives no command and image "{name}" is not mapped: pods run from this '
            "machine's own file system, so set `command`, or map the image in images.yaml"
        )
    return [*image.entrypoint, *(args or image.command)], image


def _image(entry: dict[str, Any]) -> Image:
    return Image(
        entrypoint=tuple(map(str, entry.get("entrypoint") or ())),
        command=tuple(map(str, entry.get("command") or ())),
        environment={str(key): str(value) for key, value in (entry.get("environment") or {}).items()},
        working_dir=str(entry.get("workingDir") or "/"),
    )
