"""A configuration with a plugin in it that is being tried, and the same without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hekla.scheduler.config import Config, ConfigError, parse_config
from hekla.scheduler.configtext import read_document

Document = Mapping[str, Any]


def as_document(text: str, source: str) -> Document:
    """The text of a configuration file, of which only the form is looked at."""
    document, faults = read_document(text)
    if faults:
        raise ConfigError(source, faults)
    _tiers(document, source)
    return dict(document)


def with_plugin(document: Document, file: Path, arguments: Mapping[str, Any]) -> Config:
    """The plugin stands where the configuration names it, else in a tier of its own at the end."""
    tiers = _tiers(document, "config")
    entries = [entry for tier in tiers for entry in tier if entry["name"] == file.stem]
    if not entries:
        entries = [{"name": file.stem}]
        tiers.append(entries)
    for entry in entries:
        entry["arguments"] = {**(entry.get("arguments") or {}), **arguments}
    return _parse(document, tiers, file)


def without_plugin(document: Document, file: Path) -> Config:
    tiers = [[entry for entry in tier if entry["name"] != file.stem] for tier in _tiers(document, "config")]
    return _parse(document, tiers, file)


def _tiers(document: Any, source: str) -> list[list[dict[str, Any]]]:
    """Those of a file; a case may write a tier as a list, and a plugin as its name."""
    if not isinstance(document, Mapping) or not isinstance(document.get("tiers"), list):
        raise ConfigError(source, ["must be a mapping with `actions` and `tiers`"])
    tiers: list[Any] = [tier.get("plugins") if isinstance(tier, dict) else tier for tier in document["tiers"]]
    if not all(isinstance(tier, list) and all(map(_names_plugin, tier)) for tier in tiers):
        raise ConfigError(source, ["tiers: each must have a list `plugins`, and each plugin a `name`"])
    return [[{"name": each} if isinstance(each, str) else dict(each) for each in tier] for tier in tiers]


def _names_plugin(entry: Any) -> bool:
    return isinstance(entry, str) or (isinstance(entry, dict) and isinstance(entry.get("name"), str))


def _parse(document: Document, tiers: list[list[dict[str, Any]]], file: Path) -> Config:
    import yaml

    whole = {**document, "tiers": [{"plugins": tier} for tier in tiers]}
    return parse_config(yaml.safe_dump(whole), source=f"configuration with {file.name}", plugins_dir=file.parent)
