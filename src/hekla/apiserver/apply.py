"""Server-side apply: the fields an applier names become its own; those it no longer names go.

Ownership is kept in `managedFields`, one entry per applier. Other writes (create, update, patch) leave no entry: a
field nobody applied belongs to nobody, and applying it raises no conflict.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.meta import timestamp
from hekla.apiserver.resource import Resource
from hekla.apiserver.schema import ANYTHING, Node
from hekla.errors import Conflict

Fields = dict[str, Any]
_NOT_OWNED = ("apiVersion", "kind")
_META_NOT_OWNED = ("name", "namespace", "managedFields", "uid", "resourceVersion", "creationTimestamp", "generation")
# Of Kubernetes' own kinds, whose published definitions do not tell it: ports of containers and Services.
_KEY_DEFAULTS = {"protocol": "TCP"}


def apply_configuration(
    current: Obj,
    configuration: Obj,
    resource: Resource,
    *,
    manager: str,
    force: bool,
    subresource: str,
    now: datetime,
) -> Obj:
    """The object after the apply. Raises Conflict when another applier owns a field and `force` is off."""
    entries = [dict(each) for each in current["metadata"].get("managedFields") or ()]
    mine = next((each for each in entries if _is_mine(each, manager, subresource)), None)
    others = [each for each in entries if each is not mine]
    fields = _owned(configuration, resource.schema)
    _resolve_conflicts(current, configuration, fields, others, resource, manager=manager, force=force)
    if mine is not None:
        kept = [each.get("fieldsV1") or {} for each in others]
        _remove_dropped(current, mine.get("fieldsV1") or {}, [fields, *kept], resource.schema)
    result: Obj = _merge(current, configuration, resource.schema)
    entry: Obj = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": resource.kind.api_version,
        "time": timestamp(now),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        entry["subresource"] = subresource
    if mine is not None and mine.get("fieldsV1") == fields:
        entry["time"] = mine.get("time")
    result["metadata"]["managedFields"] = [*(each for each in others if each.get("fieldsV1")), entry]
    return result


def _is_mine(entry: Obj, manager: str, subresource: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == subresource
    )


def _owned(configuration: Obj, node: Node) -> Fields:
    rest = {name: value for name, value in configuration.items() if name not in _NOT_OWNED}
    metadata = rest.pop("metadata", {})
    rest["metadata"] = {name: value for name, value in metadata.items() if name not in _META_NOT_OWNED}
    if not rest["metadata"]:
        del rest["metadata"]
    return field_set(rest, node)


def field_set(value: Any, node: Node) -> Fields:
    """What a value names, as FieldsV1: `f:` fields, `k:` elements by key, `v:` elements by value."""
    fields: Fields = {}
    if isinstance(value, dict) and not node.atomic:
        for name, below in value.items():
            fields[f"f:{name}"] = field_set(below, _child(node, name))
    elif isinstance(value, list) and not node.atomic:
        for each in value:
            key = _element(each, node)
            if key is not None:
                fields[key] = {".": {}, **field_set(each, node.items or ANYTHING)}
    return fields


def _child(node: Node, name: str) -> Node:
    return (node.properties or {}).get(name) or node.additional or ANYTHING


def _element(each: Any, node: Node) -> str | None:
    """The name of a list element in a field set; None where the list is one value."""
    if node.list_type == "map" and isinstance(each, dict):
        keys = {key: each.get(key, _default_of(key, node.items or ANYTHING)) for key in node.map_keys}
        return "k:" + json.dumps(keys, separators=(",", ":"), sort_keys=True)
    if node.list_type == "set":
        return "v:" + json.dumps(each, separators=(",", ":"))
    return None


def _default_of(key: str, node: Node) -> Any:
    """What an element that leaves the key unsaid will be found by, once its defaults are filled in."""
    child = (node.properties or {}).get(key)
    if child is not None and child.has_default:
        return child.default
    return _KEY_DEFAULTS.get(key) if node.name else None


def _resolve_conflicts(
    current: Obj,
    configuration: Obj,
    fields: Fields,
    others: list[Obj],
    resource: Resource,
    *,
    manager: str,
    force: bool,
) -> None:
    causes: list[Obj] = []
    for other in others:
        theirs = other.get("fieldsV1") or {}
        clashes = _clashes(current, configuration, fields, theirs, resource.schema, "")
        if force:
            for path in clashes:
                _give_up(theirs, path[1])
        causes += [
            {"reason": "FieldManagerConflict", "message": f'conflict with "{other["manager"]}"', "field": path[0]}
            for path in clashes
        ]
    if causes and not force:
        listed = "\n".join(f"- {cause['field']}" for cause in causes)
        plural = "conflict" if len(causes) == 1 else "conflicts"
        named = causes[0]["message"].removeprefix("conflict ")
        text = f"{named}: {causes[0]['field']}" if len(causes) == 1 else f"{named}:\n{listed}"
        raise Conflict(f"Apply failed with {len(causes)} {plural}: conflict {text}", details={"causes": causes})


def _clashes(
    current: Any, wanted: Any, mine: Fields, theirs: Fields, node: Node, path: str
) -> list[tuple[str, tuple[str, ...]]]:
    """Leaves both own whose value would change."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for key, below in mine.items():
        if key == "." or key not in theirs:
            continue
        old, new, child, shown = _descend(current, wanted, key, node)
        if below and any(name != "." for name in below):
            found += [
                (where, (key, *rest)) for where, rest in _clashes(old, new, below, theirs[key], child, path + shown)
            ]
        elif old != new:
            found.append((path + shown, (key,)))
    return found


