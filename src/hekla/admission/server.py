"""Admission behind HTTPS, for real clusters: upstream's paths, one webhook configuration each."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from hekla.admission.certificate import ServingCertificate
from hekla.admission.request import fault_of_request
from hekla.admission.review import refused
from hekla.api.kinds import CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, POD, POD_GROUP, QUEUE, Kind, Obj
from hekla.api.review import Admission
from hekla.errors import HeklaError, UsageError
from hekla.log import get_logger

log = get_logger("webhook")

# API servers let go of an idle connection after 90 s. If we did so first, a review sent in that moment would be lost.
_IDLE_SECONDS = 120

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Where upstream is installed.
NAMESPACE = "volcano-system"
_MOST_BYTES = 3 << 20
_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Service:
    """One admission service: its path is `/<plural>/<step>`."""

    kind: Kind
    step: str
    operations: tuple[str, ...]
    webhook: str

    @property
    def path(self) -> str:
        return f"/{self.kind.plural}/{self.step}"


SERVICES = (
    Service(JOB, "mutate", ("CREATE", "UPDATE"), "mutatejob.volcano.sh"),
    Service(JOB, "validate", ("CREATE", "UPDATE"), "validatejob.volcano.sh"),
    Service(CRON_JOB, "validate", ("CREATE", "UPDATE"), "validatecronjob.volcano.sh"),
    Service(QUEUE, "mutate", ("CREATE",), "mutatequeue.volcano.sh"),
    Service(QUEUE, "validate", ("CREATE", "UPDATE", "DELETE"), "validatequeue.volcano.sh"),
    Service(POD_GROUP, "mutate", ("CREATE",), "mutatepodgroup.volcano.sh"),
    Service(POD_GROUP, "validate", ("CREATE",), "validatepodgroup.volcano.sh"),
    Service(POD, "mutate", ("CREATE",), "mutatepod.volcano.sh"),
    Service(POD, "validate", ("CREATE",), "validatepod.volcano.sh"),
    # parity: the packaged manifests give JobFlows the name of the Job webhook.
    Service(JOB_FLOW, "validate", ("CREATE", "UPDATE"), "validatejob.volcano.sh"),
    Service(HYPER_NODE, "validate", ("CREATE", "UPDATE"), "validatehypernodes.volcano.sh"),
)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    certificate: Path
    key: Path
    host: str = "0.0.0.0"
    port: int = 8443


async def run(
    settings: WebhookSettings,
    admission: Admission,
    *,
    announce: Callable[[], Awaitable[None]] | None = None,
    ready: Callable[[int], None] | None = None,
) -> None:
    """Answer reviews until cancelled, and then those that are under way.

    Once connections are taken, `announce` tells whoever shall ask us, and `ready` is called with the port.
    """
    certificate = ServingCertificate(settings.certificate, settings.key)
    config = Config(
        WebhookApp(admission), interface="asgi3", http=HttpToolsProtocol, ws="none", lifespan="off", log_config=None,
        access_log=False, server_header=False, timeout_keep_alive=_IDLE_SECONDS,
    )  # fmt: skip
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()

    def accept() -> _Connection:
        # Before the handshake of the new connection.
        certificate.refresh()
        return _Connection(config, state, app_state={}, _loop=loop)

    listening = _listen(settings)
    server = await loop.create_server(accept, sock=listening, ssl=certificate.context)
    try:
        log.info("serving", port=listening.getsockname()[1])
        if announce is not None:
            await announce()
        if ready is not None:
            ready(int(listening.getsockname()[1]))
        await asyncio.Event().wait()
    finally:
        server.close()
        await _end(state)


def _listen(settings: WebhookSettings) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "there is no such port"
        where = f"{settings.host} port {settings.port}"
        raise UsageError(f"cannot listen on {where}: {reason}; --port names another") from None
    return listening


class _Connection(HttpToolsProtocol):
    """One that can be waited for."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.gone = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone.set()


