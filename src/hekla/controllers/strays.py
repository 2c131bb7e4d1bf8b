"""Commands for a Job or Queue that is not there: nobody will carry them out, so they go, as with upstream."""

from __future__ import annotations

from hekla.api.kinds import COMMAND, Kind, Obj
from hekla.api.meta import Key, name_of, namespace_of, uid_of
from hekla.client.informer import Informer
from hekla.client.rest import Client
from hekla.errors import NotFound


async def drop_strays(client: Client, commands: Informer, kind: Kind, key: Key) -> None:
    """Delete the Commands that name `key` of `kind`, which our copies do not show, if the server does not either."""
    strays = [command for command in commands.all() if _names(command, kind, key)]
    if not strays or await client.find(kind, key.name, key.namespace or None) is not None:
        return
    for command in strays:
        try:
            await client.delete(COMMAND, name_of(command), namespace_of(command), uid=uid_of(command))
        except NotFound:
            continue


def _names(command: Obj, kind: Kind, key: Key) -> bool:
    target = command.get("target") or {}
    same_place = not kind.namespaced or namespace_of(command) == key.namespace
    return kind.owns_reference(target) and target.get("name") == key.name and same_place
