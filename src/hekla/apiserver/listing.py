"""Lists: which revision, which page, which objects."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass

import msgspec

from hekla.apiserver.request import Request
from hekla.apiserver.resource import Resource
from hekla.apiserver.selecting import Selection
from hekla.apiserver.store.store import Compacted, Entry, Store
from hekla.errors import ApiError, BadRequest, Expired, Timeout

_FUTURE_SECONDS = 3.0
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Page:
    entries: list[Entry]
    revision: int
    continue_token: str = ""
    remaining: int = 0


async def list_page(store: Store, selection: Selection, request: Request) -> Page:
    limit = request.number("limit") or 0
    token = request.query.get("continue", "")
    match = request.query.get("resourceVersionMatch", "")
    wanted = parse_revision(request.query.get("resourceVersion", ""), of_list=True)
    _check_match(request, match)
    if token:
        revision, start = _read_token(token)
        at = revision if revision > 0 else store.revision
        try:
            entries = store.entries(selection.resource.storage, selection.namespace, at=at)
        except Compacted:
            details = {"continue": _token(-1, start)}
            raise Expired(_EXPIRED, details=details) from None
        entries = [entry for entry in entries if (entry.key.namespace, entry.key.name) > start]
        return _page(entries, selection, at, limit)
    if wanted:
        await wait_for_revision(store, selection.resource, wanted)
    if match == "Exact":
        try:
            return _page(
                store.entries(selection.resource.storage, selection.namespace, at=wanted), selection, wanted, limit
            )
        except Compacted:
            raise Expired("The resourceVersion for the provided list is too old.") from None
    return _page(store.entries(selection.resource.storage, selection.namespace), selection, store.revision, limit)


def _check_match(request: Request, match: str) -> None:
    if match not in ("", "Exact", "NotOlderThan"):
        supported = '"Exact", "NotOlderThan", ""'
        raise request.bad_option("resourceVersionMatch", f'Unsupported value: "{match}": supported values: {supported}')
    if match and not request.query.get("resourceVersion"):
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise request.bad_option("resourceVersionMatch", why, "FieldValueForbidden")
    if match == "Exact" and request.query["resourceVersion"] == "0":
        why = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise request.bad_option("resourceVersionMatch", why, "FieldValueForbidden")


def parse_revision(text: str, *, of_list: bool = False) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        # parity: lists say who is at fault, gets and watches do not.
        raise BadRequest(f"invalid resource version: {why}") if of_list else ApiError(why, reason="")
    return int(text)


async def wait_for_revision(store: Store, resource: Resource, revision: int) -> None:
    """Reads at a revision of the future wait a little for it, then fail."""
    if revision <= store.revision:
        return
    try:
        async with asyncio.timeout(_FUTURE_SECONDS):
            while revision > store.revision:
                await store.changed(resource.storage, store.revision)
    except TimeoutError:
        if revision <= store.revision:
            return
        raise Timeout(
            f"Timeout: Too large resource version: {revision}, current: {store.revision}",
            details={
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        ) from None


def _page(entries: list[Entry], selection: Selection, revision: int, limit: int) -> Page:
    if not selection.everything:
        entries = [entry for entry in entries if selection.matches(entry)]
    if limit <= 0 or len(entries) <= limit:
        return Page(entries, revision)
    page = entries[:limit]
    # parity: how many remain is not told where a selector is at work.
    remaining = len(entries) - limit if selection.everything else 0
    return Page(page, revision, _token(revision, (page[-1].key.namespace, page[-1].key.name)), remaining)


def _token(revision: int, start: tuple[str, str]) -> str:
    document = {"v": "meta.k8s.io/v1", "rv": revision, "start": "\0".join(start)}
    return base64.urlsafe_b64encode(msgspec.json.encode(document)).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        document = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = document["start"].partition("\0")
        return int(document["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError, AttributeError, msgspec.DecodeError):
        raise BadRequest("invalid continue token: continue key is not valid") from None
