"""A connection on which a server shows the metadata of objects only: whose they are, without what they hold."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import msgspec

from hekla.client.transport import Answer, Request, StreamedAnswer, Transport

_METADATA = "application/json;as={};g=meta.k8s.io;v=v1"


class MetadataTransport:
    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Answer:
        return await self._inner.send(request if request.writes else _accepting("PartialObjectMetadataList", request))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedAnswer]:
        return self._inner.stream(_accepting("PartialObjectMetadata", request))

    async def close(self) -> None:
        """The inner transport belongs to somebody else."""


def _accepting(form: str, request: Request) -> Request:
    return msgspec.structs.replace(request, headers={**request.headers, "Accept": _METADATA.format(form)})
