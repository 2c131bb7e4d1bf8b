"""Whom a Command is for: the object it names by kind, name and uid; a Job in the Command's own namespace only.

By the uid alone, whoever may write Commands in one namespace could stop the Jobs of another.
"""

from __future__ import annotations

from collections.abc import Iterator

from hekla.api.kinds import COMMAND, JOB, QUEUE, Kind, Obj
from hekla.api.meta import Key, key_of, name_of, namespace_of, uid_of
from hekla.client.informer import Informer
from hekla.client.rest import Client
from hekla.errors import NotFound

TARGET = "target"


def target_places(command: Obj) -> Iterator[str]:
    """For an informer's index: where the target of a Command would be."""
    target = command.get("target") or {}
    for kind in (JOB, QUEUE):
        if kind.owns_reference(target):
            namespace = namespace_of(command) if kind.namespaced else ""
            yield _place(kind, Key(namespace, str(target.get("name") or "")))


def commands_for(commands: Informer, kind: Kind, obj: Obj) -> list[Obj]:
    named = commands.by_index(TARGET, _place(kind, key_of(obj)))
    return [command for command in named if _target_uid(command) == uid_of(obj)]


async def drop_strays(client: Client, commands: Informer, kind: Kind, key: Key, shown: Obj | None) -> None:
    """Delete the Commands that are for what was once at `key`, or never: nobody will carry them out.

    `shown` is what our copies show there; what the server shows counts.
    """
    named = commands.by_index(TARGET, _place(kind, key))
    strays = [one for one in named if shown is None or _target_uid(one) != uid_of(shown)]
    if not strays:
        return
    live = await client.find(kind, key.name, key.namespace or None)
    for command in strays:
        if live is not None and _target_uid(command) == uid_of(live):
            continue
        try:
            await client.delete(COMMAND, name_of(command), namespace_of(command), uid=uid_of(command))
        except NotFound:
            continue


def _target_uid(command: Obj) -> str:
    return str(command["target"].get("uid") or "")


def _place(kind: Kind, key: Key) -> str:
    return f"{kind.kind}/{key.namespace}/{key.name}"
