"""Service account tokens: what they claim, and whether it still holds.

A token is good while its account, and the pod, Secret or node it is bound to, exist under the very uids it names.
Nothing about tokens is stored: signature, time and the objects themselves say all there is to know.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

import msgspec

from hekla.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind, Obj
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.apiserver.access.signing import Claims, Signer
from hekla.apiserver.access.user import User, account_user
from hekla.apiserver.store.store import Key, Store
from hekla.clock import Clock

ISSUER = "https://kubernetes.default.svc"
_PRIVATE = "kubernetes.io"
_EXTRA = "authentication.kubernetes.io/"
# In this order: a node named beside a pod only tells where the pod is.
_BONDS = (POD, SECRET, NODE)
# Of so many tokens it is remembered that their signature is good; never that they still hold.
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a token, and which of the audiences asked for it was made for."""

    user: User
    audiences: tuple[str, ...]


class Tokens:
    def __init__(self, store: Store, signer: Signer, *, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._signer = signer
        self._clock = clock
        self._rng = rng
        self._verified: OrderedDict[str, tuple[Claims, User]] = OrderedDict()

    def issue(self, account: Obj, bonds: list[tuple[Kind, Obj]], audiences: list[str], *, at: int, until: int) -> str:
        """A token for an account, bound to objects (a pod and its node, a Secret, a node) or to none."""
        claims: Claims = {
            "aud": audiences,
            "exp": until,
            "iat": at,
            "iss": ISSUER,
            "jti": str(UUID(int=self._rng.getrandbits(128), version=4)),
            _PRIVATE: {
                "namespace": namespace_of(account),
                SERVICE_ACCOUNT.singular: _reference(account),
                **{kind.singular: _reference(obj) for kind, obj in bonds},
            },
            "nbf": at,
            "sub": account_user(namespace_of(account), name_of(account)).name,
        }
        return self._signer.sign(claims)

    def recognise(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> Holder | None:
        """Who holds a token that is meant for one of these audiences and holds now; None for every other text."""
        known = self._verify(token)
        if known is None:
            return None
        claims, user = known
        if not claims["nbf"] <= self._clock.now().timestamp() < claims["exp"]:
            return None
        meant_for = tuple(each for each in audiences if each in claims["aud"])
        private = claims[_PRIVATE]
        bond = next((kind for kind in _BONDS if kind.singular in private), None)
        if (
            not meant_for
            or not self._exists(SERVICE_ACCOUNT, private)
            or (bond is not None and not self._exists(bond, private))
        ):
            return None
        return Holder(user, meant_for)

    def _verify(self, token: str) -> tuple[Claims, User] | None:
        known = self._verified.get(token)
        if known is not None:
            self._verified.move_to_end(token)
            return known
        claims = self._signer.verify(token)
        if claims is None:
            return None
        known = self._verified[token] = claims, _user(claims)
        if len(self._verified) > _REMEMBERED:
            self._verified.popitem(last=False)
        return known

    def _exists(self, kind: Kind, private: Claims) -> bool:
        wanted = private[kind.singular]
        namespace = private["namespace"] if kind.namespaced else ""
        entry = self._store.get(Key(f"/{kind.plural}", namespace, wanted["name"]))
        return entry is not None and _read_identity(entry.value).metadata.uid == wanted["uid"]


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Identity(msgspec.Struct):
    """Of an object only which one it is; the rest is skipped."""

    metadata: _Metadata


_read_identity = msgspec.json.Decoder(_Identity).decode


def _reference(obj: Obj) -> dict[str, str]:
    return {"name": name_of(obj), "uid": uid_of(obj)}


def _user(claims: Claims) -> User:
    private = claims[_PRIVATE]
    account = private[SERVICE_ACCOUNT.singular]
    return account_user(private["namespace"], account["name"], account["uid"], _extra(claims))


def _extra(claims: Claims) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {f"{_EXTRA}credential-id": (f"JTI={claims['jti']}",)}
    for kind in (NODE, POD):
        told = claims[_PRIVATE].get(kind.singular)
        if told is not None:
            extra[f"{_EXTRA}{kind.singular}-name"] = (told["name"],)
            extra[f"{_EXTRA}{kind.singular}-uid"] = (told["uid"],)
    return extra
