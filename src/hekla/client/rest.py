"""The Kubernetes verbs, typed: objects in, objects out, ApiError when the server says no.

One request each, no retries: who calls knows whether a second attempt is safe. Watching is in `watch.py`.
"""

from __future__ import annotations

import asyncio
import builtins
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from hekla.api.batches import BATCH_PATH, BINDING_BATCH, OBJECT_BATCH, Binding
from hekla.api.kinds import POD, Kind, Obj
from hekla.api.meta import Key, count_of
from hekla.api.names import path_segment_problems
from hekla.client.many import Portion, error_in, in_turns, portions
from hekla.client.transport import Answer, Request, StreamedAnswer, Transport
from hekla.client.views import View, decode_list, decode_object, decode_results
from hekla.errors import ApiError, BadRequest, Disconnected, Forbidden, NotFound, TooLarge, error_from_status
from hekla.log import get_logger

log = get_logger("client")

# Inside Client, `list` is the verb.
_Objects = list[Obj]
_Created = list[Obj | ApiError]
_Bound = list[ApiError | None]
# Half of the connections: single requests always find one free.
_IN_FLIGHT = 32
_BATCHES_IN_FLIGHT = 2
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*")  # it needs no second look
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class PatchStyle(StrEnum):
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class ObjectList:
    items: list[Obj]
    resource_version: str
    continue_token: str = ""
    odd: frozenset[Key] = frozenset()
    """Objects that do not fit the view: they are there, but not among the items."""


