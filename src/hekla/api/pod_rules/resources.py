"""Amounts that a container asks for and is limited to."""

from __future__ import annotations

from typing import Any

from hekla.api.field import Problem, forbidden, invalid, required
from hekla.api.kinds import Obj
from hekla.api.quantity import InvalidQuantity, canonical, parse
from hekla.api.resource_names import HUGE_PAGES, container_name_problems, may_overcommit


def resource_problems(resources: Obj, path: str) -> list[Problem]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    problems: list[Problem] = []
    for which, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = f"{path}.{which}[{name}]"
            problems += (
                container_name_problems(name, where)
                + amount_problems(amount, where)
                + _whole_problems(name, amount, where)
            )
            if which == "requests":
                problems += _against_limit(name, amount, limits, path)
    named = {*limits, *requests}
    if any(name.startswith(HUGE_PAGES) for name in named) and not {"cpu", "memory"} & named:
        problems.append(forbidden(path, "HugePages require cpu or memory"))
    return problems


def amount_problems(amount: Any, path: str) -> list[Problem]:
    try:
        return [invalid(path, str(amount), "must be greater than or equal to 0")] if parse(amount) < 0 else []
    except InvalidQuantity as error:
        return [invalid(path, str(amount), str(error))]


def _against_limit(name: str, amount: Any, limits: Obj, path: str) -> list[Problem]:
    try:
        asked, limit = parse(amount), parse(limits[name]) if name in limits else None
    except InvalidQuantity:
        return []
    if limit is None:
        missing = "Limit must be set for non overcommitable resources"
        return [] if may_overcommit(name) else [required(f"{path}.limits", missing)]
    if not may_overcommit(name) and asked != limit:
        why = f"must be equal to {name} limit of {canonical(limits[name])}"
    elif asked > limit:
        why = f"must be less than or equal to {name} limit of {canonical(limits[name])}"
    else:
        return []
    return [invalid(f"{path}.requests", canonical(amount), why)]


def _whole_problems(name: str, amount: Any, path: str) -> list[Problem]:
    """Devices come whole, huge pages in pages."""
    try:
        value = parse(amount)
        if name.startswith(HUGE_PAGES):
            size = parse(name.removeprefix(HUGE_PAGES))
            fits = size > 0 and value % size == 0
            text = f"{canonical(amount)} is not positive integer multiple of {name}"
            return [] if fits else [invalid(path, canonical(amount), text)]
    except InvalidQuantity:
        return []
    if may_overcommit(name) or value == value.to_integral_value():
        return []
    return [invalid(path, canonical(amount), "must be an integer")]
