"""Nobody grants what they do not have: writing a role needs its rules or the verb `escalate`, binding one its rules or
the verb `bind`."""

from __future__ import annotations

from hekla.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind, Obj
from hekla.api.meta import name_of, namespace_of
from hekla.apiserver.access.attributes import Attributes
from hekla.apiserver.access.rbac import RBAC_GROUP, Authorizer
from hekla.apiserver.access.rules import ALL, Rule, compact, read_rules, uncovered
from hekla.apiserver.access.user import User
from hekla.apiserver.request import name_details, not_found
from hekla.errors import Forbidden

_ROLES = (ROLE, CLUSTER_ROLE)
_BINDINGS = (ROLE_BINDING, CLUSTER_ROLE_BINDING)
_EVERYTHING = [Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), paths=(ALL,))]


class Escalation:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: User, kind: Kind, obj: Obj, old: Obj | None) -> None:
        """Raise Forbidden when writing this object would hand on more than its writer has."""
        if kind.group != RBAC_GROUP or user.is_master:
            return
        if kind in _ROLES:
            self._check_role(user, kind, obj, old)
        elif kind in _BINDINGS:
            self._check_binding(user, kind, obj, old)

    def _check_role(self, user: User, kind: Kind, role: Obj, old: Obj | None) -> None:
        same = old is not None and all(old.get(field) == role.get(field) for field in ("rules", "aggregationRule"))
        if same or self._may(user, "escalate", kind, namespace_of(role), name_of(role)):
            return
        if role.get("aggregationRule") and uncovered(_EVERYTHING, self._authorizer.rules_of(user, "")[0]):
            why = "must have cluster-admin privileges to use an aggregationRule"
            raise _refused(kind, role, why)
        self._check_rules(user, kind, role, read_rules(role))

    def _check_binding(self, user: User, kind: Kind, binding: Obj, old: Obj | None) -> None:
        same = old is not None and all(old.get(field) == binding.get(field) for field in ("roleRef", "subjects"))
        reference = binding.get("roleRef") or {}
        role_kind = ROLE if reference.get("kind") == ROLE.kind else CLUSTER_ROLE
        name = str(reference.get("name", ""))
        if same or self._may(user, "bind", role_kind, namespace_of(binding), name):
            return
        rules = self._authorizer.rules_of_role(namespace_of(binding) if role_kind is ROLE else "", name)
        if rules is None:
            # parity: the refusal names the binding's kind.
            raise not_found(kind, name)
        self._check_rules(user, kind, binding, rules)

    def _check_rules(self, user: User, kind: Kind, obj: Obj, wanted: list[Rule]) -> None:
        held, troubles = self._authorizer.rules_of(user, namespace_of(obj))
        lacking = compact(uncovered(wanted, held))
        if not lacking:
            return
        groups = " ".join(f'"{group}"' for group in user.groups)
        why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
        why += "\n".join(sorted(map(_shown, lacking)))
        if troubles:
            why += f"; resolution errors: [{', '.join(troubles)}]"
        raise _refused(kind, obj, why)

    def _may(self, user: User, verb: str, kind: Kind, namespace: str, name: str) -> bool:
        return self._authorizer.decide(user, Attributes(verb, kind.group, kind.plural, "", namespace, name)).allowed


def _refused(kind: Kind, obj: Obj, why: str) -> Forbidden:
    name = name_of(obj)
    return Forbidden(f'{kind.resource} "{name}" is forbidden: {why}', details=name_details(kind, name))


def _shown(rule: Rule) -> str:
    fields = (
        ("APIGroups", rule.groups), ("Resources", rule.resources), ("ResourceNames", rule.names),
        ("NonResourceURLs", rule.paths), ("Verbs", rule.verbs),
    )  # fmt: skip
    return "{" + ", ".join(f"{name}:[{_quoted(values)}]" for name, values in fields if values) + "}"


def _quoted(values: tuple[str, ...]) -> str:
    return " ".join(f'"{value}"' for value in values)
