"""Who owns whom, by uid. What to do with an item is decided here; `garbage.py` does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hekla.api.kinds import Kind, Obj

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class Item:
    """What the graph knows of an object."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    owners: tuple[Obj, ...]
    finalizers: tuple[str, ...]
    deleting: bool

    @property
    def blocks(self) -> frozenset[str]:
        """Owners (uids) whose foreground deletion waits for this item."""
        return frozenset(owner["uid"] for owner in self.owners if owner.get("blockOwnerDeletion"))

    @property
    def deletes_foreground(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers


class Fate(Enum):
    STAY = "stay"
    DELETE = "delete"
    DELETE_FOREGROUND = "delete in the foreground"
    DROP_OWNERS = "drop the owners that are gone"


def item_of(kind: Kind, obj: Obj) -> Item:
    metadata: dict[str, Any] = obj["metadata"]
    return Item(
        kind,
        metadata.get("namespace") or "",
        metadata["name"],
        metadata["uid"],
        tuple(metadata.get("ownerReferences") or ()),
        tuple(metadata.get("finalizers") or ()),
        bool(metadata.get("deletionTimestamp")),
    )


class Graph:
    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def put(self, item: Item) -> None:
        self.remove(item.uid)
        self._items[item.uid] = item
        for owner in item.owners:
            self._dependents.setdefault(owner["uid"], {})[item.uid] = None

    def remove(self, uid: str) -> Item | None:
        item = self._items.pop(uid, None)
        for owner in item.owners if item is not None else ():
            known = self._dependents.get(owner["uid"])
            if known is not None:
                known.pop(uid, None)
                if not known:
                    del self._dependents[owner["uid"]]
        return item

    def dependents(self, uid: str) -> Iterator[Item]:
        for dependent in list(self._dependents.get(uid, ())):
            yield self._items[dependent]

    def blocking(self, uid: str) -> list[Item]:
        """Dependents that a foreground deletion of `uid` waits for."""
        return [item for item in self.dependents(uid) if uid in item.blocks]


def decide(item: Item, absent: frozenset[str], graph: Graph) -> Fate:
    """`absent` are the owners (uids) known for certain not to exist."""
    if item.deleting or not item.owners:
        return Fate.STAY
    waiting = {
        owner["uid"]
        for owner in item.owners
        if owner.get("blockOwnerDeletion") and _deletes_foreground(graph.get(owner["uid"]))
    }
    solid = [owner for owner in item.owners if owner["uid"] not in absent and owner["uid"] not in waiting]
    if solid:
        return Fate.DROP_OWNERS if absent or waiting else Fate.STAY
    if waiting and any(True for _ in graph.dependents(item.uid)):
        return Fate.DELETE_FOREGROUND
    return Fate.DELETE


def gone_owners(item: Item, absent: frozenset[str], graph: Graph) -> frozenset[str]:
    """Owners that no longer hold the item: gone, or waiting to go."""
    return absent | {owner["uid"] for owner in item.owners if _deletes_foreground(graph.get(owner["uid"]))}


def _deletes_foreground(item: Item | None) -> bool:
    return item is not None and item.deletes_foreground