async def _end(state: ServerState) -> None:
    """Let go of idle connections, and of the others when they have their answer; nobody waits for one for longer."""
    connections = [each for each in state.connections if isinstance(each, _Connection)]
    for connection in connections:
        connection.shutdown()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            for connection in connections:
                await connection.gone.wait()


class WebhookApp:
    """The ASGI application: a review in, a review out."""

    def __init__(self, admission: Admission) -> None:
        self._services = {
            service.path: (service.kind, admission.mutate if service.step == "mutate" else admission.validate)
            for service in SERVICES
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        status, body = await self._answer(scope, receive)
        # API servers hand on the words of an error only where it is text.
        content_type = b"application/json" if body.startswith(b"{") else b"text/plain; charset=utf-8"
        headers = [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Message, receive: Receive) -> tuple[int, bytes]:
        if scope["path"] == "/healthz":
            return 200, b"ok"
        service = self._services.get(scope["path"])
        if service is None:
            return 404, b"not found"
        kind, step = service
        content_type = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip()
        if scope["method"] != "POST" or content_type != b"application/json":
            return 415, b"a review must be posted as application/json"
        body = await _read(receive)
        if body is None:
            return 413, b"request body too large"
        try:
            review: Obj = msgspec.json.decode(body)
            request = review["request"]
        except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
            return 400, b"not an AdmissionReview"
        fault = fault_of_request(request)
        if fault:
            return 400, fault.encode()
        given = request.get("kind") or {}
        if (given.get("group"), given.get("kind")) != (kind.group, kind.kind):
            # parity: so it is refused, whatever the path would say of it.
            expected = f"expect resource to be {{{kind.group} {kind.version} {kind.plural}}}"
            return 200, msgspec.json.encode(refused(request, expected))
        try:
            answer = await step(review)
        except HeklaError as error:
            log.warning("review not answered", path=scope["path"], name=request.get("name", ""), error=error)
            # Of a 500, unlike a 503, API servers hand on the text.
            return 500, f"what the review needs cannot be looked up: {error}".encode()
        except Exception:
            # The loop that must survive: a fault of ours refuses one write, with a word, and no more.
            log.exception("review failed", path=scope["path"], name=request.get("name", ""))
            return 500, b"the webhook failed on this review; its log says why"
        return 200, msgspec.json.encode(answer)


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None when it is longer than allowed."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
        if len(body) > _MOST_BYTES:
            return None
    return body


def webhook_configurations(
    certificate_authority: bytes,
    client_config: Callable[[str], Obj],
    paths: Collection[str],
    *,
    namespace: str = NAMESPACE,
) -> list[Obj]:
    """What a cluster must be told about the services at `paths`.

    `client_config` gives, for a path, where it is served (`url` or `service`). About what is in `namespace`, where our
    own pods are, nobody asks us: once all of them were gone, nobody could make them again.
    """
    spared = list(dict.fromkeys(("kube-system", NAMESPACE, namespace)))
    bundle = base64.b64encode(certificate_authority).decode()
    return [
        _configuration(service, {**client_config(service.path), "caBundle": bundle}, spared)
        for service in SERVICES
        if service.path in paths
    ]


def _configuration(service: Service, client_config: Obj, spared: list[str]) -> Obj:
    mutating = service.step == "mutate"
    rule = {
        "apiGroups": [service.kind.group],
        "apiVersions": [service.kind.version],
        "resources": [service.kind.plural],
        "operations": list(service.operations),
    }
    webhook: Obj = {
        "name": service.webhook,
        "rules": [rule],
        "clientConfig": client_config,
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": spared}]
        },
    }
    if mutating:
        webhook["reinvocationPolicy"] = "Never"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration",
        "metadata": {"name": f"volcano-admission-service-{service.kind.plural}-{service.step}"},
        "webhooks": [webhook],
    }
