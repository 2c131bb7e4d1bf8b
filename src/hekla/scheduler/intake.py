"""Objects on their way into the cache: one that cannot be understood is named and passed over, the rest goes on."""

from __future__ import annotations

from collections.abc import Callable

from hekla.api.kinds import Obj
from hekla.log import get_logger

log = get_logger("scheduler")


def take_in(put: Callable[[Obj], bool], obj: Obj) -> bool:
    """Whether a decision may come out differently for it. Of one that has become odd the last sane state stays."""
    try:
        return put(obj)
    except (KeyError, TypeError, ValueError) as error:
        meta = obj.get("metadata") or {}
        log.error(
            "object not understood", kind=obj.get("kind"), namespace=meta.get("namespace"), name=meta.get("name"),
            error=error,
        )  # fmt: skip
        return False
