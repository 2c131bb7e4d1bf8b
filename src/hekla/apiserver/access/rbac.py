"""Role-based access control: which rules a user has where, read from the roles and bindings in the store.

Bindings are kept by subject, so a decision looks only at those of the user and its groups. Decisions are remembered
until a role or a binding changes. Members of `system:masters` may do everything, and are never looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hekla.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind, Obj
from hekla.apiserver.access.attributes import Attributes, forbidden
from hekla.apiserver.access.rules import ALL, Rule, read_rules
from hekla.apiserver.access.user import SERVICE_ACCOUNT_PREFIX, User
from hekla.apiserver.store.following import Following
from hekla.apiserver.store.store import Entry, Key, Store

RBAC_GROUP = ROLE.group
_EVERYTHING = [Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), paths=(ALL,))]
_KINDS = (CLUSTER_ROLE, ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING)
_REMEMBERED = 20_000

# A role's place: its namespace ("" for ClusterRoles) and name.
_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` says why, where there is more to say than that no rule allows it."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Binding:
    """Read from a RoleBinding or (with no namespace) a ClusterRoleBinding."""

    kind: str
    name: str
    namespace: str
    role: _Place
    subjects: dict[str, str]
    """What each subject is looked up by, and how it is shown."""


@dataclass(slots=True)
class _Roles:
    """The present roles and bindings, as they are looked up."""

    rules: dict[_Place, list[Rule]] = field(default_factory=dict)
    bindings: dict[Key, _Binding] = field(default_factory=dict)
    of_subject: dict[str, dict[Key, _Binding]] = field(default_factory=dict)


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._following = [Following(store, f"{kind.group}/{kind.plural}") for kind in _KINDS]
        self._seen = -1
        self._roles = _Roles()
        self._decided: dict[tuple[User, Attributes], Decision] = {}

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise Forbidden unless the user may."""
        if user.is_master:
            return
        decision = self.decide(user, wanted)
        if not decision.allowed:
            raise forbidden(user.name, wanted, decision.reason)

    def decide(self, user: User, wanted: Attributes) -> Decision:
        if user.is_master:
            return Decision(True)
        self._refresh()
        if wanted.name:
            # Most grants are for all names: one decision then answers for every object.
            of_any = self._remembered(user, wanted._replace(name="", any_name=True))
            if of_any.allowed:
                return of_any
        return self._remembered(user, wanted)

    def _remembered(self, user: User, wanted: Attributes) -> Decision:
        known = self._decided.get((user, wanted))
        if known is None:
            if len(self._decided) >= _REMEMBERED:
                self._decided.clear()
            known = self._decided[user, wanted] = self._decide(user, wanted)
        return known

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """All that the user may do in a namespace ("" for what holds everywhere), and what could not be found out."""
        if user.is_master:
            return list(_EVERYTHING), []
        self._refresh()
        rules: list[Rule] = []
        troubles: list[str] = []
        for binding in self._bindings(user, namespace):
            found = self._roles.rules.get(binding.role)
            if found is None:
                troubles.append(_missing(binding.role))
            else:
                rules += found
        return rules, troubles

    def rules_of_role(self, namespace: str, name: str) -> list[Rule] | None:
        """Of a role ("" for a ClusterRole's namespace); None when there is no such role."""
        self._refresh()
        return self._roles.rules.get((namespace, name))

    def _decide(self, user: User, wanted: Attributes) -> Decision:
        troubles: list[str] = []
        for binding in self._bindings(user, wanted.namespace if wanted.resource else ""):
            rules = self._roles.rules.get(binding.role)
            if rules is None:
                troubles.append(_missing(binding.role))
            elif any(rule.allows(wanted) for rule in rules):
                return Decision(True, _granted(binding, user))
        if not troubles:
            return Decision(False)
        listed = list(dict.fromkeys(troubles))
        return Decision(False, f"RBAC: {listed[0] if len(listed) == 1 else '[' + ', '.join(listed) + ']'}")

    def _bindings(self, user: User, namespace: str) -> Iterator[_Binding]:
        """Those of the whole cluster first, as the real server looks at them."""
        found: dict[Key, _Binding] = {}
        for subject in _subjects_of(user):
            found.update(self._roles.of_subject.get(subject, {}))
        for place in ("", namespace) if namespace else ("",):
            for key in sorted(found):
                if found[key].namespace == place:
                    yield found[key]

    def _refresh(self) -> None:
        if self._store.revision == self._seen:
            return
        self._seen = self._store.revision
        for kind, following in zip(_KINDS, self._following, strict=True):
            anew, changes = following.look()
            if anew:
                self._forget(kind)
            for key, entry in changes:
                self._decided.clear()
                if kind in (ROLE, CLUSTER_ROLE):
                    self._take_role(key, entry)
                else:
                    self._take_binding(key, entry)

    def _forget(self, kind: Kind) -> None:
        self._decided.clear()
        if kind in (ROLE, CLUSTER_ROLE):
            kept = kind is CLUSTER_ROLE
            self._roles.rules = {place: found for place, found in self._roles.rules.items() if bool(place[0]) == kept}
            return
        storage = f"{kind.group}/{kind.plural}"
        for key in [key for key in self._roles.bindings if key.resource == storage]:
            self._take_binding(key, None)

    def _take_role(self, key: Key, entry: Entry | None) -> None:
        if entry is None:
            self._roles.rules.pop((key.namespace, key.name), None)
        else:
            self._roles.rules[key.namespace, key.name] = read_rules(entry.decode())

    def _take_binding(self, key: Key, entry: Entry | None) -> None:
        old = self._roles.bindings.pop(key, None)
        for subject in old.subjects if old is not None else ():
            self._roles.of_subject[subject].pop(key, None)
        if entry is None:
            return
        binding = _read_binding(key, entry.decode())
        self._roles.bindings[key] = binding
        for subject in binding.subjects:
            self._roles.of_subject.setdefault(subject, {})[key] = binding


