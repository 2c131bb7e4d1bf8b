"""From a bearer token to who holds it. Tokens are not compared as text: a hash is looked up, a signature checked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from hekla.apiserver.access.tokens import ISSUER, Holder, Tokens
from hekla.apiserver.access.user import User
from hekla.errors import Unauthorized


def hash_token(token: str) -> str:
    """How a token is kept: it has 256 bits of its own, so one round of a plain hash is enough."""
    return hashlib.sha256(token.encode()).hexdigest()


class Authenticator:
    """`holders` are the users whose tokens were handed out beforehand, by the hash of the token."""

    def __init__(self, holders: Mapping[str, User], tokens: Tokens) -> None:
        self._holders = holders
        self._tokens = tokens
        self._fixed = frozenset(holders.values())
        self._heard: dict[str, User] = {}

    def identify(self, authorization: str) -> User:
        """Who sends this Authorization header. Raises Unauthorized when nobody we know does."""
        known = self._heard.get(authorization)
        if known is not None:
            return known
        scheme, _, rest = authorization.partition(" ")
        user = self.holder(rest.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise Unauthorized("Unauthorized")
        if user in self._fixed:
            # Theirs do not end, and there are few of them: headers that were right once need not be hashed again.
            self._heard[authorization] = user
        return user

    def is_fixed(self, user: User) -> bool:
        """Whether the user has a token that was handed out beforehand."""
        return user in self._fixed

    def holder(self, token: str) -> User | None:
        known = self._holders.get(hash_token(token))
        if known is not None:
            return known
        holder = self._tokens.recognise(token)
        return holder.user if holder is not None else None

    def review(self, token: str, audiences: tuple[str, ...]) -> Holder | None:
        """Whose token it is, asked by somebody else; none of `audiences` means this server itself."""
        known = self._holders.get(hash_token(token))
        if known is not None:
            return Holder(known, (ISSUER,)) if not audiences or ISSUER in audiences else None
        return self._tokens.recognise(token, audiences or (ISSUER,))
