"""`events.k8s.io`: the same Events as in the core group, under the newer names of their fields.

Nothing is stored twice. A request is put into the words of the core group, answered there, and its answer put back.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec

from hekla.api.kinds import EVENT, Kind, Obj
from hekla.apiserver.decoding import decode_object
from hekla.apiserver.invalid import Problem, invalid, refusal, required
from hekla.apiserver.path import Route
from hekla.apiserver.request import JSON, Request, Response
from hekla.apiserver.resource import Resource
from hekla.apiserver.transforms import read_patch
from hekla.apiserver.verbs import check_type, metadata_of
from hekla.errors import ApiError, BadRequest

EVENTS_EVENT = Kind("events.k8s.io", "v1", "Event", "events", True, ("ev",))
_NEWER = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OLDER = {newer: older for older, newer in _NEWER.items()}
_SELECTED = re.compile(r"(?:^|(?<=,))\s*([A-Za-z]+)")
_RESOURCE = Resource(EVENTS_EVENT)
_CORE = Resource(EVENT)

Dispatch = Callable[[Resource, Route, Request], Awaitable[Response]]


def is_event_route(route: Route | None) -> bool:
    return route is not None and (route.group, route.version, route.plural) == ("events.k8s.io", "v1", "events")


async def answer_event(route: Route, request: Request, dispatch: Dispatch) -> Response:
    """`dispatch` answers for the core group."""
    older = _older_request(request)
    try:
        response = await dispatch(_CORE, route._replace(group="", version="v1"), older)
    except ApiError as error:
        raise _newer_error(error) from None
    finally:
        request.verb, request.resource = older.verb, EVENTS_EVENT.resource
    if response.stream is not None:
        response.stream = _newer_lines(response.stream)
    else:
        response.body = _newer_body(response.body)
    return response


def _older_request(request: Request) -> Request:
    query = dict(request.query)
    if query.get("fieldSelector"):
        query["fieldSelector"] = _SELECTED.sub(_older_field, query["fieldSelector"])
    if request.method == "PATCH":
        _, patch = read_patch(_RESOURCE, request)
        return replace(request, query=query, body=msgspec.json.encode(_older_patch(patch)))
    if request.method in ("POST", "PUT"):
        event = decode_object(request, EVENTS_EVENT.kind)
        check_type(event, _RESOURCE)
        if request.method == "POST":
            _check_new(event)
        headers = {**request.headers, "content-type": JSON}
        return replace(request, query=query, headers=headers, body=msgspec.json.encode(_renamed(event, _OLDER)))
    return replace(request, query=query)


def _older_field(match: re.Match[str]) -> str:
    if match[1] in _NEWER:
        raise BadRequest(f"field label not supported: {match.string[match.start() :].partition('=')[0].strip('!, ')}")
    return _OLDER.get(match[1], match[1])


def _older_patch(patch: Any) -> Any:
    if isinstance(patch, dict):
        return _renamed(patch, _OLDER)
    if not isinstance(patch, list):
        return patch
    return [{**each, **_older_paths(each)} if isinstance(each, dict) else each for each in patch]


def _older_paths(operation: Obj) -> Obj:
    paths = {name: str(operation[name]).split("/") for name in ("path", "from") if name in operation}
    return {name: "/".join(_OLDER.get(part, part) if n == 1 else part for n, part in enumerate(path))
            for name, path in paths.items()}  # fmt: skip


def _check_new(event: Obj) -> None:
    problems: list[Problem] = [] if event.get("eventTime") else [required("eventTime")]
    if event.get("type") not in ("Normal", "Warning"):
        given = event.get("type") or ""
        problems.append(invalid("type", given, f"has invalid value: {given}"))
    if problems:
        raise refusal(EVENT, str(metadata_of(event).get("name", "")), problems)


def _renamed(obj: Obj, names: dict[str, str]) -> Obj:
    renamed = {names.get(name, name): value for name, value in obj.items() if value != ""}
    if "apiVersion" in renamed:
        renamed["apiVersion"] = EVENT.api_version if names is _OLDER else EVENTS_EVENT.api_version
    return renamed


def _newer(document: Any) -> Any:
    """An Event or a list of them; a Status of success, too, names the group. Tables and the like are as they are."""
    if not isinstance(document, dict):
        return document
    match document.get("kind"), document.get("apiVersion"):
        case "Event", "v1":
            return _renamed(document, _NEWER)
        case "EventList", "v1":
            items = [_renamed(item, _NEWER) for item in document["items"]]
            return {**document, "apiVersion": EVENTS_EVENT.api_version, "items": items}
        case "Status", "v1" if document.get("details"):
            return {**document, "details": _newer_details(document["details"])}
    return document


def _newer_body(body: bytes) -> bytes:
    return msgspec.json.encode(_newer(msgspec.json.decode(body)))


async def _newer_lines(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for chunk in stream:
            events = [msgspec.json.decode(line) for line in chunk.splitlines() if line]
            lines = [msgspec.json.encode({**event, "object": _newer(event["object"])}) for event in events]
            yield b"".join(line + b"\n" for line in lines)
    finally:
        await stream.aclose()  # type: ignore[attr-defined]


def _newer_error(error: ApiError) -> ApiError:
    if (error.details or {}).get("kind") != EVENT.plural:
        return error
    message = error.message.replace(f'{EVENT.resource} "', f'{EVENTS_EVENT.resource} "', 1)
    return type(error)(message, code=error.code, reason=error.reason, details=_newer_details(error.details or {}))


def _newer_details(details: Obj) -> Obj:
    return {**details, "group": EVENTS_EVENT.group} if details.get("kind") == EVENT.plural else details
