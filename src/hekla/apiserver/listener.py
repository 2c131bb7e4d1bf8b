"""Listening sockets carried by uvicorn's HTTP protocol, without its server: no signal handlers, no ticking, and a
stop that does not wait for watches."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from hekla.apiserver.connection import Connection, Patience
from hekla.apiserver.sockets import BACKLOG

_IDLE_SECONDS = 90
_FINISH_SECONDS = 0.1
_STOP_SECONDS = 2.0


class Listener:
    """One app on one socket. `websocket` makes what carries a connection that asks to become one."""

    def __init__(
        self,
        app: Any,
        listening: socket.socket,
        tls: ssl.SSLContext | None = None,
        websocket: Callable[..., asyncio.Protocol] | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._config = Config(
            app,
            interface="asgi3",
            http=Connection,
            ws=websocket or "none",  # type: ignore[arg-type]
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_IDLE_SECONDS,
        )
        self._config.load()
        self._state = ServerState()
        self._socket = listening
        self._tls = tls
        self._patience = patience
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        create = loop.create_unix_server if self._socket.family == socket.AF_UNIX else loop.create_server
        options: dict[str, Any] = {"sock": self._socket, "ssl": self._tls, "backlog": BACKLOG}
        if self._socket.family == socket.AF_UNIX and sys.version_info >= (3, 13):
            # The path stays with whoever opened the socket: the next server is to be found there.
            options["cleanup_socket"] = False
        self._server = await create(self._protocol, **options)

    async def stop(self) -> None:
        """Refuse new requests, let short ones finish, end the rest."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._settle(_FINISH_SECONDS)
        # What is left are streams: they end as if their clients had gone.
        for connection in list(self._state.connections):
            connection.transport.abort()
        await self._settle(_STOP_SECONDS)

    async def _settle(self, seconds: float) -> None:
        tasks = list(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _protocol(self) -> asyncio.Protocol:
        return Connection(self._config, self._state, {}, patience=self._patience)
