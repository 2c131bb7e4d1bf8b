"""What an API server is given before anything else runs on it: the Volcano CRDs, roles and, if real, the webhooks."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import Collection

import msgspec

from hekla.api.crds import load_crds
from hekla.api.kinds import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    VOLCANO_KINDS,
    Kind,
    Obj,
    kind_of,
)
from hekla.api.meta import annotations_of, name_of, uid_of
from hekla.client.inprocess import Application, InProcessTransport
from hekla.client.rest import Client, PatchStyle
from hekla.client.watch import follow
from hekla.clock import Clock
from hekla.errors import AlreadyExists, ApiError, Forbidden, NotFound, UsageError
from hekla.local.departed import take_away
from hekla.local.roles import PART_OF, local_access

# Servers fill in defaults, so what they hold never equals what was sent; the digest of what was sent does.
_DIGEST = "hekla.dev/schema-digest"
_SERVED_SECONDS = 60.0


async def furnish(app: Application, *, nodes: Collection[str] | None, clock: Clock) -> None:
    """Give a local cluster's API server what it must hold before anybody may ask it anything, and take from it the
    nodes that are not among `nodes` any more (None: who starts nodes is not known)."""
    async with Client(InProcessTransport(app), user_agent="hekla-bootstrap") as client:
        await asyncio.gather(install_crds(client), install_roles(client))
        if nodes is not None:
            await take_away(client, nodes, clock)


async def install_crds(client: Client) -> None:
    """Create the CRDs, or bring older ones of ours up to date; leave equal ones alone."""
    present = {name_of(crd): crd for crd in (await client.list(CUSTOM_RESOURCE_DEFINITION)).items}
    missing: list[Obj] = []
    for crd in load_crds():
        digest = hashlib.sha256(msgspec.json.encode(crd["spec"])).hexdigest()[:16]
        crd = {**crd, "metadata": {**crd["metadata"], "annotations": {**annotations_of(crd), _DIGEST: digest}}}
        found = present.get(name_of(crd))
        if found is None:
            missing.append(crd)
        elif annotations_of(found).get(_DIGEST) != digest:
            await client.patch(
                CUSTOM_RESOURCE_DEFINITION, name_of(crd), {"metadata": crd["metadata"], "spec": crd["spec"]}
            )
    await _create_missing(client, CUSTOM_RESOURCE_DEFINITION, missing)


async def wait_for_kinds(client: Client, *, rng: random.Random) -> None:
    """Return when the server answers for every kind of ours: a real one takes a moment after it has its CRD."""
    try:
        async with asyncio.timeout(_SERVED_SECONDS):
            # Following begins with a list, and asks again until there is one.
            await asyncio.gather(*(anext(follow(client, kind, rng=rng)) for kind in VOLCANO_KINDS))
    except TimeoutError as error:
        raise UsageError(f"the API server does not serve the new kinds after {_SERVED_SECONDS:.0f} s") from error


async def install_roles(client: Client) -> None:
    """What the components of a local cluster may do: created, or brought up to date."""
    wanted = local_access()
    for kind in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING):
        present = {name_of(found): found for found in (await client.list(kind, label_selector=PART_OF)).items}
        mine = [obj for obj in wanted if obj["kind"] == kind.kind]
        await _create_missing(client, kind, [obj for obj in mine if name_of(obj) not in present])
        for obj in mine:
            found = present.get(name_of(obj), obj)
            if any(found.get(field) != obj.get(field) for field in ("rules", "subjects")):
                await client.update(kind, {**found, **obj, "metadata": {**found["metadata"], **obj["metadata"]}})


async def apply_all(client: Client, objects: list[Obj]) -> None:
    """Bring objects to what is wanted, whoever wrote them before: server-side apply, in this order."""
    for obj in objects:
        kind = kind_of(obj)
        assert kind is not None
        namespace = obj["metadata"].get("namespace")
        await client.patch(
            kind, name_of(obj), obj, namespace, style=PatchStyle.APPLY, field_manager="hekla-install", force=True
        )


async def register_webhooks(client: Client, configurations: list[Obj]) -> None:
    """Write the webhook configurations, replacing older ones of the same name."""
    for wanted in configurations:
        kind = kind_of(wanted)
        assert kind is not None
        try:
            await client.create(kind, wanted)
        except AlreadyExists:
            await client.patch(kind, name_of(wanted), {"webhooks": wanted["webhooks"]})


async def unregister_webhooks(client: Client, configurations: list[Obj]) -> None:
    """Remove those that are as given in their address; what leads elsewhere is somebody else's."""
    for unwanted in configurations:
        kind = kind_of(unwanted)
        assert kind is not None
        # Who may only write them leaves them.
        with contextlib.suppress(NotFound, Forbidden):
            found = await client.find(kind, name_of(unwanted))
            if found is not None and _addresses(found) == _addresses(unwanted):
                await client.delete(kind, name_of(unwanted), uid=uid_of(found))


def _addresses(configuration: Obj) -> list[tuple[object, ...]]:
    found = [(hook["clientConfig"], hook["clientConfig"].get("service") or {}) for hook in configuration["webhooks"]]
    return [(to.get("url"), *(service.get(name) for name in ("namespace", "name", "path"))) for to, service in found]


async def _create_missing(client: Client, kind: Kind, objects: list[Obj]) -> None:
    """In one transaction where the server can; what somebody else has made meanwhile is as good."""
    for result in await client.create_many(kind, objects):
        if isinstance(result, ApiError) and not isinstance(result, AlreadyExists):
            raise result
