"""How many pods the controllers of some pods want, asked of the server: each controller by its scale."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hekla.api.kinds import BUILT_IN_KINDS, DEPLOYMENT, REPLICA_SET, Kind, Obj
from hekla.api.meta import controller_of, name_of, namespace_of, uid_of
from hekla.client.rest import Client
from hekla.errors import HeklaError, NotFound
from hekla.local.builtins.resources import discover

_WELL_KNOWN = {(kind.api_version, kind.kind): kind for kind in BUILT_IN_KINDS}


class Unscalable(HeklaError):
    """It cannot be told how many pods there ought to be; the message is kube-controller-manager's own."""


async def expected_pods(client: Client, pods: Iterable[Obj]) -> int:
    """All that their controllers want together; pods that nobody controls are not expected. Raises Unscalable."""
    wanted: dict[str, int] = {}
    seen: set[str] = set()
    for pod in pods:
        owner = controller_of(pod)
        if owner is None or owner["uid"] in seen:
            continue
        seen.add(owner["uid"])
        scale = await _scale(client, owner, namespace_of(pod))
        if scale is None:
            raise Unscalable(f'found no controllers for pod "{name_of(pod)}"')
        wanted[scale[0]] = scale[1]
    return sum(wanted.values())


async def _scale(client: Client, owner: Obj, namespace: str) -> tuple[str, int] | None:
    """Who scales the pods (its uid), and to how many; None when the owner is gone."""
    kind = await _kind(client, owner)
    obj = await client.find(kind, owner["name"], namespace)
    if obj is None or uid_of(obj) != owner["uid"]:
        return None
    above = controller_of(obj)
    if kind == REPLICA_SET and above is not None and DEPLOYMENT.owns_reference(above):
        # Several sets of one Deployment share what it wants.
        return await _scale(client, above, namespace)
    try:
        answer = await client.raw("GET", kind.path(namespace, owner["name"], "scale"))
    except NotFound:
        raise Unscalable(f"{kind.resource} does not implement the scale subresource") from None
    return owner["uid"], int((msgspec.json.decode(answer.body).get("spec") or {}).get("replicas") or 0)


async def _kind(client: Client, owner: Obj) -> Kind:
    type_ = owner["apiVersion"], owner["kind"]
    if type_ in _WELL_KNOWN:
        return _WELL_KNOWN[type_]
    for kind in await discover(client):
        if kind.kind == owner["kind"] and kind.group == owner["apiVersion"].rpartition("/")[0]:
            return kind
    raise Unscalable(f'no matches for kind "{owner["kind"]}" in version "{owner["apiVersion"]}"')
