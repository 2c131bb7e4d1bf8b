"""The API server as a process: the store, the app, and its listeners.

TCP is spoken with TLS and asks for a token; the unix socket is for the owner's own components.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hekla.api.review import Admission, Reader
from hekla.apiserver.access.signing import Signer
from hekla.apiserver.access.user import User
from hekla.apiserver.app import App, build_app
from hekla.apiserver.auth import Gate
from hekla.apiserver.connecting import Connector
from hekla.apiserver.expiry import expire_events
from hekla.apiserver.listener import Listener
from hekla.apiserver.logs import LogProxy
from hekla.apiserver.sockets import Sockets
from hekla.apiserver.store.sqlite import SqliteStore
from hekla.clock import Clock
from hekla.errors import HeklaError
from hekla.log import get_logger

log = get_logger("apiserver")


@dataclass(frozen=True)
class ApiServerSettings:
    """With a TCP socket there must be a certificate.

    `holders` are those whose tokens were handed out beforehand, by what `authentication.hash_token` gave for the token;
    `signing_key` signs service account tokens, `root_ca` is the certificate authority pods are told to trust.
    """

    database: Path
    sockets: Sockets
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    holders: Mapping[str, User] = field(default_factory=dict)
    signing_key: Path | None = None
    root_ca: Path | None = None
    kubelet_ca: Path | None = None
    kubelet_client_certificate: Path | None = None
    kubelet_client_key: Path | None = None


class StoreFailed(HeklaError):
    """The disk failed under the store: the process must end and be started again."""


async def run(
    settings: ApiServerSettings,
    *,
    clock: Clock,
    rng: random.Random,
    admission: Callable[[Reader], Admission] | None = None,
    furnish: Callable[[App], Coroutine[None, None, None]] | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Serve until cancelled. `furnish` may write what must be there before anybody is answered; `ready` is called once
    everybody is."""
    store = SqliteStore.open(settings.database, clock)
    listeners: list[Listener] = []
    connector: Connector | None = None
    try:
        # 1. The app, and what an empty store must hold.
        logs = _log_proxy(settings)
        app = build_app(
            store,
            clock=clock,
            rng=rng,
            admission=admission,
            logs=logs,
            signer=Signer.load(settings.signing_key) if settings.signing_key is not None else None,
            holders=settings.holders,
            root_ca=settings.root_ca.read_text() if settings.root_ca is not None else "",
        )
        async with asyncio.TaskGroup() as filling:
            filling.create_task(app.start())
            if furnish is not None:
                filling.create_task(furnish(app))
        # 2. The listeners.
        connector = Connector(store, app.access, logs.tls) if logs is not None else None
        websocket = connector.protocol(None) if connector is not None else None
        listeners.append(Listener(app, settings.sockets.unix, websocket=websocket))
        if settings.sockets.tcp is not None:
            gate = Gate(app)
            websocket = connector.protocol(gate.refusal) if connector is not None else None
            listeners.append(Listener(gate, settings.sockets.tcp, _tls(settings), websocket))
        for listener in listeners:
            await listener.start()
        log.info("serving", port=settings.sockets.port, revision=store.revision)
        if ready is not None:
            ready()
        # 3. Until cancelled, or until the disk fails.
        async with asyncio.TaskGroup() as group:
            group.create_task(expire_events(store, clock))
            await store.failed()
            raise StoreFailed("the store has failed; see the log")
    finally:
        for listener in listeners:
            await listener.stop()
        if connector is not None:
            await connector.close()
        await store.close()


def _tls(settings: ApiServerSettings) -> ssl.SSLContext:
    assert settings.tls_certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _log_proxy(settings: ApiServerSettings) -> LogProxy | None:
    if (
        settings.kubelet_ca is None
        or settings.kubelet_client_certificate is None
        or settings.kubelet_client_key is None
    ):
        return None
    return LogProxy(settings.kubelet_ca, settings.kubelet_client_certificate, settings.kubelet_client_key)