class Client:
    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "hekla",
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """`on_warning` hears what servers say in Warning headers, for those who want to tell a person."""
        self._on_warning = on_warning
        self.transport = transport
        self._headers = {**_JSON, "User-Agent": user_agent}
        self._batches: bool | None = None
        # However many callers have many to write, a server that takes them one by one is not flooded.
        self._turn = asyncio.Semaphore(_IN_FLIGHT)

    def through(self, transport: Transport) -> Client:
        """The same client on another connection."""
        return Client(transport, user_agent=self._headers["User-Agent"], on_warning=self._on_warning)

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Obj:
        return await self._object("GET", path_of(kind, namespace, name))

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Obj | None:
        """`get`, with None in place of NotFound."""
        try:
            return await self.get(kind, name, namespace)
        except NotFound:
            return None

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
        view: View | None = None,
    ) -> ObjectList:
        """One page (`limit` 0: everything). Items carry apiVersion and kind, which lists leave out on the wire.

        With a `view`, items hold what it names and nothing else.
        """
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            resourceVersion=resource_version,
            limit=limit or "",
            **{"continue": continue_token},
        )
        answer = await self.transport.send(Request("GET", kind.path(namespace) + query, headers=self._headers))
        _check(answer)
        try:
            document, odd = decode_list(answer.body, view)
        except msgspec.DecodeError as error:
            raise _not_understood(answer.body) from error
        items, meta = document.items or [], document.metadata or {}
        api_version, name = kind.api_version, kind.kind
        for item in items:
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", name)
        for key, why in odd.items():
            log.warning("object not understood", kind=name, name=key.name, namespace=key.namespace, error=why)
        revision, token = str(meta.get("resourceVersion", "")), str(meta.get("continue") or "")
        return ObjectList(items, revision, token, frozenset(odd))

    async def list_page(self, kind: Kind, *, limit: int, continue_token: str = "") -> bytes:
        """One page of all objects of a kind as the server sent it, for those who read only a part of it."""
        query = _query(limit=limit, **{"continue": continue_token})
        return (await self.raw("GET", kind.path() + query)).body

    async def find_all(self, kind: Kind, namespace: str | None = None) -> _Objects:
        return (await self.list(kind, namespace)).items

    async def create(
        self,
        kind: Kind,
        obj: Obj,
        *,
        dry_run: bool = False,
        field_validation: str = "",
        subresource: str = "",
        view: View | None = None,
    ) -> Obj:
        """Create in the object's own namespace (`default` for a namespaced object that names none)."""
        namespace = _namespace(kind, obj)
        above = path_of(kind, namespace, obj["metadata"]["name"], subresource) if subresource else kind.path(namespace)
        query = _query(dryRun="All" if dry_run else "", fieldValidation=field_validation)
        return await self._object("POST", above + query, obj, view=view)

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "", view: View | None = None) -> Obj:
        """Replace; a stale resourceVersion raises Conflict."""
        path = path_of(kind, _namespace(kind, obj), obj["metadata"]["name"], subresource)
        return await self._object("PUT", path, obj, view=view)

    async def update_status(self, kind: Kind, obj: Obj, *, view: View | None = None) -> Obj:
        """Write `status`: through the subresource where the kind has one, else through the object itself."""
        return await self.update(kind, obj, subresource="status" if "status" in kind.subresources else "", view=view)

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        style: PatchStyle = PatchStyle.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> Obj:
        query = _query(fieldManager=field_manager, force="true" if force else "")
        path = path_of(kind, namespace, name, subresource) + query
        return await self._object("PATCH", path, patch, content_type=style.value)

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """Delete; with `uid`, only that very object (Conflict otherwise)."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        return await self._object("DELETE", path_of(kind, namespace, name), options)

    async def bind(
        self, namespace: str, pod: str, node: str, *, uid: str, annotations: dict[str, str] | None = None
    ) -> None:
        """Place a pod. The server refuses one that is bound, gated, being deleted, or not of this uid."""
        await self._bind_one(Binding(namespace, pod, node, uid, annotations or {}))

    async def create_many(
        self, kind: Kind, objs: Sequence[Obj], *, view: View | None = None, in_flight: int = _IN_FLIGHT
    ) -> _Created:
        """`create`, for many: what each became, or why not. One request for hundreds where the server offers it.

        With a `view`, what they became holds what it names and nothing else. Elsewhere `in_flight` are on their way at
        a time.
        Raises Disconnected when an answer was lost: then some may have been created, and the caller looks again.
        """
        if len(objs) == 1:
            return await in_turns(objs, lambda obj: self.create(kind, obj, view=view), 1)
        if not objs or not await self.offers_batches():
            return await in_turns(objs, lambda obj: self._create_one(kind, obj, view), in_flight)
        sent = list(portions([{**obj, "apiVersion": kind.api_version, "kind": kind.kind} for obj in objs]))
        created: _Created = []
        answers = await in_turns(sent, lambda portion: self._create_portion(portion, view), _BATCHES_IN_FLIGHT)
        for portion, answer in zip(sent, answers, strict=True):
            created += [answer] * len(portion) if isinstance(answer, ApiError) else answer
        return created

    async def bind_many(self, bindings: Sequence[Binding], *, all_or_nothing: bool) -> _Bound:
        """`bind`, for many: None, or why not.

        `all_or_nothing`: either all are placed, on nodes that have room for them, or none. A server that does not offer
        this places what it can, one by one, and does not look at the room.
        """
        try:
            if len(bindings) > (0 if all_or_nothing else 1) and await self.offers_batches():
                batch = {"items": [each.to_object() for each in bindings], "allOrNothing": all_or_nothing}
                answer = await self._object("POST", BINDING_BATCH.path(), batch)
                return [error_in(result) for result in answer["results"]]
        except TooLarge:
            log.info("batch too large, binding one by one", bindings=len(bindings))
        except ApiError as error:
            return [error] * len(bindings)
        return await in_turns(bindings, self._bind_in_turn, _IN_FLIGHT)

    async def rehearse_bindings(self, bindings: Sequence[Binding]) -> _Bound:
        """What `bind` would answer to each, with nothing done: admission and the pods' state, not the room."""
        return await in_turns(bindings, self._rehearse_binding, _IN_FLIGHT)

    async def raw(self, method: str, path: str, *, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        """Any path, any body; an error status raises ApiError."""
        answer = await self.transport.send(Request(method, path, body, {**self._headers, **(headers or {})}))
        _check(answer)
        return answer

    async def stream_chunks(self, path: str, *, accept: str) -> AsyncIterator[bytes]:
        """A streamed answer as it comes (followed logs)."""
        request = Request("GET", path, headers={**self._headers, "Accept": accept}, timeout=math.inf)
        async with self.transport.stream(request) as answer:
            _check(answer)
            async for chunk in answer.chunks:
                yield chunk

    async def stream_many_lines(
        self, path: str, *, accept: str = "application/json", timeout: float = math.inf
    ) -> AsyncGenerator[builtins.list[bytes], None]:
        """The lines of a streamed answer without their newline, those that came together at once."""
        request = Request("GET", path, headers={**self._headers, "Accept": accept}, timeout=timeout)
        async with self.transport.stream(request) as answer:
            _check(answer)
            pending = b""
            async for chunk in answer.chunks:
                lines = (pending + chunk).split(b"\n")
                pending = lines.pop()
                if lines:
                    yield lines
            if pending:
                yield [pending]

    async def close(self) -> None:
        await self.transport.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _bind_one(self, binding: Binding) -> None:
        await self._object("POST", POD.path(binding.namespace, binding.pod, "binding"), binding.to_object())

    async def _bind_in_turn(self, binding: Binding) -> None:
        async with self._turn:
            await self._bind_one(binding)

    async def _rehearse_binding(self, binding: Binding) -> None:
        async with self._turn:
            path = POD.path(binding.namespace, binding.pod, "binding") + _query(dryRun="All")
            await self._object("POST", path, binding.to_object())

    async def _create_one(self, kind: Kind, obj: Obj, view: View | None) -> Obj:
        async with self._turn:
            return await self.create(kind, obj, view=view)

    async def _create_portion(self, portion: Portion, view: View | None) -> _Created:
        body = msgspec.json.encode({"items": portion})
        answer = await self.transport.send(Request("POST", OBJECT_BATCH.path(), body, self._headers))
        _check(answer)
        try:
            results = decode_results(answer.body, view)
        except msgspec.DecodeError as error:
            raise _not_understood(answer.body) from error
        return [error_from_status(result.status) if result.status else result.object or {} for result in results]

    async def offers_batches(self) -> bool:
        """Whether the server takes many writes in one request, all or nothing where that is wanted."""
        if self._batches is None:
            try:
                await self._object("GET", BATCH_PATH)
                self._batches = True
            except (NotFound, Forbidden):
                self._batches = False
        return self._batches

    async def _object(
        self, method: str, path: str, body: Any = None, *, content_type: str = "", view: View | None = None
    ) -> Obj:
        headers = {**self._headers, "Content-Type": content_type} if content_type else self._headers
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self.transport.send(Request(method, path, data, headers))
        _check(answer)
        if self._on_warning is not None:
            for warning in warnings_in(answer.headers):
                self._on_warning(warning)
        return _decode(answer.body, view)


def warnings_in(headers: Mapping[str, str]) -> list[str]:
    """The texts of Warning headers (`299 - "text"`), unescaped."""
    found = [match[1] for match in _WARNING.finditer(headers.get("Warning", ""))]
    return [text.replace('\\"', '"').replace("\\\\", "\\") for text in found]


def path_of(kind: Kind, namespace: str | None, name: str, subresource: str = "") -> str:
    """The path of one object.

    Without a name it would be that of all of them, and a verb meant for one object would act on all.
    """
    if not _PLAIN_NAME.fullmatch(name):
        problems = path_segment_problems(name) if name else ["may not be empty"]
        if problems:
            raise BadRequest(f"{kind.plural}: the name {'; '.join(problems)}")
        name = quote(name, safe="")
    return kind.path(namespace, name, subresource)


def _namespace(kind: Kind, obj: Obj) -> str | None:
    return (obj["metadata"].get("namespace") or "default") if kind.namespaced else None


def _query(**parameters: object) -> str:
    given = {key: value for key, value in parameters.items() if value != ""}
    return f"?{urlencode(given)}" if given else ""


def _decode(body: bytes, view: View | None = None) -> Obj:
    try:
        document = decode_object(body, view)
    except msgspec.DecodeError as error:
        raise _not_understood(body) from error
    if not isinstance(document, dict):
        raise Disconnected(f"the server's answer is not an object: {body[:120]!r}")
    return document


def _not_understood(body: bytes) -> Disconnected:
    return Disconnected(f"the server's answer is not JSON: {body[:120]!r}")


def _check(answer: Answer | StreamedAnswer) -> None:
    if answer.status < 300:
        return
    error = _error_in(answer)
    asked = count_of(answer.headers.get("Retry-After", ""))
    if asked and error.retry_after is None:
        # Who is too busy to say more than a line of text says this beside it.
        error.details = {**(error.details or {}), "retryAfterSeconds": asked}
    raise error


def _error_in(answer: Answer | StreamedAnswer) -> ApiError:
    try:
        document = _decode(answer.body)
    except Disconnected:
        document = {"message": answer.body[:500].decode(errors="replace").strip()}
    return error_from_status(document, answer.status)


__all__ = ["ApiError", "Client", "ObjectList", "PatchStyle", "path_of"]
