"""PodGroups, the groups built from them, and which of them are at rest.

A group is built when a snapshot needs it and kept until something in it changes. One about which a cycle had nothing
to decide rests: later cycles see only the sum of what such groups hold, until it changes. So a cycle costs by what
waits, not by what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hekla.api.meta import Key
from hekla.scheduler.filing import CompanyFiling, Filing
from hekla.scheduler.plan import GroupOutcome
from hekla.scheduler.rows import PodGroup
from hekla.scheduler.snapshot import Acquainted, Filed, Group, Holdings


class GroupTable:
    def __init__(self) -> None:
        self.rows: dict[Key, PodGroup] = {}
        self.filling: set[Key] = set()  # too few pods when last looked at
        self._built: dict[Key, Group] = {}
        self._active: set[Key] = set()
        self._order: list[Key] | None = None  # of the active ones
        self._resting: dict[Key, Group] = {}
        self._held: dict[str, Holdings] = {}
        self._filing = Filing()
        self._company = CompanyFiling()

    def put(self, row: PodGroup) -> None:
        known = self.rows.get(row.key)
        if known is None or known.created != row.created:
            self._order = None
        self.rows[row.key] = row
        self._wake(row.key)
        self._built.pop(row.key, None)

    def remove(self, key: Key) -> None:
        del self.rows[key]
        self._wake(key)
        self._built.pop(key, None)
        self._active.discard(key)
        self.filling.discard(key)
        self._order = None

    def touch(self, key: Key) -> None:
        """Something in the group has changed."""
        if self._built.pop(key, None) is not None:
            self._wake(key)

    def touch_all(self) -> None:
        self._built.clear()
        self.wake_all()

    def wake_all(self) -> None:
        """Have every group looked at again."""
        self._resting.clear()
        self._held.clear()
        self._filing.clear()
        self._company.clear()
        self._active = set(self.rows)
        self._order = None

    def settle(self, outcomes: Iterable[GroupOutcome]) -> None:
        """Let those rest about which there is nothing more to say, and note which are still being made."""
        for outcome in outcomes:
            group = outcome.group
            key = group.row.key
            if outcome.filling:
                self.filling.add(key)
            else:
                self.filling.discard(key)
            if outcome.at_rest and key in self._active and self._built.get(key) is group:
                self._active.discard(key)
                self._order = None
                self._resting[key] = group
                self._filing.add(group)
                self._company.add(group)
                held = self._held.get(group.row.queue) or Holdings.none(len(group.allocated))
                self._held[group.row.queue] = held.plus(group)

    def active(self) -> list[Key]:
        """Keys of the groups to be looked at, by age, then name."""
        if self._order is None:
            self._order = sorted(self._active, key=self._age)
        return self._order

    def unbuilt(self) -> Iterator[Key]:
        return (key for key in self._active if key not in self._built)

    def built(self, key: Key) -> Group | None:
        return self._built.get(key)

    def keep(self, group: Group) -> None:
        self._built[group.row.key] = group

    def resting(self) -> tuple[Group, ...]:
        return tuple(self._resting.values())

    def filed(self, keys: Mapping[str, frozenset[str]]) -> Filed:
        """The resting groups by labels of their pods with these keys, by namespace."""
        return self._filing.snapshot(keys, self._resting.values())

    def acquainted(self, keys: frozenset[str]) -> Acquainted:
        """The resting groups by labels of their pods with these keys, and by what their pods want of others."""
        return self._company.snapshot(keys, self._resting.values())

    def held(self) -> Mapping[str, Holdings]:
        """By queue: what the resting groups hold."""
        return dict(self._held)

    def _wake(self, key: Key) -> None:
        group = self._resting.pop(key, None)
        if group is not None:
            self._filing.remove(group)
            self._company.remove(group)
            held = self._held[group.row.queue].minus(group)
            if held.groups:
                self._held[group.row.queue] = held
            else:
                del self._held[group.row.queue]
        if key not in self._active:
            self._active.add(key)
            self._order = None

    def _age(self, key: Key) -> tuple[float, Key]:
        return (self.rows[key].created, key)
