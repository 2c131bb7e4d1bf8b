"""Pod logs: found on the node that ran the pod, and streamed through."""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from hekla.api.kinds import JOB, POD, Obj
from hekla.api.meta import controller_of_kind, name_of, namespace_of, uid_of
from hekla.apiserver.request import Response, not_found
from hekla.client.transport import HttpTransport, Request
from hekla.errors import ApiError, BadRequest, Disconnected, InternalError

_STANDARD = ("follow", "tailLines", "previous", "timestamps", "sinceSeconds", "sinceTime", "limitBytes")
_PASSED_ON = (*_STANDARD, "unfinished", "back")
_KUBELET_PORT = 10250
_FETCH_SECONDS = 5.0
_YES = ("true", "1", "t")


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where a log is: a node's address and the path there."""

    address: str
    port: int
    path: str


def log_source(pod: Obj, node: Obj | None, query: dict[str, str]) -> LogSource | None:
    """None when the pod has not reached a node. Raises BadRequest when there is no such container, or no log yet."""
    name, namespace = name_of(pod), namespace_of(pod)
    container = chosen_container(pod, query.get("container", ""))
    if not (pod.get("spec") or {}).get("nodeName"):
        return None
    if node is None:
        # parity: the real server names the node and calls it a pod.
        raise not_found(POD, pod["spec"]["nodeName"])
    earlier = earlier_log(pod, query)
    if earlier is None:
        check_started(pod, container)
    return _source(node, namespace, name, container, query, earlier)


@dataclass(frozen=True, slots=True)
class EarlierLog:
    """The log before this one, which a node of ours may have kept of an earlier pod of the same Job."""

    job_uid: str
    pod_uid: str = ""  # of the pod that is there at present


def earlier_log(pod: Obj, query: dict[str, str]) -> EarlierLog | None:
    """None when no such log is asked for, or the pod is no Job's."""
    job = controller_of_kind(pod, JOB)
    return EarlierLog(str(job.get("uid", "")), uid_of(pod)) if job is not None and _asks_for_previous(query) else None


def log_of_gone_pod(query: dict[str, str]) -> EarlierLog | None:
    """What is asked for of a pod that is not there: whoever asks has to say which Job's it was."""
    job = query.get("jobUid", "")
    return EarlierLog(job) if job and query.get("container") and _asks_for_previous(query) else None


def kept_sources(
    nodes: Iterable[Obj], namespace: str, name: str, container: str, query: dict[str, str], earlier: EarlierLog
) -> list[LogSource]:
    """Whom to ask in turn where the pod is on no node: all that say where they answer."""
    able = [node for node in nodes if _endpoint(node).get("Port")]
    return [_source(node, namespace, name, container, query, earlier) for node in able]


def _asks_for_previous(query: dict[str, str]) -> bool:
    return query.get("previous", "").lower() in _YES


def _source(
    node: Obj, namespace: str, name: str, container: str, query: dict[str, str], earlier: EarlierLog | None
) -> LogSource:
    passed = {key: query[key] for key in _PASSED_ON if query.get(key)}
    if earlier is not None:
        passed |= {"jobUid": earlier.job_uid, "podUid": earlier.pod_uid}
    path = f"/containerLogs/{quote(namespace)}/{quote(name)}/{quote(container)}"
    return LogSource(*node_address(node), f"{path}?{urlencode(passed)}" if passed else path)


def node_address(node: Obj) -> tuple[str, int]:
    """Address and port of a node's own server."""
    status = node.get("status") or {}
    address = next((a["address"] for a in status.get("addresses") or () if a.get("type") == "InternalIP"), "")
    return address, int(_endpoint(node).get("Port") or _KUBELET_PORT)


def _endpoint(node: Obj) -> Obj:
    endpoints = (node.get("status") or {}).get("daemonEndpoints") or {}
    return dict(endpoints.get("kubeletEndpoint") or {})


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


def check_started(pod: Obj, container: str) -> None:
    """Raises BadRequest for a container that waits to be started for the first time."""
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
