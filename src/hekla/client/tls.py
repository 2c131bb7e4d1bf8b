"""TLS as seen from a client that opens many connections to one server."""

from __future__ import annotations

import ssl
import weakref


class _Connection(ssl.SSLObject):
    """Leaves its session behind when it is gone."""

    def __del__(self) -> None:
        context = getattr(self, "context", None)  # it has none where it could not be made
        if isinstance(context, ResumingContext):
            context.remember(self)


class ResumingContext(ssl.SSLContext):
    """Has each connection take up the session of an earlier one to the same name, where the server still knows it.

    Then neither side signs or checks certificates again, which is most of what a new connection costs. A server that
    does not know the session has everything proven anew.
    """

    sslobject_class = _Connection
    # The garbage collector does not see that connections hold their context: held the other way round as well, neither
    # would ever go.
    _latest: weakref.ref[ssl.SSLObject] | None = None
    _id_of_latest = 0  # also when it is about to go
    _session: ssl.SSLSession | None = None
    _name: str | None = None  # for which the session was proven

    @classmethod
    def trusting(cls, ca: str | None) -> ResumingContext:
        """For servers that are what they say they are according to `ca`, or to this machine's certificates."""
        # As strict as kubectl: what `create_default_context` asks for since Python 3.13 refuses CAs that clusters have.
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        if ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=ca)
        return context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """What event loops call for each new connection."""
        made = super().wrap_bio(
            incoming, outgoing, server_side, server_hostname, session or self._find_session(server_hostname)
        )
        self._latest, self._id_of_latest = weakref.ref(made), id(made)
        return made

    def remember(self, connection: ssl.SSLObject) -> None:
        """Have others take up its session, where it has one and is the latest."""
        # Before its handshake has ended, which is when it has a version, a connection must not be asked.
        if id(connection) == self._id_of_latest and connection.version() is not None:
            found = connection.session
            if found is not None and found.has_ticket:
                self._session, self._name = found, connection.server_hostname

    def _find_session(self, name: str | bytes | None) -> ssl.SSLSession | None:
        # What a session is taken up with comes some time after the handshake: so it is looked for when it is needed.
        latest = self._latest() if self._latest is not None else None
        if latest is not None:
            self.remember(latest)
        return self._session if self._name == name else None
