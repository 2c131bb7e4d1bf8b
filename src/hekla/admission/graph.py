"""Whether dependencies can be followed to an end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def undefined(dependencies: Mapping[str, Sequence[str]]) -> str | None:
    """The first dependency that names nothing."""
    return next((name for names in dependencies.values() for name in names if name not in dependencies), None)


def is_acyclic(dependencies: Mapping[str, Sequence[str]]) -> bool:
    """Every name can be reached after all it depends on. Names that are not keys never can."""
    done: set[str] = set()
    waiting = dict(dependencies)
    while waiting:
        ready = [name for name, needs in waiting.items() if all(need in done for need in needs)]
        if not ready:
            return False
        done.update(ready)
        for name in ready:
            del waiting[name]
    return True
