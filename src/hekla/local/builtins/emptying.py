"""Deleting everything of a kind, and telling whether something is still on its way out."""

from __future__ import annotations

from hekla.api.kinds import Kind
from hekla.client.rest import Client
from hekla.errors import HeklaError


class NotEmpty(HeklaError):
    """Something is still on its way out: look again later."""


async def is_emptied(client: Client, kind: Kind, namespace: str | None = None) -> bool:
    """Delete all objects of a kind (in a namespace). Whether none is left."""
    while True:
        listed = await client.list(kind, namespace, limit=500)
        namespaces = sorted({obj["metadata"].get("namespace") or "" for obj in listed.items})
        for each in namespaces:
            await client.raw("DELETE", kind.path(each or None))
        if not listed.continue_token:
            return not (await client.list(kind, namespace, limit=1)).items
