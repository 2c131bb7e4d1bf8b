"""What to do with a connection that wants to stop being HTTP: which pod it is for, and which protocol both know."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from hekla.api.meta import count_of
from hekla.node.directory import PodDirectory, find_pod
from hekla.node.settings import NodeSettings
from hekla.node.spawner import Spawner
from hekla.node.streams import conversation, port_forward
from hekla.node.streams.conversation import Conversation, StreamOptions, WebSocketConversation, open_spdy
from hekla.node.streams.remote_command import serve_attach, serve_exec
from hekla.node.streams.spdy import RawCarrier, SpdySession, WebSocketCarrier
from hekla.node.streams.websocket import Handshake, accept, refuse
from hekla.node.switch_client import SwitchClient, SwitchError

_GOODBYE_SECONDS = 2.0

Query = dict[str, list[str]]
Serve = Callable[[Conversation], Awaitable[None]]


@dataclass(frozen=True)
class _Line:
    """A connection that has asked for something and not been answered yet."""

    handshake: Handshake
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def wants_spdy(self) -> bool:
        return self.handshake.headers.get("upgrade", "").lower() == "spdy/3.1"

    async def refuse(self, status: int, text: str) -> None:
        await refuse(self.writer, status, text)

    async def become_spdy(self, protocols: Sequence[str]) -> SpdySession | None:
        """Speaking the first of `protocols` the client offers; None, answered, if it offers none."""
        offered = [each.strip() for each in self.handshake.headers.get("x-stream-protocol-version", "").split(",")]
        chosen = next((each for each in protocols if each in offered), None)
        if chosen is None:
            await self.refuse(403, f"none of the protocols offered is known here; this server speaks {protocols[0]}")
            return None
        self.writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            f"X-Stream-Protocol-Version: {chosen}\r\n\r\n".encode()
        )
        return SpdySession(RawCarrier(self.reader, self.writer))


@dataclass(frozen=True)
class Sessions:
    settings: NodeSettings
    spawner: Spawner
    switch: SwitchClient | None

    async def serve(self, handshake: Handshake, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until one of both sides has had enough."""
        line = _Line(handshake, reader, writer)
        target = urlsplit(handshake.target)
        words = [unquote(part) for part in target.path.split("/")[1:]]
        query = parse_qs(target.query, keep_blank_values=True)
        match words:
            case ["exec", namespace, name, container]:
                await self._exec(line, await self._find(namespace, name), container, query)
            case ["attach", namespace, name, container]:
                await self._attach(line, await self._find(namespace, name), container, query)
            case ["portForward", namespace, name]:
                await self._port_forward(line, await self._find(namespace, name), query)
            case _:
                await line.refuse(404, f"{words[0]} is not something this node offers")

    async def _find(self, namespace: str, name: str) -> PodDirectory | None:
        return await asyncio.to_thread(find_pod, self.settings.data_dir, self.settings.name, namespace, name)

    async def _exec(self, line: _Line, pod: PodDirectory | None, container: str, query: Query) -> None:
        command, options = query.get("command", []), StreamOptions.from_query(query)
        if pod is None or container not in pod.container_names():
            await line.refuse(404, f'container "{container}" is not running')
        elif not command:
            await line.refuse(400, "you must specify at least 1 command")
        else:
            await _converse(
                line, options, lambda found: serve_exec(found, self.spawner, pod, container, command, options)
            )

    async def _attach(self, line: _Line, pod: PodDirectory | None, container: str, query: Query) -> None:
        options = StreamOptions.from_query(query)
        if pod is None or container not in pod.container_names():
            await line.refuse(404, f'container "{container}" is not running')
        else:
            await _converse(line, options, lambda found: serve_attach(found, pod, container, options))

    async def _port_forward(self, line: _Line, pod: PodDirectory | None, query: Query) -> None:
        if pod is None:
            await line.refuse(404, "pod does not exist")
        elif line.wants_spdy:
            session = await line.become_spdy(port_forward.SPDY_PROTOCOLS)
            if session is not None:
                await port_forward.serve_streams(session, self._opener(pod.uid))
        else:
            await self._port_forward_websocket(line, pod, query)

    async def _port_forward_websocket(self, line: _Line, pod: PodDirectory, query: Query) -> None:
        ports = [port for each in query.get("port", []) if 0 < (port := count_of(each) or 0) < 1 << 16]
        known = [port_forward.TUNNEL_PROTOCOL, *([port_forward.CHANNEL_PROTOCOL] if ports else [])]
        websocket = await accept(line.handshake, known, line.reader, line.writer)
        if websocket is None:
            return
        if websocket.protocol == port_forward.TUNNEL_PROTOCOL:
            await port_forward.serve_streams(SpdySession(WebSocketCarrier(websocket)), self._opener(pod.uid))
        else:
            await port_forward.serve_channels(websocket, ports, self._opener(pod.uid))

    def _opener(self, uid: str) -> port_forward.OpenSocket:
        switch = self.switch
        if switch is None:
            return lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)

        def open_socket() -> socket.socket:
            try:
                return switch.open_socket(uid)
            except SwitchError as error:
                raise OSError(str(error)) from error

        return open_socket


async def _converse(line: _Line, options: StreamOptions, serve: Serve) -> None:
    """Hold a conversation in whichever way the client has asked for."""
    if not line.wants_spdy:
        websocket = await accept(line.handshake, conversation.PROTOCOLS, line.reader, line.writer)
        if websocket is not None:
            await serve(WebSocketConversation(websocket))
        return
    session = await line.become_spdy(conversation.SPDY_PROTOCOLS)
    if session is None:
        return
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(session.run())
        found = await open_spdy(session, options)
        if found is not None:
            listening = tasks.create_task(found.listen(session))
            await serve(found)
            # The client hangs up when it has read everything; going first could cost it the end.
            await asyncio.wait([reading], timeout=_GOODBYE_SECONDS)
            listening.cancel()
        reading.cancel()
