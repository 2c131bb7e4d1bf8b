"""Pod logs: found on the node that ran the pod, and streamed through."""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from hekla.api.kinds import POD, Obj
from hekla.apiserver.request import Response, not_found
from hekla.client.transport import HttpTransport, Request
from hekla.errors import ApiError, BadRequest, Disconnected, InternalError

_PASSED_ON = ("follow", "tailLines", "previous", "timestamps", "sinceSeconds", "sinceTime", "limitBytes")
_KUBELET_PORT = 10250
_FETCH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where a log is: a node's address and the path there."""

    address: str
    port: int
    path: str


def log_source(pod: Obj, node: Obj | None, query: dict[str, str]) -> LogSource | None:
    """None when the pod has not reached a node. Raises BadRequest when there is no such container, or no log yet."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    container = chosen_container(pod, query.get("container", ""))
    if not (pod.get("spec") or {}).get("nodeName"):
        return None
    if node is None:
        # parity: the real server names the node and calls it a pod.
        raise not_found(POD, pod["spec"]["nodeName"])
    _check_started(pod, container)
    passed = {key: query[key] for key in _PASSED_ON if query.get(key)}
    path = f"/containerLogs/{quote(namespace)}/{quote(name)}/{quote(container)}"
    return LogSource(*node_address(node), f"{path}?{urlencode(passed)}" if passed else path)


def node_address(node: Obj) -> tuple[str, int]:
    """Address and port of a node's own server."""
    status = node.get("status") or {}
    address = next((a["address"] for a in status.get("addresses") or () if a.get("type") == "InternalIP"), "")
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or _KUBELET_PORT
    return address, int(port)


def chosen_container(pod: Obj, wanted: str) -> str:
    """The container a request is about: the one it names, or the only one. Raises BadRequest."""
    name = pod["metadata"]["name"]
    spec = pod.get("spec") or {}
    containers = [each["name"] for each in spec.get("containers") or ()]
    init = [each["name"] for each in spec.get("initContainers") or ()]
    if wanted:
        if wanted not in [*containers, *init]:
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(containers) == 1:
        return str(containers[0])
    shown = f"[{' '.join(containers)}]"
    if init:
        shown += f" or one of the init containers: [{' '.join(init)}]"
        raise BadRequest(f"a container name must be specified for pod {name}, choose one of: {shown}")
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: {shown}")


def _check_started(pod: Obj, container: str) -> None:
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    state: dict[str, Any] = next((each for each in listed if each.get("name") == container), {})
    waiting = (state.get("state") or {}).get("waiting")
    if waiting is not None and not state.get("lastState"):
        reason = waiting.get("reason") or "waiting to start"
        raise BadRequest(f'container "{container}" in pod "{pod["metadata"]["name"]}" is waiting to start: {reason}')


class LogProxy:
    """Connections to nodes, made with the server's own client certificate."""

    def __init__(self, authority: Path, certificate: Path, key: Path) -> None:
        self._files = (authority, certificate, key)
        self._context: ssl.SSLContext | None = None

    async def open(self, source: LogSource) -> Response:
        stack = AsyncExitStack()
        try:
            transport = HttpTransport(f"https://{source.address}:{source.port}", tls=self.tls())
            stack.push_async_callback(transport.close)
            answer = await stack.enter_async_context(transport.stream(Request("GET", source.path, timeout=math.inf)))
        except (Disconnected, OSError) as error:
            await stack.aclose()
            raise InternalError(f'Get "https://{source.address}:{source.port}{source.path}": {error}') from error
        if answer.status >= 300:
            await stack.aclose()
            raise ApiError(answer.body.decode(errors="replace").strip(), code=answer.status, reason="")
        return Response(200, content_type="text/plain", stream=_chunks(stack, answer.chunks))

    async def fetch(self, address: str, port: int, path: str) -> bytes:
        """A short answer, whole. Raises Disconnected when there is none."""
        transport = HttpTransport(f"https://{address}:{port}", tls=self.tls())
        try:
            answer = await transport.send(Request("GET", path, timeout=_FETCH_SECONDS))
        except OSError as error:
            raise Disconnected(str(error)) from error
        finally:
            await transport.close()
        if answer.status != 200:
            raise Disconnected(f"{path}: {answer.status}")
        return answer.body

    def tls(self) -> ssl.SSLContext:
        if self._context is None:
            authority, certificate, key = self._files
            self._context = ssl.create_default_context(cafile=str(authority))
            self._context.load_cert_chain(certificate, key)
        return self._context


async def _chunks(stack: AsyncExitStack, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with stack:
        async for chunk in chunks:
            yield chunk
