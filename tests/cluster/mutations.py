"""Objects with one thing wrong, and what an API server says of them."""

from __future__ import annotations

import copy
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.client.transport import Request

Obj = dict[str, Any]
Path = tuple[str | int, ...]
REMOVED = object()


def mutants(right: Obj) -> Iterator[tuple[str, Obj]]:
    """What was changed, and the object with it; which kind it is of is not touched."""
    for path, value in parts(right):
        if path not in (("apiVersion",), ("kind",), ("metadata",)):
            for wrong in _replacements(value):
                yield f"{path} = {'removed' if wrong is REMOVED else str(wrong)[:40]}", mutated(right, path, wrong)


def parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in below:
        yield (*path, step), each
        yield from parts(each, (*path, step))


def _replacements(value: Any) -> tuple[Any, ...]:
    match value:
        case bool():
            return "x", None, not value, REMOVED
        case int():
            return -1, 0, "x", 10**10, 1.5, None, 100_000, REMOVED
        case str():
            words = ("", "A_B!", "x" * 300, "../x", "-1", "a/b/c", "UPPER", "a b", "1.5", "$(B)")
            return (*words, 5, None, REMOVED)
        case list():
            return [], {}, "x", value + value, None, REMOVED
        case _:
            return {}, [], "x", {**value, "nope": 1}, None, REMOVED


def mutated(right: Obj, path: Path, value: Any) -> Obj:
    wrong = copy.deepcopy(right)
    place: Any = wrong
    for step in path[:-1]:
        place = place[step]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return wrong


async def differences(
    real: pathlib.Path, ours: pathlib.Path, path: str, right: Obj, explained: Callable[[str], bool]
) -> list[str]:
    """Of the object as it stands, and of all its mutants, what the two clusters say differently; the first is taken."""
    async with client_from_files([real]) as one, client_from_files([ours]) as other:
        assert [await answer(each, path, right, explained) for each in (one, other)] == ["taken", "taken"]
        found = []
        for what, wrong in mutants(right):
            expected, said = await answer(one, path, wrong, explained), await answer(other, path, wrong, explained)
            if expected != said:
                found.append(f"{path.rpartition('/')[2]} {what}: {expected}, ours {said}")
        return found


async def answer(client: Client, path: str, obj: Obj, explained: Callable[[str], bool]) -> str:
    """What is said of a new object, nothing being made; what is explained is let pass."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    sent = await client.transport.send(Request("POST", f"{path}?dryRun=All", msgspec.json.encode(obj), headers))
    if sent.status < 300:
        return "taken"
    status = msgspec.json.decode(sent.body)
    causes = (status.get("details") or {}).get("causes") or []
    told = sorted({f"{cause.get('field')}: {cause['message']}" for cause in causes if not explained(cause["message"])})
    if causes and not told:
        return "taken"
    return f"{sent.status} {told or _comparable(status['message'])}"


def _comparable(message: str) -> str:
    """Go names its types and the parts that its structs are made of; we name the field."""
    return re.sub(r"Go struct field \S+ of type \S+", "Go struct field", message)