def _descend(current: Any, wanted: Any, key: str, node: Node) -> tuple[Any, Any, Node, str]:
    if key.startswith("f:"):
        name = key[2:]
        old = current.get(name) if isinstance(current, dict) else None
        return old, wanted.get(name), _child(node, name), f".{name}"
    old_list = current if isinstance(current, list) else []
    old = next((each for each in old_list if _element(each, node) == key), None)
    new = next((each for each in wanted if _element(each, node) == key), None)
    labels = json.loads(key[2:]) if key.startswith("k:") else key[2:]
    shown = ",".join(f"{k}={json.dumps(v)}" for k, v in labels.items()) if isinstance(labels, dict) else f"={labels}"
    return old, new, node.items or ANYTHING, f"[{shown}]"


def _give_up(fields: Fields, path: tuple[str, ...]) -> None:
    if len(path) == 1:
        fields.pop(path[0], None)
    elif path[0] in fields:
        _give_up(fields[path[0]], path[1:])


def _remove_dropped(current: Any, before: Fields, kept: list[Fields], node: Node) -> None:
    """Take away what this applier owned and no longer names, unless another owns it too."""
    for key, below in before.items():
        if key == ".":
            continue
        holders = [fields[key] for fields in kept if key in fields]
        if holders:
            old, _, child, _ = _descend(current, {} if key.startswith("f:") else [], key, node)
            if old is not None:
                _remove_dropped(old, below, holders, child)
        elif key.startswith("f:") and isinstance(current, dict):
            current.pop(key[2:], None)
        elif isinstance(current, list):
            current[:] = [each for each in current if _element(each, node) != key]


def _merge(current: Any, wanted: Any, node: Node) -> Any:
    if isinstance(wanted, dict) and isinstance(current, dict) and not node.atomic:
        for name, value in wanted.items():
            if name == "metadata" and node.properties is not None and "metadata" in node.properties:
                value = {key: each for key, each in value.items() if key != "managedFields"}
            current[name] = _merge(current.get(name), value, _child(node, name))
        return current
    if isinstance(wanted, list) and isinstance(current, list) and node.list_type in ("map", "set"):
        result = list(current)
        for each in wanted:
            key = _element(each, node)
            place = next((i for i, old in enumerate(result) if _element(old, node) == key), None)
            if place is None:
                result.append(each)
            else:
                result[place] = _merge(result[place], each, node.items or ANYTHING)
        return result
    return wanted
