"""Claims, volumes, classes and attach limits as the informers tell of them, and what is promised to pods on their way.

A promise counts from the decision on as if it stood in the objects already, until its pod is bound or given up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from hekla.api.kinds import Obj
from hekla.api.meta import Key, key_of, name_of
from hekla.scheduler.storage import (
    Claim,
    ClaimChoice,
    Storage,
    StorageClass,
    Volume,
    read_attach_limits,
    read_claim,
    read_storage_class,
    read_volume,
)

K = TypeVar("K")
V = TypeVar("V")


class StorageTable:
    """The `put_` and `remove_` methods answer whether something has changed."""

    def __init__(self) -> None:
        self.claims: dict[Key, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._limits: dict[str, Mapping[str, int]] = {}
        self._promised: dict[str, Sequence[ClaimChoice]] = {}  # by the uid of the pod

    def put_claim(self, obj: Obj) -> bool:
        return _put(self.claims, key_of(obj), read_claim(obj))

    def remove_claim(self, obj: Obj) -> bool:
        return self.claims.pop(key_of(obj), None) is not None

    def put_volume(self, obj: Obj) -> bool:
        return _put(self.volumes, name_of(obj), read_volume(obj))

    def remove_volume(self, obj: Obj) -> bool:
        return self.volumes.pop(name_of(obj), None) is not None

    def put_class(self, obj: Obj) -> bool:
        return _put(self._classes, name_of(obj), read_storage_class(obj))

    def remove_class(self, obj: Obj) -> bool:
        return self._classes.pop(name_of(obj), None) is not None

    def put_limits(self, obj: Obj) -> bool:
        """A CSINode has the name of its node."""
        limits = read_attach_limits(obj)
        return _put(self._limits, name_of(obj), limits) if limits else self.remove_limits(obj)

    def remove_limits(self, obj: Obj) -> bool:
        return self._limits.pop(name_of(obj), None) is not None

    def promise(self, uid: str, choices: Sequence[ClaimChoice]) -> None:
        if choices:
            self._promised[uid] = choices

    def release(self, uid: str) -> None:
        self._promised.pop(uid, None)

    def snapshot(self) -> Storage:
        claims, volumes = dict(self.claims), dict(self.volumes)
        for choice in (choice for choices in self._promised.values() for choice in choices):
            claim, volume = claims.get(choice.claim), volumes.get(choice.volume)
            if volume is not None and volume.claim is None:
                volumes[choice.volume] = replace(volume, claim=choice.claim)
            elif claim is not None and not choice.volume:
                claims[choice.claim] = replace(claim, node=choice.node)
        return Storage(claims, volumes, dict(self._classes), dict(self._limits))


def _put(table: dict[K, V], key: K, row: V) -> bool:
    known = table.get(key)
    table[key] = row
    return known != row
