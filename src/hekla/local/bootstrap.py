"""What an API server is given before anything else runs on it: the Volcano CRDs and, on a real one, the webhooks."""

from __future__ import annotations

import hashlib

import msgspec

from hekla.api.crds import load_crds
from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, Obj, kind_of
from hekla.api.meta import annotations_of, name_of
from hekla.client.rest import Client
from hekla.errors import AlreadyExists

# Servers fill in defaults, so what they hold never equals what was sent; the digest of what was sent does.
_DIGEST = "hekla.dev/schema-digest"


async def install_crds(client: Client) -> None:
    """Create the CRDs, or bring older ones of ours up to date; leave equal ones alone."""
    present = {name_of(crd): crd for crd in (await client.list(CUSTOM_RESOURCE_DEFINITION)).items}
    for crd in load_crds():
        digest = hashlib.sha256(msgspec.json.encode(crd["spec"])).hexdigest()[:16]
        crd = {**crd, "metadata": {**crd["metadata"], "annotations": {**annotations_of(crd), _DIGEST: digest}}}
        found = present.get(name_of(crd))
        if found is None:
            await _create(client, crd)
        elif annotations_of(found).get(_DIGEST) != digest:
            await client.patch(
                CUSTOM_RESOURCE_DEFINITION, name_of(crd), {"metadata": crd["metadata"], "spec": crd["spec"]}
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


async def _create(client: Client, crd: Obj) -> None:
    try:
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd)
    except AlreadyExists:
        return
