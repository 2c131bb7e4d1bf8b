"""Whether pods have room on the nodes they are bound to: what nodes offer, against what their pods ask for.

Used only where somebody asks that a gang's bindings be checked as one; a single binding is taken as it comes, as the
real server does. Like the addresses of Services, what is used is read off the pods themselves.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from hekla.api.kinds import NODE, POD, Obj
from hekla.api.pod_resources import pod_requests
from hekla.api.quantity import format_decimal, parse
from hekla.apiserver.store.following import Following
from hekla.apiserver.store.store import Entry, Key, Store

Needs = dict[str, Decimal]
_FINISHED = ("Succeeded", "Failed")
_MARKS_OF_THE_FINISHED = tuple(f'"phase":"{phase}"'.encode() for phase in _FINISHED)
_MARK_OF_THE_BOUND = b'"nodeName":"'


class _Held(NamedTuple):
    revision: int
    uid: bytes
    node: str
    needs: Needs


def needs_of(pod: Obj) -> Needs:
    """What a pod takes away from its node, itself included."""
    needs = {name: amount.value for name, amount in pod_requests(pod["spec"]).items() if amount.value > 0}
    return {**needs, "pods": Decimal(1)}


class Claims:
    """Room asked for step by step, on top of what is used. Good for one moment only: no write may come between."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._free: dict[str, Needs | None] = {}

    def take(self, node: str, needs: Needs) -> str:
        """Why the node has no room for it; when it has, it is taken and nothing is said."""
        if node not in self._free:
            self._free[node] = self._room.free(node)
        free = self._free[node]
        if free is None:
            return f'node "{node}" not found'
        lacking = [name for name, amount in needs.items() if free.get(name, Decimal(0)) < amount]
        if lacking:
            return f'node "{node}" has no room: ' + ", ".join(
                f"{name} {_show(needs[name])} asked, {_show(free.get(name, Decimal(0)))} free" for name in lacking
            )
        for name, amount in needs.items():
            free[name] -= amount
        return ""


class Room:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._pods = Following(store, f"{POD.group}/{POD.plural}")
        self._held: dict[Key, _Held] = {}
        self._used: dict[str, Needs] = {}

    def claims(self) -> Claims:
        """Counted up to the newest write, durable or not."""
        anew, changed = self._pods.look()
        if anew:
            self._held, self._used = {}, {}
        for key, entry in changed:
            self._take_in(key, entry)
        for key, entry in self._pods.in_flight():
            self._take_in(key, entry)
        return Claims(self)

    def free(self, node: str) -> Needs | None:
        entry = self._store.newest(Key(f"{NODE.group}/{NODE.plural}", "", node))
        if entry is None:
            return None
        allocatable = (entry.decode().get("status") or {}).get("allocatable") or {}
        used = self._used.get(node, {})
        return {name: parse(amount) - used.get(name, 0) for name, amount in allocatable.items()}

    def _take_in(self, key: Key, entry: Entry | None) -> None:
        held = self._held.get(key)
        if held is not None:
            if entry is not None and held.revision == entry.revision:
                return
            if entry is not None and held.uid in entry.value and not _may_be_finished(entry.value):
                return
            self._let_go(key, held)
        # Most changes of pods are of no interest here: do not read them.
        if entry is None or _MARK_OF_THE_BOUND not in entry.value:
            return
        pod = entry.decode()
        node = pod["spec"].get("nodeName")
        if not node or (pod.get("status") or {}).get("phase") in _FINISHED:
            return
        held = self._held[key] = _Held(entry.revision, pod["metadata"]["uid"].encode(), node, needs_of(pod))
        used = self._used.setdefault(node, {})
        for name, amount in held.needs.items():
            used[name] = used.get(name, Decimal(0)) + amount

    def _let_go(self, key: Key, held: _Held) -> None:
        del self._held[key]
        used = self._used[held.node]
        for name, amount in held.needs.items():
            used[name] -= amount
        if not used["pods"]:
            del self._used[held.node]


def _may_be_finished(value: bytes) -> bool:
    return any(mark in value for mark in _MARKS_OF_THE_FINISHED)


def _show(amount: Decimal) -> str:
    return format_decimal(amount) if amount >= 0 else f"-{format_decimal(-amount)}"
