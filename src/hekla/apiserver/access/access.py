"""The two questions every request is asked, for what carries HTTP and for what stops being HTTP alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hekla.apiserver.access.attributes import Attributes
from hekla.apiserver.access.authentication import Authenticator
from hekla.apiserver.access.impersonation import IMPERSONATION_HEADERS, Headers, impersonated
from hekla.apiserver.access.rbac import Authorizer
from hekla.apiserver.access.user import User
from hekla.errors import Forbidden
from hekla.log import get_logger

log = get_logger("access")


@dataclass(frozen=True, slots=True)
class Access:
    authenticator: Authenticator
    authorizer: Authorizer

    def identify(self, bare: User, headers: Mapping[str, str], every: Headers) -> User:
        """Who asks: whoever the credential says, or `bare` where none came, or whom they may pretend to be.

        `headers` has each name once, `every` has all of them. Raises Unauthorized and Forbidden.
        """
        authorization = headers.get("authorization")
        user = bare if authorization is None else self.authenticator.identify(authorization)
        if IMPERSONATION_HEADERS.isdisjoint(headers):
            return user
        return impersonated(user, every, self.authorizer)

    def permit(self, user: User, wanted: Attributes) -> None:
        """Raise Forbidden unless the user may. One we handed a token ourselves should never meet this: it is told."""
        if user.is_master:
            return
        try:
            self.authorizer.check(user, wanted)
        except Forbidden:
            if self.authenticator.is_fixed(user):
                log.warning("forbidden", user=user.name, verb=wanted.verb, resource=wanted.full_resource or wanted.path)
            raise
