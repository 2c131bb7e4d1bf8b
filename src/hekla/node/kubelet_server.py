"""The node's HTTPS port on the loopback, for the API server alone, by its client certificate: logs, exec, usage, …."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hekla.clock import Clock
from hekla.log import get_logger
from hekla.node.consumption import as_metrics, consumption
from hekla.node.directory import find_pod
from hekla.node.hooks.logs import LogOptions, read_log
from hekla.node.previous_log import AskedLog, previous_log
from hekla.node.settings import NodeSettings
from hekla.node.spawner import Spawner
from hekla.node.status import HOST_ADDRESS
from hekla.node.streams.sessions import Sessions
from hekla.node.streams.websocket import ProtocolError, read_handshake
from hekla.node.switch_client import SwitchClient

log = get_logger("node")

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class KubeletServer:
    def __init__(self, settings: NodeSettings, spawner: Spawner, switch: SwitchClient | None, *, clock: Clock) -> None:
        self._settings = settings
        self._sessions = Sessions(settings, spawner, switch)
        self._clock = clock
        self._tasks: asyncio.TaskGroup | None = None

    async def start(self, tasks: asyncio.TaskGroup) -> int | None:
        """Serve, and give the port. None where the settings name no certificate: then there is no server."""
        settings = self._settings
        if settings.tls_certificate is None or settings.tls_key is None or settings.client_ca is None:
            return None
        listener = socket.create_server((HOST_ADDRESS, 0))
        self._tasks = tasks
        config = uvicorn.Config(
            self,
            http=_Http,
            ws=self._upgraded,  # type: ignore[arg-type]
            ssl_certfile=str(settings.tls_certificate),
            ssl_keyfile=str(settings.tls_key),
            ssl_ca_certs=str(settings.client_ca),
            ssl_cert_reqs=ssl.CERT_REQUIRED,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        port = int(listener.getsockname()[1])
        tasks.create_task(_serve(_Server(config), listener))
        return port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        parts = [unquote(part) for part in scope["path"].split("/")]
        if scope["method"] == "GET" and parts == ["", "healthz"]:
            await _text(send, 200, "ok")
        elif scope["method"] == "GET" and parts == ["", "metrics", "resource"]:
            await _text(
                send,
                200,
                as_metrics(await asyncio.to_thread(consumption, self._settings.data_dir, self._settings.name)),
            )
        elif scope["method"] == "GET" and len(parts) == 5 and parts[1] == "containerLogs":
            await self._logs(parts[2], parts[3], parts[4], _query(scope), receive, send)
        else:
            await _text(send, 404, "404 page not found\n")

    def _upgraded(self, **_: Any) -> asyncio.Protocol:
        """What carries a connection that stops being HTTP, in place of uvicorn's own."""
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._take_over)

    def _take_over(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._tasks is not None
        self._tasks.create_task(self._connect(reader, writer))

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._sessions.serve(await read_handshake(reader), reader, writer)
        except* (OSError, ProtocolError, asyncio.IncompleteReadError) as errors:
            log.info("session broke off", error=errors.exceptions[0])
        except* Exception:
            # One session's trouble must not end the node.
            log.exception("session failed")
        finally:
            writer.close()

    async def _logs(
        self, namespace: str, pod: str, container: str, query: dict[str, str], receive: Receive, send: Send
    ) -> None:
        settings = self._settings
        asked = AskedLog.from_query(namespace, pod, container, query)
        try:
            options = LogOptions.from_query(query)
            directory = await asyncio.to_thread(find_pod, settings.data_dir, settings.name, namespace, pod)
            before = None
            if options.previous:
                before = await asyncio.to_thread(previous_log, settings.data_dir, asked, directory, options.back)
        except ValueError as error:
            await _text(send, 400, str(error))
            return
        if options.previous and before is not None:
            # Of an earlier pod it is the last attempt; nothing is added to it any more.
            options = replace(options, previous=before is directory, follow=False)
            await _stream(read_log(before, container, options, self._clock), receive, send)
        elif directory is None or container not in directory.container_names():
            await _text(send, 400, f'container "{container}" in pod "{pod}" is waiting to start: ContainerCreating')
        elif options.previous:
            await _text(send, 400, f'previous terminated container "{container}" in pod "{pod}" not found')
        else:
            await _stream(read_log(directory, container, options, self._clock), receive, send)


class _Http(HttpToolsProtocol):
    def _should_upgrade(self) -> bool:
        return self._get_upgrade() in (b"websocket", b"spdy/3.1")


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to whoever owns the process."""
        yield


async def _serve(server: _Server, listener: socket.socket) -> None:
    try:
        await server.serve(sockets=[listener])
    finally:
        listener.close()


async def _stream(chunks: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    async with asyncio.TaskGroup() as tasks:
        copying = tasks.create_task(_copy(chunks, send))
        leaving = tasks.create_task(_until_gone(receive, copying))
        await asyncio.wait([copying])
        leaving.cancel()


async def _copy(chunks: AsyncIterator[bytes], send: Send) -> None:
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive, copying: asyncio.Task[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    copying.cancel()


async def _text(send: Send, status: int, text: str) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text.encode()})


def _query(scope: Scope) -> dict[str, str]:
    return {key: values[-1] for key, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
