"""Images: with no container engine, the machine's own root file system is the image.

A table (`--images FILE`) maps image names to what an image would have brought, every part of it optional:

    python:3:
      entrypoint: [python3]
    rayproject/ray:                        # without a tag: for all of them
      layers: [~/.cache/hekla/images/ray]  # folders or tarballs put over the root, the last one on top
      environment: {RAY_USAGE_STATS_ENABLED: "0"}
      hint: run scripts/setup examples     # said when a folder or tarball is missing
    my/app:1.0:
      root: ./app.tar                      # a folder or tarball: the whole file system, in place of the machine's
      command: [serve]
      workingDir: /srv

Relative paths start at the table's folder. A container that gives a command of its own needs no entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hekla.api.kinds import Obj
from hekla.errors import HeklaError
from hekla.log import get_logger

log = get_logger("node")

OWN_FILES = "pods run from this machine's own file system"
_KEYS = ("root", "layers", "entrypoint", "command", "environment", "workingDir", "hint")


@dataclass(frozen=True)
class Image:
    """`root` None: the machine's own. `layers` go over it, the last one on top."""

    root: Path | None = None
    layers: tuple[Path, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = "/"
    user: str = ""
    hint: str = ""


class ImageError(HeklaError):
    """The image cannot be run here. The text tells the person what to do."""


class ImageMissing(ImageError):
    """Something of the image is not there, and may come: as with an image that could not be pulled yet."""


class PullFailed(ImageMissing):
    """It could not be fetched from where images come from."""


class Images:
    """The table, read again when its file changes. One that does not parse is refused, the old one stays in force."""

    def __init__(self, path: Path | None = None) -> None:
        """Raises ImageError for a table that is there and wrong; one that is not there yet may come."""
        self._path = path
        self._seen = _version(path)
        self._table = {} if path is None or self._seen is None else read_table(path)

    def find(self, name: str) -> Image | None:
        """By the whole name, else by the name without its tag or digest."""
        if self._path is not None and _version(self._path) != self._seen:
            self._seen = _version(self._path)
            try:
                self._table = read_table(self._path)
            except ImageError as error:
                log.warning("the old table of images stays in force", error=error)
        return self._table.get(name) or self._table.get(without_tag(name))


def read_table(path: Path) -> dict[str, Image]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ImageError(f"{path}: {error}") from error
    except (LookupError, AttributeError):
        raise ImageError(f"{path}: a value is not what its tag says") from None
    if not isinstance(document, dict | None):
        raise ImageError(f"{path}: expected a mapping of image names")
    return {str(name): _image(f"{path}: {name}", entry, path.parent) for name, entry in (document or {}).items()}


def command_line(container: Obj, image: Image | None) -> list[str]:
    """Command and arguments as written (not yet expanded), by Kubernetes' rules."""
    command, args = list(container.get("command") or ()), list(container.get("args") or ())
    if command:
        return command + args
    if image is None or not (image.entrypoint or image.command or args):
        found = "is not mapped" if image is None else "is mapped without entrypoint and command"
        raise ImageError(
            f'container "{container["name"]}" gives no command and image "{container.get("image") or ""}" {found}: '
            f"{OWN_FILES}, so set `command`, or map the image (--images FILE)"
        )
    return [*image.entrypoint, *(args or image.command)]


def without_tag(name: str) -> str:
    name = name.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    # The colon of `host:5000/name` belongs to a port.
    return head if colon and "/" not in tag else name


def _image(where: str, entry: Any, folder: Path) -> Image:
    if entry is None:
        entry = {}
    if not isinstance(entry, dict):
        raise ImageError(f"{where}: expected a mapping of {', '.join(_KEYS)}")
    unknown = [str(key) for key in entry if key not in _KEYS]
    if unknown:
        raise ImageError(f"{where}: unknown key {', '.join(unknown)}; known are {', '.join(_KEYS)}")
    environment = entry.get("environment") or {}
    if not isinstance(environment, dict):
        raise ImageError(f"{where}: environment must be a mapping")
    working_dir = str(entry.get("workingDir") or "/")
    if not working_dir.startswith("/"):
        raise ImageError(f"{where}: workingDir must begin with /")
    return Image(
        root=folder / Path(str(entry["root"])).expanduser() if entry.get("root") else None,
        layers=tuple(folder / Path(each).expanduser() for each in _words(where, entry, "layers")),
        entrypoint=_words(where, entry, "entrypoint"),
        command=_words(where, entry, "command"),
        environment={str(key): str(value) for key, value in environment.items()},
        working_dir=working_dir,
        hint=str(entry.get("hint") or ""),
    )


def _words(where: str, entry: dict[str, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, str | int | float) for each in value):
        raise ImageError(f"{where}: {key} must be a list of words")
    return tuple(map(str, value))


def _version(path: Path | None) -> tuple[int, int, int] | None:
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found else None
