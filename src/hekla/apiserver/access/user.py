"""Who asks: a name and the groups it belongs to, as authentication found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hekla.api.kinds import Obj

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
SERVICE_ACCOUNTS_GROUP = "system:serviceaccounts"


@dataclass(frozen=True, slots=True)
class User:
    """`extra` says how it was recognised (the token's id, its pod); it takes no part in what the user may do."""

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups

    def info(self) -> Obj:
        """As reviews and admission show it."""
        shown: Obj = {"username": self.name} if self.name else {}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {key: list(values) for key, values in self.extra.items()}
        return shown


ADMIN = User("hekla-admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def account_user(namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None) -> User:
    """The user that a service account is."""
    groups = (SERVICE_ACCOUNTS_GROUP, f"{SERVICE_ACCOUNTS_GROUP}:{namespace}", AUTHENTICATED)
    return User(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", groups, uid, extra or {})
