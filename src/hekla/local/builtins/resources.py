"""Which resources a server has, asked of the server itself; and a view of it that shows metadata only."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import msgspec

from hekla.api.kinds import Kind
from hekla.client.rest import Client
from hekla.client.transport import Answer, Request, StreamedAnswer, Transport

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_METADATA = "application/json;as={};g=meta.k8s.io;v=v1"
_NEEDED = frozenset({"list", "watch", "delete"})
# Events point at objects but are owned by none, and there are many.
_LEFT_OUT = frozenset({("", "events"), ("events.k8s.io", "events")})


async def discover(client: Client) -> list[Kind]:
    """Every kind that can be listed, watched and deleted, in its group's first version."""
    kinds: list[Kind] = []
    for root in ("/api", "/apis"):
        answer = await client.raw("GET", root, headers={"Accept": _AGGREGATED})
        for group in msgspec.json.decode(answer.body).get("items") or ():
            seen: set[str] = set()
            for version in group["versions"]:
                for resource in version.get("resources") or ():
                    if resource["resource"] not in seen and set(resource["verbs"]) >= _NEEDED:
                        seen.add(resource["resource"])
                        kinds.append(_kind(group["metadata"].get("name", ""), version["version"], resource))
    return [kind for kind in kinds if (kind.group, kind.plural) not in _LEFT_OUT]


def _kind(group: str, version: str, resource: dict[str, object]) -> Kind:
    response = resource["responseKind"]
    assert isinstance(response, dict)
    return Kind(
        group, version, str(response["kind"]), str(resource["resource"]), namespaced=resource["scope"] == "Namespaced"
    )


class MetadataTransport:
    """A transport that asks for metadata only: a copy of everything's owners without everything itself."""

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
