"""Where scheduler plugins come from: entry points, and files in a folder, each under the name configurations use."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from hekla.scheduler.extension import SchedulerPlugin

PLUGIN_GROUP = "hekla.scheduler_plugins"
_MODULE_PREFIX = "hekla_scheduler_plugin_"

Load = Callable[[], type[SchedulerPlugin]]


def find_plugins(folder: Path | None = None) -> dict[str, Load]:
    """How to load each plugin by its name; a file in the folder goes before an installed plugin of the same name."""
    found: dict[str, Load] = {entry.name: entry.load for entry in entry_points(group=PLUGIN_GROUP)}
    files = sorted(folder.glob("*.py")) if folder is not None else []
    return found | {path.stem: _File(path) for path in files if not path.stem.startswith("_")}


def run_file(path: Path, name: str) -> ModuleType:
    """The file as a module of this name, run anew. Whatever the file raises is raised."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and their like look up there what their annotations mean.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> type[SchedulerPlugin]:
        """Run the file and take its one plugin class. Whatever the file raises is raised."""
        name = _MODULE_PREFIX + self._path.stem
        module = run_file(self._path, name)
        classes = [
            value
            for value in vars(module).values()
            if inspect.isclass(value) and issubclass(value, SchedulerPlugin) and value.__module__ == name
        ]
        if len(classes) != 1:
            raise ImportError(f"{self._path} must define one SchedulerPlugin, not {len(classes)}")
        return classes[0]
