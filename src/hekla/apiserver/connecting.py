"""`kubectl exec`, `attach` and `port-forward`: the caller is checked here, the node is found here, and from then on
bytes go through both ways.

Clients speak websockets or SPDY, and the node both; nothing in between needs to understand a message.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from hekla.api.kinds import POD, Obj
from hekla.apiserver.access.access import Access
from hekla.apiserver.access.attributes import request_attributes
from hekla.apiserver.access.user import ADMIN
from hekla.apiserver.logs import chosen_container, node_address
from hekla.apiserver.path import Route, parse_route
from hekla.apiserver.request import Response, error_response, no_such_path, not_found
from hekla.apiserver.store.store import Key, Store
from hekla.errors import ApiError, BadRequest, Conflict, InternalError
from hekla.log import get_logger
from hekla.tunnel import tunnel

log = get_logger("apiserver")

CONNECTING = ("exec", "attach", "portforward")
# Headers of one hop, and the credential that is for us alone.
_NOT_PASSED_ON = frozenset({"host", "authorization", "content-length", "transfer-encoding"})
_CONNECT_SECONDS = 10.0
# The API's names for streams, and a kubelet's.
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}

Check = Callable[[dict[str, Any]], Response | None]


@dataclass(frozen=True, slots=True)
class Destination:
    """A node's address and the path there."""

    address: str
    port: int
    target: str


def destination(store: Store, route: Route, query: list[tuple[str, str]]) -> Destination:
    """Where the pod runs. Raises ApiError when there is no such pod, container, node or command."""
    entry = store.get(Key("/pods", route.namespace, route.name))
    if entry is None:
        raise not_found(POD, route.name)
    pod = entry.decode()
    path = f"{quote(route.namespace)}/{quote(route.name)}"
    if route.subresource == "portforward":
        ports = [("port", each) for key, value in query if key == "ports" for each in value.split(",")]
        return Destination(*_node_address(store, pod), f"/portForward/{path}?{urlencode(ports)}")
    container = chosen_container(pod, next((value for key, value in query if key == "container"), ""))
    wanted = [("command", value) for key, value in query if key == "command"]
    if route.subresource == "exec" and not wanted:
        raise BadRequest("you must specify at least 1 command")
    found = _node_address(store, pod)
    _check_running(pod, container)
    wanted += [(_STREAMS[key], "1") for key, value in query if key in _STREAMS and value in ("1", "true")]
    return Destination(*found, f"/{route.subresource}/{path}/{quote(container)}?{urlencode(wanted)}")


def refuse_plain(store: Store, route: Route, query: list[tuple[str, str]]) -> ApiError:
    """The answer to one that did not ask for another protocol: what else is wrong with it, or that this is."""
    try:
        destination(store, route, query)
    except ApiError as error:
        return error
    return BadRequest("Upgrade request required", details={})


def _node_address(store: Store, pod: Obj) -> tuple[str, int]:
    node_name = (pod.get("spec") or {}).get("nodeName") or ""
    if not node_name:
        raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")
    node = store.get(Key("/nodes", "", node_name))
    if node is None:
        raise not_found(POD, node_name)
    return node_address(node.decode())


def _check_running(pod: Obj, container: str) -> None:
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    state = next((each.get("state") or {} for each in listed if each.get("name") == container), {})
    if "running" not in state:
        raise Conflict(f'container "{container}" in pod "{pod["metadata"]["name"]}" is not running', details={})


class Connector:
    """Connections that stop being HTTP. One for all listeners; `close` ends what is open."""

    def __init__(self, store: Store, access: Access, tls: Callable[[], ssl.SSLContext]) -> None:
        self._store = store
        self._access = access
        self._tls = tls
        self._sessions: set[asyncio.Task[None]] = set()

    def protocol(self, check: Check | None) -> Callable[..., asyncio.Protocol]:
        """What a listener makes for a connection that asks to become a websocket. `check` may refuse its request."""

        def make(**_: Any) -> asyncio.Protocol:
            return asyncio.StreamReaderProtocol(
                asyncio.StreamReader(), lambda reader, writer: self._begin(reader, writer, check)
            )

        return make

    async def close(self) -> None:
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, check: Check | None) -> None:
        session = asyncio.get_running_loop().create_task(self._session(reader, writer, check))
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, check: Check | None) -> None:
        try:
            await self._connect(reader, writer, check)
        except ApiError as error:
            await _answer(writer, error_response(error))
        except (OSError, asyncio.IncompleteReadError) as error:
            log.info("session broke off", error=error)
        except Exception:
            # One session's trouble must not end the server.
            log.exception("session failed")
        finally:
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, check: Check | None) -> None:
        # 1. Who asks, and for what.
        method, target, headers = _parse_head(await reader.readuntil(b"\r\n\r\n"))
        path, query = urlsplit(target).path, urlsplit(target).query
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        scope = {"path": path, "headers": raw}
        refusal = check(scope) if check is not None else None
        if refusal is not None:
            await _answer(writer, refusal)
            return
        user = self._access.identify(ADMIN, dict(headers), raw)
        route = parse_route(path)
        wanted = request_attributes(method, path, dict(parse_qsl(query)), route)
        self._access.authorizer.check(user, wanted)
        if route is None or route.group or route.plural != POD.plural or route.subresource not in CONNECTING:
            raise no_such_path()
        # A websocket begins with a GET, but it may change as much as a POST would.
        self._access.authorizer.check(user, wanted.of("create"))
        # 2. Where it runs.
        found = destination(self._store, route, parse_qsl(query, keep_blank_values=True))
        # 3. The same request there, and then whatever either side says.
        node_reader, node_writer = await self._dial(found)
        try:
            node_writer.write(_head(method, found, headers))
            await tunnel((reader, writer), (node_reader, node_writer))
        finally:
            node_writer.close()

    async def _dial(self, found: Destination) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await asyncio.open_connection(found.address, found.port, ssl=self._tls())
        except (OSError, TimeoutError) as error:
            raise InternalError(f"error dialing backend: {error}") from error


def _parse_head(head: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":")[::2] for line in lines if line]
    method, target = first.split(" ")[:2]
    return method, target, [(name.strip().lower(), value.strip()) for name, value in pairs]


def _head(method: str, found: Destination, headers: list[tuple[str, str]]) -> bytes:
    lines = [f"{method} {found.target} HTTP/1.1", f"Host: {found.address}:{found.port}"]
    lines += [f"{name}: {value}" for name, value in headers if name not in _NOT_PASSED_ON]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _answer(writer: asyncio.StreamWriter, response: Response) -> None:
    head = f"HTTP/1.1 {response.status} Refused\r\nContent-Type: {response.content_type}\r\n"
    writer.write(f"{head}Content-Length: {len(response.body)}\r\nConnection: close\r\n\r\n".encode() + response.body)
    try:
        await writer.drain()
    except ConnectionError:
        pass
