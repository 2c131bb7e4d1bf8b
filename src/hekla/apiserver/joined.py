"""Requests that came joined in one: each is answered as if it had come alone, all at the same time.

    RequestBatch  {"items": [{"method", "path", "type", "body"}]}          -> {"results": [{"code", "headers", "body"}]}

What is saved is HTTP, a good part of what a small write costs. Only writes come this way: what streams needs a
connection of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Literal
from urllib.parse import parse_qsl

import msgspec

from hekla.api.batches import BATCH_PATH, REQUEST_BATCH
from hekla.apiserver.request import JSON, Request, Response, json_response
from hekla.errors import BadRequest

_MOST = 64
Answer = Callable[[Request], Coroutine[None, None, Response]]


class _Item(msgspec.Struct):
    method: Literal["POST", "PUT", "PATCH"]
    path: str
    type: str = JSON
    body: msgspec.Raw = msgspec.Raw(b"")


class _Joined(msgspec.Struct):
    items: list[_Item]


_decode = msgspec.json.Decoder(_Joined).decode


async def answer_joined(request: Request, answer: Answer) -> Response:
    try:
        items = _decode(request.body).items
    except msgspec.DecodeError as error:
        raise BadRequest(f"{REQUEST_BATCH.kind}: {error}", details={}) from error
    if len(items) > _MOST:
        raise BadRequest(f"{REQUEST_BATCH.kind}: {len(items)} requests, at most {_MOST} are taken", details={})
    requests = [_alone(item, request) for item in items]
    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(answer(one)) for one in requests]
    results = [_result(each.result()) for each in answers]
    return json_response({"kind": REQUEST_BATCH.kind, "apiVersion": REQUEST_BATCH.api_version, "results": results})


def _alone(item: _Item, request: Request) -> Request:
    path, _, query = item.path.partition("?")
    if path.startswith(BATCH_PATH):
        raise BadRequest(f"{REQUEST_BATCH.kind}: {path} cannot be joined", details={})
    options = dict(parse_qsl(query, keep_blank_values=True))
    headers = {**request.headers, "content-type": item.type}
    return Request(item.method, path, options, headers, bytes(item.body), request.user)


def _result(response: Response) -> dict[str, object]:
    body = msgspec.Raw(response.body) if response.content_type == JSON else response.body.decode()
    return {"code": response.status, "headers": dict(response.headers), "body": body}
