"""The ASGI app: a request in, routed to a verb, an answer out. No sockets, no threads, no framework."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from hekla.api.batches import BATCH_GROUP, REQUEST_BATCH
from hekla.api.kinds import NAMESPACE
from hekla.api.review import Admission, Reader
from hekla.apiserver.access.access import Access
from hekla.apiserver.access.attributes import request_attributes
from hekla.apiserver.access.authentication import Authenticator
from hekla.apiserver.access.escalation import Escalation
from hekla.apiserver.access.rbac import Authorizer
from hekla.apiserver.access.reviews import Reviews
from hekla.apiserver.access.signing import Signer
from hekla.apiserver.access.token_requests import TokenRequests
from hekla.apiserver.access.tokens import Tokens
from hekla.apiserver.access.user import ADMIN, User
from hekla.apiserver.admitting import Admitter, StoreReader
from hekla.apiserver.batches import Batches
from hekla.apiserver.bootstrap import bootstrap
from hekla.apiserver.discovery import Discovery
from hekla.apiserver.event_group import answer_event, is_event_route
from hekla.apiserver.joined import answer_joined
from hekla.apiserver.logs import LogProxy
from hekla.apiserver.metrics import Metrics, verb_of
from hekla.apiserver.openapi import OpenApi
from hekla.apiserver.path import Route, parse_route
from hekla.apiserver.request import BODY_LIMIT, Request, Response, error_response, json_response, no_such_path
from hekla.apiserver.resource import Registry, Resource
from hekla.apiserver.store.store import Store, StoreBroken
from hekla.apiserver.subresource import Subresources
from hekla.apiserver.usage import Usage, is_usage_route
from hekla.apiserver.verbs import Verbs
from hekla.apiserver.version import version_document
from hekla.apiserver.writing import Writer
from hekla.clock import Clock
from hekla.errors import ApiError, BadRequest, InternalError, MethodNotAllowed, ServiceUnavailable, TooLarge
from hekla.log import get_logger

log = get_logger("apiserver")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_HEALTH = ("/healthz", "/livez", "/readyz")


class App:
    """Use `build_app`. `start` fills an empty store; calls before it are answered, but may miss the namespaces."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        writer: Writer,
        verbs: Verbs,
        below: Subresources,
        batches: Batches,
        usage: Usage,
        access: Access,
        *,
        clock: Clock,
        root_ca: str,
    ) -> None:
        self._clock = clock
        self._metrics = Metrics(store)
        self._store = store
        self._registry = registry
        self._writer = writer
        self._verbs = verbs
        self._below = below
        self._batches = batches
        self._usage = usage
        self.access = access
        self._reviews = Reviews(access.authenticator, access.authorizer)
        self._root_ca = root_ca
        self._discovery = Discovery(registry)
        self._openapi = OpenApi(registry)

    async def start(self) -> None:
        await bootstrap(self._store, self._writer, root_ca=self._root_ca)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = _request(scope)
        response = await self._answer_or_refuse(request, partial(self._read_and_answer, request, scope, receive))
        if response.stream is None:
            await _send(response, receive, send)
        else:
            with self._metrics.streams(request).track_inprogress():
                await _send(response, receive, send)

    async def _answer_or_refuse(self, request: Request, answer: Callable[[], Awaitable[Response]]) -> Response:
        started = self._clock.monotonic()
        response = await self._refuse_if_need_be(request, answer)
        self._metrics.answered(request, response, self._clock.monotonic() - started)
        return response

    async def _refuse_if_need_be(self, request: Request, answer: Callable[[], Awaitable[Response]]) -> Response:
        try:
            return await answer()
        except ApiError as error:
            return error_response(error, request.warnings)
        except (RecursionError, OverflowError):
            # Nested deeper, or numbers larger, than can be walked or stored.
            why = "the object is nested too deeply or holds a number that is too large"
            return error_response(BadRequest(why))
        except StoreBroken as error:
            return error_response(ServiceUnavailable(f"the store has failed: {error}"))
        except Exception as error:
            log.exception("request failed", method=request.method, path=request.path)
            return error_response(InternalError(f"Internal error occurred: {type(error).__name__}"))

    async def _read_and_answer(self, request: Request, scope: Scope, receive: Receive) -> Response:
        request.user = self.access.identify(request.user, request.headers, scope["headers"])
        if request.method in ("POST", "PUT", "PATCH", "DELETE"):
            request.body = await _body(receive, request)
        return await self._answer(request)

    async def _answer(self, request: Request) -> Response:
        route = parse_route(request.path)
        if not request.user.is_master and not _is_batch(route, request):
            self.access.permit(request.user, request_attributes(request.method, request.path, request.query, route))
        resource = self._registry.find(route.group, route.version, route.plural) if route is not None else None
        if route is not None and _is_batch(route, request):
            request.verb, request.resource = request.method, route.plural
            if route.plural == REQUEST_BATCH.plural:
                return await answer_joined(request, lambda one: self._answer_or_refuse(one, partial(self._answer, one)))
            return await self._batches.answer(route, request)
        if route is not None and is_event_route(route):
            return await answer_event(route, request, self._verb)
        if route is not None and is_usage_route(route, request):
            return await self._usage.answer(route, request)
        if route is None or resource is None:
            return self._other(request, route)
        if route.namespace and not resource.kind.namespaced:
            raise no_such_path()
        return await self._verb(resource, route, request)

    async def _verb(self, resource: Resource, route: Route, request: Request) -> Response:
        request.verb, request.resource = verb_of(request, route), resource.kind.resource
        if route.subresource:
            return await self._below.answer(resource, route, request)
        verbs = self._verbs
        match request.method, bool(route.name):
            case "GET", True if not request.flag("watch"):
                return await verbs.get(resource, route, request)
            case "GET", _:
                return await verbs.list(resource, route, request)
            case "POST", False:
                return await verbs.create(resource, route, request)
            case "PUT", True:
                return await verbs.update(resource, route, request)
            case "PATCH", True:
                return await verbs.patch(resource, route, request)
            case "DELETE", True:
                return await verbs.delete(resource, route, request)
            case "DELETE", False if resource.kind != NAMESPACE:
                return await verbs.delete_collection(resource, route, request)
        raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})

    def _other(self, request: Request, route: Route | None) -> Response:
        path = request.path.rstrip("/") or "/"
        if path in _HEALTH:
            return Response(
                500 if self._store.broken else 200, b"failed" if self._store.broken else b"ok", "text/plain"
            )
        if path == "/metrics" and request.method == "GET":
            return self._metrics.page()
        if path == "/version":
            return json_response(version_document())
        if request.method == "POST" and route is not None:
            reviewed = self._reviews.answer(route, request)
            if reviewed is not None:
                return reviewed
        if request.method == "GET":
            found = self._openapi.answer(path, request) or self._discovery.answer(path, request)
            if found is not None:
                return found
        if not self._discovery.knows(path):
            return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
        raise no_such_path()


