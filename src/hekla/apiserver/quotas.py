"""No more in a namespace than its ResourceQuotas allow.

Nothing is recorded about what is used but the objects themselves: `check` is called while a write is being sequenced,
and counts up to the write before it. So no two writes can both take what is left, and a quota holds from the moment it
is there. `status.used` is for others to read; a controller writes it, and nobody here looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from hekla.api.kinds import RESOURCE_QUOTA, Kind, Obj
from hekla.api.meta import namespace_of
from hekla.api.pod_resources import Amount, Amounts
from hekla.api.quota import Quota, read_quota
from hekla.api.quota_tally import Tally
from hekla.api.quota_usage import CLAIMS, PODS, SERVICES, unspecified
from hekla.apiserver.request import name_details
from hekla.apiserver.store.following import Changed, FollowingNewest, newest_entries
from hekla.apiserver.store.store import Entry, Guard, Keep, Key, Remove, Store
from hekla.clock import Clock
from hekla.errors import Forbidden

_QUOTAS = f"{RESOURCE_QUOTA.group}/{RESOURCE_QUOTA.plural}"
# What can come to use more after its creation.
_GROWING = frozenset({CLAIMS, SERVICES})
# What the bytes of a pod may say that changes what it counts for. The others need not be read again.
_MARKS_OF_CHANGE = (b'"Succeeded"', b'"Failed"', b'"deletionTimestamp":', b'"activeDeadlineSeconds":')


class Quotas:
    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._changes = FollowingNewest(store, _QUOTAS)
        self._quotas: dict[str, dict[str, Quota]] = {}
        self._counts: dict[str, _Count] = {}

    def limiting(self, kind: Kind, guard: Guard, *, update: bool = False) -> Guard:
        """A guard for what another decides, unless a quota forbids that."""
        if not kind.namespaced or (update and kind.resource not in _GROWING):
            return guard
        return _Limit(self, kind, guard)

    def check(self, kind: Kind, new: Obj, current: Entry | None) -> None:
        """Raise Forbidden when the namespace has no room for the object, or for what it comes to use in an update."""
        self._catch_up()
        quotas = self._quotas.get(namespace_of(new)) if self._quotas else None
        if quotas is None:
            return
        resource, now = kind.resource, self._clock.now()
        covering = [quota for _, quota in sorted(quotas.items()) if quota.covers(resource, new)]
        for quota in covering if resource == PODS else ():
            lacking = unspecified(new, quota.names[resource])
            if lacking:
                raise _refused(kind, new, f"failed quota: {quota.key.name}: must specify {lacking}")
        old = current.decode() if current is not None and covering else None
        for quota in covering:
            more = _growth(quota.usage(resource, new, now), quota.usage(resource, old, now) if old is not None else {})
            if more:
                _check_room(kind, new, quota, more, self._used(kind, quota, now))

    def _used(self, kind: Kind, quota: Quota, now: datetime) -> Amounts:
        if kind.resource not in self._counts:
            self._counts[kind.resource] = _Count(self._store, kind)
        return self._counts[kind.resource].used(quota, now)

    def _catch_up(self) -> None:
        anew, changed = self._changes.look()
        if anew:
            there = {key for key, entry in changed if entry is not None}
            known = [Key(_QUOTAS, *quota.key) for quotas in self._quotas.values() for quota in quotas.values()]
            changed += [(key, None) for key in known if key not in there]
        for key, entry in changed:
            self._take_in(key, entry)

    def _take_in(self, key: Key, entry: Entry | None) -> None:
        known = self._quotas.get(key.namespace, {}).get(key.name)
        quota = read_quota(entry.decode()) if entry is not None else None
        if quota == known:
            # Most changes are of its status.
            return
        for count in self._counts.values():
            count.forget(key)
        if quota is not None:
            self._quotas.setdefault(key.namespace, {})[key.name] = quota
        elif known is not None:
            del self._quotas[key.namespace][key.name]
            if not self._quotas[key.namespace]:
                del self._quotas[key.namespace]


class _Limit:
    """A guard: what another decides, unless it would exceed a quota.

    The other goes first. So in a full namespace, who makes what is there already is told that, where the real server
    tells of the quota.
    """

    def __init__(self, quotas: Quotas, kind: Kind, inner: Guard) -> None:
        self._quotas = quotas
        self._kind = kind
        self._inner = inner

    def __call__(self, current: Entry | None) -> Obj | Remove | Keep:
        answer = self._inner(current)
        if isinstance(answer, dict):
            self._quotas.check(self._kind, answer, current)
        return answer


class _Count:
    """The objects of one resource, counted for every quota that was asked about."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._storage = f"{kind.group}/{kind.plural}"
        self._resource = kind.resource
        self._changes = FollowingNewest(store, self._storage)
        self._tallies: dict[str, dict[str, Tally]] = {}
        self._running: dict[Key, bytes] = {}

    def used(self, quota: Quota, now: datetime) -> Amounts:
        anew, changed = self._changes.look()
        if anew:
            self._drop_missing(changed)
        for key, entry in changed:
            if key.namespace in self._tallies:
                self._take_in(key, entry, self._tallies[key.namespace].values(), now)
        namespace, name = quota.key
        tallies = self._tallies.setdefault(namespace, {})
        if name not in tallies:
            tallies[name] = Tally(quota, self._resource)
            for key, entry in newest_entries(self._store, self._storage, namespace):
                self._count(key, entry, [tallies[name]], now)
        tallies[name].settle(now)
        return tallies[name].used

    def forget(self, key: Key) -> None:
        """A quota is not what it was."""
        self._tallies.get(key.namespace, {}).pop(key.name, None)

    def _drop_missing(self, present: Changed) -> None:
        """Changes went by unseen: what is gone was not told of. What is there is mostly known, and need not be read."""
        there = {(key.namespace, key.name) for key, entry in present if entry is not None}
        self._running = {key: uid for key, uid in self._running.items() if (key.namespace, key.name) in there}
        for namespace, tallies in self._tallies.items():
            for tally in tallies.values():
                for name in tally.names:
                    if (namespace, name) not in there:
                        tally.drop(name)

    def _take_in(self, key: Key, entry: Entry | None, tallies: Iterable[Tally], now: datetime) -> None:
        uid = self._running.get(key)
        if uid is None or entry is None or uid not in entry.value or _may_have_changed(entry):
            self._running.pop(key, None)
            self._count(key, entry, tallies, now)

    def _count(self, key: Key, entry: Entry | None, tallies: Iterable[Tally], now: datetime) -> None:
        # Of most kinds it only matters that they are there.
        obj = entry.decode() if entry is not None and self._resource in (PODS, SERVICES, CLAIMS) else {}
        if entry is not None and self._resource == PODS and not _may_have_changed(entry):
            self._running[key] = str(obj["metadata"]["uid"]).encode()
        for tally in tallies:
            if entry is None:
                tally.drop(key.name)
            else:
                tally.put(key.name, obj, now)


def _may_have_changed(entry: Entry) -> bool:
    return any(mark in entry.value for mark in _MARKS_OF_CHANGE)


def _growth(new: Amounts, old: Amounts) -> Amounts:
    more = {name: amount - old[name] if name in old else amount for name, amount in new.items()}
    return {name: amount for name, amount in more.items() if amount.value > 0}


def _check_room(kind: Kind, obj: Obj, quota: Quota, more: Amounts, used: Amounts) -> None:
    over = [name for name in sorted(more) if (used[name] + more[name]).value > quota.hard[name].value]
    if over:
        asked, taken, most = (_show(amounts, over) for amounts in (more, used, quota.hard))
        why = f"exceeded quota: {quota.key.name}, requested: {asked}, used: {taken}, limited: {most}"
        raise _refused(kind, obj, why)


def _show(amounts: Mapping[str, Amount], names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)


def _refused(kind: Kind, obj: Obj, why: str) -> Forbidden:
    name = str(obj["metadata"].get("name", ""))
    return Forbidden(f'{kind.resource} "{name}" is forbidden: {why}', details=name_details(kind, name))
