"""What the LimitRanges of a namespace make of its new pods and claims: `api/limit_range.py` decides."""

from __future__ import annotations

from hekla.api.kinds import LIMIT_RANGE, POD, Kind, Obj
from hekla.api.limit_range import LimitRange, claim_objections, fill_in, joined, pod_objections, read_limit_range
from hekla.api.meta import namespace_of
from hekla.apiserver.request import name_details
from hekla.apiserver.store.following import FollowingNewest
from hekla.apiserver.store.store import Key, Store
from hekla.errors import Forbidden


class LimitRanges:
    def __init__(self, store: Store) -> None:
        self._changes = FollowingNewest(store, f"{LIMIT_RANGE.group}/{LIMIT_RANGE.plural}")
        self._ranges: dict[str, dict[str, LimitRange]] = {}

    def fill_in(self, pod: Obj) -> None:
        """Give a new pod what it does not ask for."""
        for limit_range in self._of(pod):
            fill_in(limit_range, pod)

    def check(self, kind: Kind, obj: Obj) -> None:
        """Raise Forbidden when a pod or a claim asks for more or less than it may."""
        for limit_range in self._of(obj):
            objections = pod_objections(limit_range, obj) if kind == POD else claim_objections(limit_range, obj)
            if objections:
                name = str(obj["metadata"].get("name", ""))
                why = f'{kind.resource} "{name}" is forbidden: {joined(objections)}'
                raise Forbidden(why, details=name_details(kind, name))

    def _of(self, obj: Obj) -> list[LimitRange]:
        """Those of the object's namespace, by name."""
        anew, changed = self._changes.look()
        if anew:
            self._ranges = {}
        for key, entry in changed:
            self._take_in(key, read_limit_range(entry.decode()) if entry is not None else None)
        if not self._ranges:
            return []
        return [found for _, found in sorted(self._ranges.get(namespace_of(obj), {}).items())]

    def _take_in(self, key: Key, limit_range: LimitRange | None) -> None:
        there = self._ranges.setdefault(key.namespace, {})
        if limit_range is not None:
            there[key.name] = limit_range
            return
        there.pop(key.name, None)
        if not there:
            del self._ranges[key.namespace]