def _read_binding(key: Key, binding: Obj) -> _Binding:
    role = binding.get("roleRef") or {}
    place = (key.namespace if role.get("kind") == ROLE.kind else "", str(role.get("name", "")))
    subjects = dict(
        subject for each in binding.get("subjects") or () if (subject := _subject(each, key.namespace)) is not None
    )
    kind = ROLE_BINDING.kind if key.namespace else CLUSTER_ROLE_BINDING.kind
    return _Binding(kind, key.name, key.namespace, place, subjects)


def _subject(subject: Obj, namespace: str) -> tuple[str, str] | None:
    name, place = str(subject.get("name", "")), subject.get("namespace") or namespace
    match subject.get("kind"):
        case "User":
            return f"user {name}", f'User "{name}"'
        case "Group":
            return f"group {name}", f'Group "{name}"'
        case "ServiceAccount" if place:
            return f"user {SERVICE_ACCOUNT_PREFIX}{place}:{name}", f'ServiceAccount "{name}/{place}"'
    return None


def _subjects_of(user: User) -> Iterator[str]:
    yield f"user {user.name}"
    for group in user.groups:
        yield f"group {group}"


def _missing(role: _Place) -> str:
    kind = ROLE if role[0] else CLUSTER_ROLE
    return f'{kind.singular}.{RBAC_GROUP} "{role[1]}" not found'


def _granted(binding: _Binding, user: User) -> str:
    role = ROLE.kind if binding.role[0] else CLUSTER_ROLE.kind
    own = set(_subjects_of(user))
    shown = next(shown for subject, shown in binding.subjects.items() if subject in own)
    place = f"{binding.name}/{binding.namespace}" if binding.namespace else binding.name
    return f'RBAC: allowed by {binding.kind} "{place}" of {role} "{binding.role[1]}" to {shown}'
