"""Label and field selectors over stored objects, without decoding the same bytes twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.selector import InvalidSelector, Selector, parse_field_selector, parse_label_selector
from hekla.apiserver.resource import Resource
from hekla.apiserver.store.store import Entry
from hekla.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or watch wants to see."""

    resource: Resource
    namespace: str = ""
    labels: Selector | None = None
    fields: tuple[tuple[str, bool, str], ...] = ()

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    def matches(self, entry: Entry) -> bool:
        if self.namespace and entry.key.namespace != self.namespace:
            return False
        if self.everything:
            return True
        labels, fields = _index(entry, self.resource)
        if self.labels and not self.labels.matches(labels):
            return False
        return all((fields.get(name, "") == value) is equal for name, equal, value in self.fields)


def read_selection(resource: Resource, namespace: str, query: dict[str, str], name: str = "") -> Selection:
    try:
        labels = parse_label_selector(query["labelSelector"]) if query.get("labelSelector") else None
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except InvalidSelector as error:
        raise BadRequest(str(error)) from None
    for field, _, _ in fields:
        if field not in resource.fields:
            raise BadRequest(_unknown_field(field, resource))
    if name:
        fields = (*fields, ("metadata.name", True, name))
    return Selection(resource, namespace, labels, fields)


def _unknown_field(field: str, resource: Resource) -> str:
    # parity: kinds with fields of their own word it differently.
    if resource.fields[2:]:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _index(entry: Entry, resource: Resource) -> tuple[dict[str, str], dict[str, str]]:
    if entry.note is None:
        obj = entry.decode()
        fields = {field: _field(obj, field) for field in resource.fields}
        entry.note = (obj["metadata"].get("labels") or {}, fields)
    note: tuple[dict[str, str], dict[str, str]] = entry.note
    return note


def _field(obj: Obj, path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, dict):
        value = value.get("component")
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if path in ("spec.unschedulable", "spec.hostNetwork") else ""
    return str(value)
