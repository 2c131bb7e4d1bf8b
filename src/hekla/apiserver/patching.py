"""The three patches as functions of values: JSON Patch, merge patch, strategic merge patch.

The current object may be changed and used in the result; the caller hands over a copy of its own.
"""

from __future__ import annotations

from typing import Any

from hekla.api.meta import count_of
from hekla.apiserver.schema import ANYTHING, Node

OPERATIONS_LIMIT = 10_000
COPY_LIMIT = 3 * 1024 * 1024


class PatchRefused(Exception):
    """The patch does not apply; the message says which operation and why."""


class MergeKeyMissing(Exception):
    """An element of a merged list does not say which element it is."""


class PatchTooLarge(Exception):
    pass


def merge_patch(current: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = current if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(document: Any, operations: Any) -> Any:
    """RFC 6902, with budgets for the number of operations and for what `copy` multiplies."""
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise PatchRefused("a JSON patch is a list of operations")
    if len(operations) > OPERATIONS_LIMIT:
        raise PatchTooLarge
    copied = 0
    for operation in operations:
        if operation.get("op") == "copy":
            copied += len(repr(_read(document, operation.get("from"), "copy")))
            if copied > COPY_LIMIT:
                raise PatchRefused(f"Unable to complete the copy, the accumulated size increase exceeds {COPY_LIMIT}")
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation.get("op"), operation.get("path")
    match kind:
        case "add":
            return _add(document, path, operation.get("value"), "add")
        case "remove":
            return _remove(document, path, "remove")
        case "replace":
            _read(document, path, "replace")
            return _add(
                _remove(document, path, "replace") if path else document, path, operation.get("value"), "replace"
            )
        case "move":
            value = _read(document, operation.get("from"), "move")
            return _add(_remove(document, operation.get("from"), "move"), path, value, "move")
        case "copy":
            return _add(document, path, _copy(_read(document, operation.get("from"), "copy")), "copy")
        case "test":
            if _read(document, path, "test") != operation.get("value"):
                raise PatchRefused(f"testing value {path} failed: test failed")
            return document
    raise PatchRefused(f"Unexpected kind: {kind}")


def _pointer(path: Any) -> list[str]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise PatchRefused(f"invalid path: {path!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _parent(document: Any, path: Any, verb: str) -> tuple[Any, str]:
    parts = _pointer(path)
    if not parts:
        # The whole document is in nothing that it could be taken out of.
        raise _missing(path, verb)
    for part in parts[:-1]:
        document = _step(document, part, path, verb)
    if not isinstance(document, (dict, list)):
        raise _missing(path, verb)
    return document, parts[-1]


def _step(document: Any, part: str, path: Any, verb: str) -> Any:
    if isinstance(document, dict) and part in document:
        return document[part]
    if isinstance(document, list) and (at := count_of(part)) is not None and at < len(document):
        return document[at]
    raise _missing(path, verb)


def _missing(path: Any, verb: str) -> PatchRefused:
    return PatchRefused(f'{verb} operation does not apply: doc is missing path: "{path}": missing value')


def _read(document: Any, path: Any, verb: str) -> Any:
    for part in _pointer(path):
        document = _step(document, part, path, verb)
    return document


def _add(document: Any, path: Any, value: Any, verb: str) -> Any:
    if path == "":
        return value
    parent, last = _parent(document, path, verb)
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    elif (at := count_of(last)) is not None and at <= len(parent):
        parent.insert(at, value)
    else:
        raise _missing(path, verb)
    return document


def _remove(document: Any, path: Any, verb: str) -> Any:
    parent, last = _parent(document, path, verb)
    _step(parent, last, path, verb)
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[int(last)]
    return document


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(below) for name, below in value.items()}
    return [_copy(below) for below in value] if isinstance(value, list) else value


def strategic_patch(current: Any, patch: Any, node: Node) -> Any:
    """Kubernetes' own patch: lists with a merge key are merged by it; `$patch`, `$retainKeys` and friends obeyed."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    result: dict[str, Any] = current if isinstance(current, dict) else {}
    if isinstance(patch.get("$retainKeys"), list):
        result = {name: value for name, value in result.items() if name in patch["$retainKeys"]}
    for name, value in patch.items():
        if name.startswith("$"):
            _primitive_directive(result, name, value)
        elif value is None:
            result.pop(name, None)
        else:
            child = _child(node, name)
            result[name] = _strategic_value(result.get(name), value, child, patch.get(f"$setElementOrder/{name}"))
    return result


def _primitive_directive(result: dict[str, Any], name: str, value: Any) -> None:
    field = name.removeprefix("$deleteFromPrimitiveList/")
    if field != name and isinstance(result.get(field), list) and isinstance(value, list):
        result[field] = [each for each in result[field] if each not in value]


def _child(node: Node, name: str) -> Node:
    return (node.properties or {}).get(name) or node.additional or ANYTHING


def _strategic_value(current: Any, patch: Any, node: Node, order: Any) -> Any:
    if isinstance(patch, dict):
        return strategic_patch(current, patch, node)
    if not isinstance(patch, list) or "merge" not in node.strategy:
        return patch
    if any(isinstance(each, dict) and each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if not (isinstance(each, dict) and "$patch" in each)]
    before = current or []
    if not node.merge_key:
        merged = [*before, *(each for each in patch if each not in before)]
    else:
        merged = _merge_by_key(before, patch, node)
    return _ordered(merged, before, order if isinstance(order, list) else patch, node.merge_key)


def _merge_by_key(current: list[Any], patch: list[Any], node: Node) -> list[Any]:
    key = node.merge_key
    result = list(current)
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise MergeKeyMissing(f"map: {each} does not contain declared merge key: {key}")
        place = next((i for i, old in enumerate(result) if isinstance(old, dict) and old.get(key) == each[key]), None)
        if each.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(strategic_patch({}, each, node.items or ANYTHING))
        else:
            result[place] = strategic_patch(result[place], each, node.items or ANYTHING)
    return result


def _ordered(merged: list[Any], before: list[Any], order: list[Any], key: str) -> list[Any]:
    """Elements the patch names come in its order, the others in their old order; the two are woven together so that
    an element keeps its place among its old neighbours and a new one comes first."""
    ranks = {_identity(each, key): rank for rank, each in reversed(list(enumerate(order)))}
    places = {_identity(each, key): place for place, each in enumerate(before)}
    named = sorted((each for each in merged if _identity(each, key) in ranks), key=lambda e: ranks[_identity(e, key)])
    others = [each for each in merged if _identity(each, key) not in ranks]
    result: list[Any] = []
    while named and others:
        first = places.get(_identity(named[0], key), -1) < places.get(_identity(others[0], key), -1)
        result.append(named.pop(0) if first else others.pop(0))
    return [*result, *named, *others]


def _identity(each: Any, key: str) -> str:
    return repr(each.get(key) if key and isinstance(each, dict) else each)