def build_app(
    store: Store,
    *,
    clock: Clock,
    rng: random.Random,
    admission: Callable[[Reader], Admission] | None = None,
    logs: LogProxy | None = None,
    signer: Signer | None = None,
    holders: Mapping[str, User] | None = None,
    root_ca: str = "",
) -> App:
    """The app over a store. `admission` is given a reader of it; `await app.start()` before the first request.

    `signer` makes service account tokens (without one they end with this process), `holders` are the users of tokens
    handed out beforehand by their hash, `root_ca` is what pods need to trust this server. Who brings no credential is
    the administrator: whatever faces strangers must see to that.
    """
    admitter = Admitter(admission(StoreReader(store)), rng) if admission is not None else None
    registry = Registry(store)
    tokens = Tokens(store, signer or Signer.generate(), clock=clock, rng=rng)
    access = Access(Authenticator(holders or {}, tokens), Authorizer(store))
    writer = Writer(store, Escalation(access.authorizer), clock=clock, rng=rng, admitter=admitter)
    verbs = Verbs(store, writer, access.authorizer, clock=clock, rng=rng)
    below = Subresources(
        store, writer, verbs, clock=clock, logs=logs, token_requests=TokenRequests(store, tokens, clock=clock)
    )
    batches = Batches(store, registry, writer, access, clock=clock)
    usage = Usage(store, logs, clock=clock)
    return App(store, registry, writer, verbs, below, batches, usage, access, clock=clock, root_ca=root_ca)


def _request(scope: Scope) -> Request:
    return Request(
        scope["method"],
        _raw_path(scope),
        dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
        {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        user=scope.get("hekla.user", ADMIN),
    )


def _is_batch(route: Route | None, request: Request) -> bool:
    """Of many writes in one request each is permitted or forbidden by itself."""
    return route is not None and route.group == BATCH_GROUP and request.method == "POST"


def _raw_path(scope: Scope) -> str:
    raw = scope.get("raw_path")
    return raw.decode("latin-1").partition("?")[0] if raw else str(scope["path"])


async def _body(receive: Receive, request: Request) -> bytes:
    if int(request.headers.get("content-length") or 0) > BODY_LIMIT:
        raise _too_large()
    chunks: list[bytes] = []
    size, more = 0, True
    # A body sent in pieces announces no length: count while it comes.
    while more and size <= BODY_LIMIT:
        message = await receive()
        if message["type"] == "http.disconnect":
            # Half a body may look like a whole one, and would be obeyed: a delete without its preconditions.
            raise BadRequest("the connection was closed before the whole request had come", details={})
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = bool(message.get("more_body"))
    if size > BODY_LIMIT:
        raise _too_large()
    return b"".join(chunks) if len(chunks) > 1 else chunks[0]


def _too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {BODY_LIMIT}", details={})


async def _send(response: Response, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", response.content_type.encode())]
    headers += [(name.encode(), value.encode()) for name, value in response.headers]
    if response.stream is None:
        headers.append((b"content-length", str(len(response.body)).encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})
        return
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    await _send_stream(response, receive, send)


async def _send_stream(response: Response, receive: Receive, send: Send) -> None:
    """Pass chunks on until they end or the client goes away."""
    async with asyncio.TaskGroup() as group:
        pump = group.create_task(_pump(response, send))
        watcher = group.create_task(_disconnected(receive))
        await asyncio.wait([pump, watcher], return_when=asyncio.FIRST_COMPLETED)
        pump.cancel()
        watcher.cancel()


async def _pump(response: Response, send: Send) -> None:
    assert response.stream is not None
    try:
        async for chunk in response.stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await response.stream.aclose()  # type: ignore[attr-defined]


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
