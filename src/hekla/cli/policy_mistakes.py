"""Misspelt actions of policies, each where it stands.

A server stops at the first policy that is wrong, and at its event before its action.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hekla.admission.policies import ACTIONS
from hekla.api.kinds import Obj
from hekla.cli.manifest import Mistake


def unknown_actions(job: Obj) -> list[Mistake]:
    """Of a Job as somebody wrote it: nothing about its shape is certain."""
    return [
        (f"{path}.action", f'Unsupported value: "{action}": supported values: {_quoted(ACTIONS)}')
        for path, policy in _policies(job)
        if isinstance(action := policy.get("action"), str) and action not in ACTIONS and "exitCode" not in policy
    ]


def _policies(job: Obj) -> Iterator[tuple[str, Obj]]:
    spec = _mapping(job.get("spec"))
    holders = [("spec", spec)]
    holders += [(f"spec.tasks[{index}]", _mapping(task)) for index, task in enumerate(_list(spec.get("tasks")))]
    for path, holder in holders:
        for index, policy in enumerate(_list(holder.get("policies"))):
            yield f"{path}.policies[{index}]", _mapping(policy)


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _mapping(value: Any) -> Obj:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
