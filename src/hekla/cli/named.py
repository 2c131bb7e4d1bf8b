"""Verbs that act on objects by name, in the way of kubectl (`NAME`) and of vcctl (`--name NAME`) alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import click

from hekla.api.batch import JOB_NAME, JobAction
from hekla.api.kinds import COMMAND, POD, QUEUE, Kind, Obj
from hekla.api.meta import is_owned_by, name_of, namespace_of, owner_reference
from hekla.cli.completing import complete_name
from hekla.cli.connection import ClusterOptions, with_client
from hekla.cli.output import print_document
from hekla.cli.vcctl import as_typed, is_vcctl
from hekla.client.rest import Client
from hekla.errors import ApiError, Forbidden, HeklaError, UsageError


def name_argument(kind: Kind) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The object by position or by -N/--name; the function gets both and calls `chosen_name`.

    Of a queue, which has no namespace, upstream writes the flag -n.
    """
    complete = partial(complete_name, kind)
    return partial(_with_name, kind, click.argument("name", default="", shell_complete=complete))


def names_argument(kind: Kind) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As many objects as one likes by position, or one by -N/--name; the function calls `for_each_named`."""
    complete = partial(complete_name, kind)
    return partial(_with_name, kind, click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete))


def _with_name(
    kind: Kind, argument: Callable[[Callable[..., Any]], Callable[..., Any]], command: Callable[..., Any]
) -> Callable[..., Any]:
    flag = click.option(
        *(("-N",) if kind.namespaced else ("-n", "-N")),
        "--name",
        "name_flag",
        default="",
        shell_complete=partial(complete_name, kind),
        help="The name, as with vcctl.",
    )
    return argument(flag(command))


def chosen_name(name: str, name_flag: str, complaint: str) -> str:
    if not (name or name_flag):
        raise UsageError(complaint)
    # parity: upstream looks at the flag only, and leaves words alone.
    return name_flag or name if is_vcctl() else name or name_flag


def for_each_named(names: Sequence[str], name_flag: str, complaint: str, act: Callable[[str], None]) -> None:
    """In the order given. What fails with one keeps no other from its turn; it is told when all have had theirs.

    Nothing is done where one of the names is empty, as a variable is that nobody has set.
    """
    failed: list[HeklaError] = []
    asked = (name_flag,) if name_flag and is_vcctl() else names or (name_flag,)
    for name in dict.fromkeys([chosen_name(name, "", complaint) for name in asked]):
        try:
            act(name)
        except (ApiError, UsageError) as error:
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise UsageError("\n".join(map(str, failed)))


def full_name(kind: Kind, obj: Obj) -> str:
    """An object as kubectl names it when something was done to it."""
    return f"{kind.singular}.{kind.group}/{name_of(obj)}" if kind.group else f"{kind.singular}/{name_of(obj)}"


def confirm(text: str, *, vcctl: str) -> None:
    """Say what was done, in kubectl's way, or under upstream's name in upstream's words, which may be none."""
    words = vcctl if is_vcctl() else text
    if words:
        click.echo(words)


def read_all(cluster: ClusterOptions, kind: Kind, *, all_namespaces: bool = False) -> list[Obj]:
    connection = cluster.connection()
    namespace = None if all_namespaces or not kind.namespaced else connection.namespace

    async def work(client: Client) -> list[Obj]:
        return (await client.list(kind, namespace)).items

    return with_client(connection, work)


def read_one(cluster: ClusterOptions, kind: Kind, name: str) -> Obj:
    connection = cluster.connection()
    return with_client(connection, lambda client: client.get(kind, name, connection.namespace))


async def pods_of(client: Client, job: Obj) -> list[Obj]:
    """The job's own pods: not those of an earlier job of that name."""
    return own_pods(job, await pods_by_name(client, job))


async def pods_by_name(client: Client, job: Obj) -> list[Obj]:
    """The pods of all jobs of that name: those of an earlier one may still be ending."""
    selector = f"{JOB_NAME}={name_of(job)}"
    return (await client.list(POD, namespace_of(job), label_selector=selector)).items


def own_pods(job: Obj, pods: Iterable[Obj]) -> list[Obj]:
    return sorted((pod for pod in pods if is_owned_by(pod, job)), key=name_of)


async def queue_names(client: Client) -> frozenset[str] | None:
    """All queues there are; None for who may not see them."""
    try:
        return frozenset(map(name_of, (await client.list(QUEUE)).items))
    except Forbidden:
        return None


def delete_one(cluster: ClusterOptions, kind: Kind, name: str) -> None:
    connection = cluster.connection()
    with_client(connection, lambda client: client.delete(kind, name, connection.namespace, propagation="Background"))


def print_one(obj: Obj, style: str = "yaml") -> None:
    """The object without what only machines read."""
    if is_vcctl():
        print_document(as_typed(obj), style, sort_keys=True)
        return
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    print_document({**obj, "metadata": metadata}, style)


async def issue_command(client: Client, kind: Kind, name: str, action: JobAction, namespace: str) -> None:
    """Ask the controllers for an action on an object, as vcctl does: by a Command that names it."""
    target = owner_reference(await client.get(kind, name, namespace), kind)
    command = {
        "apiVersion": COMMAND.api_version,
        "kind": COMMAND.kind,
        "metadata": {
            "generateName": f"{name}-{action.lower()}-",
            "namespace": namespace,
            "ownerReferences": [target],
        },
        "action": action.value,
        "target": target,
    }
    await client.create(COMMAND, command)
