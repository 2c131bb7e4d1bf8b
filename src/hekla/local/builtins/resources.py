"""Which resources a server has, asked of the server itself."""

from __future__ import annotations

import msgspec

from hekla.api.kinds import Kind
from hekla.client.rest import Client

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_NEEDED = frozenset({"list", "watch", "delete"})
# Events point at objects but are owned by none, and there are many.
_LEFT_OUT = frozenset({("", "events"), ("events.k8s.io", "events")})


async def discover(client: Client) -> list[Kind]:
    """Every kind but Events that can be listed, watched and deleted, in its group's first version."""
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
