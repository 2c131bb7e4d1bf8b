"""A configuration with a plugin in it that is being tried, and the same without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hekla.scheduler.config import Config, parse_config
from hekla.scheduler.configtext import read_document

Document = Mapping[str, Any]


def as_document(text: str) -> Document:
    """A configuration file; what is wrong with it is told by whoever makes a configuration of it."""
    document, _ = read_document(text)
    return document if isinstance(document, dict) and isinstance(document.get("tiers"), list) else {"tiers": []}


def with_plugin(document: Document, file: Path, arguments: Mapping[str, Any]) -> Config:
    """The plugin stands where the configuration names it, else in a tier of its own at the end."""
    tiers = _tiers(document)
    entries = [entry for tier in tiers for entry in tier if entry["name"] == file.stem]
    if not entries:
        entries = [{"name": file.stem}]
        tiers.append(entries)
    for entry in entries:
        entry["arguments"] = {**(entry.get("arguments") or {}), **arguments}
    return _parse(document, tiers, file)


def without_plugin(document: Document, file: Path) -> Config:
    tiers = [[entry for entry in tier if entry["name"] != file.stem] for tier in _tiers(document)]
    return _parse(document, tiers, file)


def _tiers(document: Document) -> list[list[dict[str, Any]]]:
    """Those of a file; a case may write a tier as a list, and a plugin as its name."""
    plugins = [tier["plugins"] if isinstance(tier, dict) else tier for tier in document["tiers"]]
    return [[{"name": each} if isinstance(each, str) else dict(each) for each in tier] for tier in plugins]


def _parse(document: Document, tiers: list[list[dict[str, Any]]], file: Path) -> Config:
    import yaml

    whole = {**document, "tiers": [{"plugins": tier} for tier in tiers]}
    return parse_config(yaml.safe_dump(whole), source=f"configuration with {file.name}", plugins_dir=file.parent)
