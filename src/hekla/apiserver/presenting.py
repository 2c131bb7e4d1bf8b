"""How objects are shown: as they are, as a Table, or only their metadata; chosen by the Accept header."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from hekla.api.kinds import Obj
from hekla.apiserver.listing import Page
from hekla.apiserver.request import Request
from hekla.apiserver.resource import Resource
from hekla.apiserver.table import table_columns, table_row
from hekla.errors import NotAcceptable

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_PLAIN = ("", "application/json")
_ACCEPTABLE = ("application/json", "application/*", "*/*", "application/yaml")


class Presentation:
    """Objects as stored."""

    name = "plain"

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def one(self, value: bytes) -> bytes:
        return value

    def page(self, page: Page) -> bytes:
        kind = self.resource.kind
        head = {"kind": self.resource.list_kind, "apiVersion": kind.api_version, "metadata": list_metadata(page)}
        return _with_items(head, [entry.value for entry in page.entries])

    def watched(self, value: bytes) -> bytes:
        """One object inside a watch event."""
        return self.one(value)


class MetadataPresentation(Presentation):
    name = "metadata"

    def one(self, value: bytes) -> bytes:
        return _encode(partial_metadata(_decode(value)))

    def page(self, page: Page) -> bytes:
        head = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": list_metadata(page),
        }
        return _with_items(head, [self.one(entry.value) for entry in page.entries])


class TablePresentation(Presentation):
    name = "table"

    def __init__(self, resource: Resource, include: str, now: Callable[[], datetime]) -> None:
        super().__init__(resource)
        self._include = include
        self._now = now
        self._told_columns = False

    def one(self, value: bytes) -> bytes:
        obj = _decode(value)
        return self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}, columns=True)

    def page(self, page: Page) -> bytes:
        return self._table([entry.decode() for entry in page.entries], list_metadata(page), columns=True)

    def watched(self, value: bytes) -> bytes:
        # Only the first event of a watch carries the columns.
        obj = _decode(value)
        columns, self._told_columns = not self._told_columns, True
        return self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}, columns=columns)

    def _table(self, objects: list[Obj], metadata: Obj, *, columns: bool) -> bytes:
        now = self._now()
        return _encode(
            {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "columnDefinitions": table_columns(self.resource) if columns else None,
                "rows": [
                    {"cells": table_row(self.resource, obj, now), "object": self._included(obj)} for obj in objects
                ],
            }
        )

    def _included(self, obj: Obj) -> Obj | None:
        if self._include == "None":
            return None
        return obj if self._include == "Object" else partial_metadata(obj)


def choose_presentation(resource: Resource, request: Request, now: Callable[[], datetime]) -> Presentation:
    accept = request.headers.get("accept", "")
    if accept in _PLAIN:
        return Presentation(resource)
    for offered in accept.split(","):
        media, *parameters = (part.strip() for part in offered.split(";"))
        if media not in _ACCEPTABLE:
            continue
        wanted = dict(part.partition("=")[::2] for part in parameters)
        if wanted.get("g", "meta.k8s.io") != "meta.k8s.io" or wanted.get("v", "v1") not in ("v1", "v1beta1"):
            continue
        match wanted.get("as", ""):
            case "Table":
                return TablePresentation(resource, request.query.get("includeObject", "Metadata"), now)
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return MetadataPresentation(resource)
            case "":
                return Presentation(resource)
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/json;stream=watch", details={}
    )


def partial_metadata(obj: Obj) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def list_metadata(page: Page) -> Obj:
    metadata: Obj = {"resourceVersion": str(page.revision)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
        if page.remaining:
            metadata["remainingItemCount"] = page.remaining
    return metadata


def _with_items(head: Obj, items: list[bytes]) -> bytes:
    return b"".join((_encode(head)[:-1], b',"items":[', b",".join(items), b"]}"))
