"""Acting as somebody else (`kubectl --as`): for those granted the verb `impersonate` on that user and its groups."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from hekla.apiserver.access.attributes import Attributes
from hekla.apiserver.access.rbac import Authorizer
from hekla.apiserver.access.user import ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, User, account_user
from hekla.errors import BadRequest, InternalError

_USER, _GROUP, _UID, _EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
IMPERSONATION_HEADERS = frozenset({_USER, _GROUP, _UID})
_AUTHENTICATION = "authentication.k8s.io"

Headers = Iterable[tuple[bytes, bytes]]


def impersonated(user: User, headers: Headers, authorizer: Authorizer) -> User:
    """Who the request is to count as coming from. Raises Forbidden when this user may not pretend to be that one."""
    told = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    name = next((value for key, value in told if key == _USER), "")
    groups = [value for key, value in told if key == _GROUP]
    uid = next((value for key, value in told if key == _UID), "")
    extra: dict[str, list[str]] = {}
    for key, value in told:
        if key.startswith(_EXTRA):
            extra.setdefault(unquote(key.removeprefix(_EXTRA)), []).append(value)
    if not name:
        if groups or uid or extra:
            raise InternalError(
                "Internal error occurred: requested a group, uid or extra to be impersonated without a user"
            )
        return user
    for wanted in _wanted(name, groups, uid, extra):
        authorizer.check(user, wanted)
    return _become(name, groups, uid, {key: tuple(values) for key, values in extra.items()})


def _wanted(name: str, groups: list[str], uid: str, extra: dict[str, list[str]]) -> Iterable[Attributes]:
    namespace, account = _account(name)
    if account:
        yield Attributes("impersonate", "", "serviceaccounts", "", namespace, account)
    else:
        yield Attributes("impersonate", "", "users", "", "", name)
    for group in groups:
        yield Attributes("impersonate", "", "groups", "", "", group)
    for key, values in extra.items():
        for value in values:
            yield Attributes("impersonate", _AUTHENTICATION, "userextras", key, "", value)
    if uid:
        yield Attributes("impersonate", _AUTHENTICATION, "uids", "", "", uid)


def _become(name: str, groups: list[str], uid: str, extra: dict[str, tuple[str, ...]]) -> User:
    namespace, account = _account(name)
    if name == ANONYMOUS.name and not groups:
        return ANONYMOUS
    given = list(groups)
    if account and not groups:
        given = list(account_user(namespace, account).groups)
    if AUTHENTICATED not in given and name != ANONYMOUS.name:
        given.append(AUTHENTICATED)
    return User(name, tuple(given), uid, extra)


def _account(name: str) -> tuple[str, str]:
    """Namespace and name of the service account a user name means; empty when it means none."""
    if not name.startswith(SERVICE_ACCOUNT_PREFIX):
        return "", ""
    namespace, colon, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if not colon or not namespace or not account:
        raise BadRequest(f'invalid service account name "{name}"')
    return namespace, account
