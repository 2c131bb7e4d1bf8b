"""Resource groups: pods of a namespace, or with an annotation, are sent to their own nodes and scheduler.

The groups come from a file in upstream's form (`--admission-conf`), which is read again when it has changed. A pod is
shaped by the first group that matches it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.errors import UsageError
from hekla.file_stamp import stamp_of
from hekla.log import get_logger

log = get_logger("webhook")

RESOURCE_GROUP = "volcano.sh/resource-group"
_KEYS = ("", "namespace", "annotation")


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    name: str
    key: str = ""
    """`namespace`, `annotation`, or empty: the pod names the group itself."""
    values: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    scheduler: str = ""
    tolerations: tuple[Obj, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    affinity: Obj | None = None

    def matches(self, pod: Obj, namespace: str) -> bool:
        if self.key == "namespace":
            return namespace in self.values
        given = annotations_of(pod)
        if self.key == "annotation":
            return any(given.get(key) == value for key, value in self.annotations)
        return given.get(RESOURCE_GROUP) == self.name


def default_pod(pod: Obj, namespace: str, groups: Sequence[ResourceGroup]) -> None:
    """Send a new pod where its group says, in place."""
    group = next((one for one in groups if one.matches(pod, namespace)), None)
    if group is None:
        return
    spec = pod["spec"]
    if group.labels:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **group.labels}
    if group.affinity and not spec.get("affinity"):
        spec["affinity"] = group.affinity
    if group.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *group.tolerations]
    if group.scheduler:
        spec["schedulerName"] = group.scheduler


def read_groups(text: str) -> tuple[ResourceGroup, ...]:
    """The groups of a file; UsageError with the place of what is wrong."""
    document = _read_yaml(text) or {}
    if not isinstance(document, dict) or not isinstance(document.get("resourceGroups") or [], list):
        raise UsageError("expected a mapping with a list `resourceGroups`")
    return tuple(
        _read_group(one, f"resourceGroups[{index}]") for index, one in enumerate(document.get("resourceGroups") or ())
    )


class GroupsFile:
    """The groups as the file says now. A file that has become faulty is reported, and the last good one stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = stamp_of(self._path)
        try:
            self._groups = self._read()
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None

    def groups(self) -> tuple[ResourceGroup, ...]:
        try:
            stamp = stamp_of(self._path)
            if stamp != self._read_at:
                self._read_at = stamp
                self._groups = self._read()
                log.info("resource groups read again", path=self._path, groups=len(self._groups))
        except (OSError, UsageError) as error:
            log.error("resource groups kept as they were", path=self._path, error=error)
        return self._groups

    def _read(self) -> tuple[ResourceGroup, ...]:
        try:
            return read_groups(self._path.read_text("utf-8"))
        except UnicodeDecodeError:
            raise UsageError("not text in UTF-8") from None


def _read_group(given: Any, place: str) -> ResourceGroup:
    if not isinstance(given, dict):
        raise UsageError(f"{place}: expected a mapping")
    chosen = _typed(given.get("object") or {}, dict, f"{place}.object")
    key = str(chosen.get("key") or "")
    if key not in _KEYS:
        raise UsageError(f"{place}.object.key: {key!r} is none of namespace, annotation")
    values = _typed(chosen.get("value") or [], list, f"{place}.object.value")
    of_annotations = key == "annotation"
    pairs = [_pair(value, f"{place}.object.value") for value in values] if of_annotations else []
    labels = _typed(given.get("labels") or {}, dict, f"{place}.labels")
    tolerations = _typed(given.get("tolerations") or [], list, f"{place}.tolerations")
    return ResourceGroup(
        name=_text(given.get("resourceGroup"), f"{place}.resourceGroup"),
        key=key,
        values=() if of_annotations else tuple(_text(value, f"{place}.object.value") for value in values),
        annotations=tuple(pair for found in pairs for pair in found),
        scheduler=_text(given.get("schedulerName"), f"{place}.schedulerName"),
        tolerations=tuple(_typed(one, dict, f"{place}.tolerations[{index}]") for index, one in enumerate(tolerations)),
        labels=_texts(labels, f"{place}.labels"),
        affinity=_affinity(given.get("affinity"), f"{place}.affinity"),
    )


def _pair(value: Any, place: str) -> list[tuple[str, str]]:
    """An annotation is written as YAML in a string: `volcano.sh/kind: batch`."""
    try:
        found = _read_yaml(value) if isinstance(value, str) else value
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
    return list(_texts(_typed(found, dict, place), place).items())


def _read_yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"not YAML: {error}") from None
    except (ValueError, LookupError, AttributeError):
        raise UsageError("not YAML: a value is not what its tag says") from None
    except RecursionError:
        raise UsageError("not YAML that can be read: too deep") from None


def _texts(values: Obj, place: str) -> dict[str, str]:
    return {_text(name, place): _text(value, f"{place}.{name}") for name, value in values.items()}


def _text(value: Any, place: str) -> str:
    """What stands for a word: YAML takes some unquoted ones for truths and numbers."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float | None):
        raise UsageError(f"{place}: expected text")
    return "" if value is None else str(value)


def _affinity(given: Any, place: str) -> Obj | None:
    if not given:
        return None
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise UsageError(f"{place}: not JSON: {error}") from None
    return dict(_typed(found, dict, place))


def _typed(value: Any, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        raise UsageError(f"{place}: expected a {'list' if kind is list else 'mapping'}")
    return value
