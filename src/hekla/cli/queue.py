"""`hekla queue …`: the verbs of upstream's `vcctl queue`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from hekla.api.batch import JobAction
from hekla.api.kinds import POD_GROUP, QUEUE, Obj
from hekla.api.meta import name_of
from hekla.api.scheduling import QueueState
from hekla.cli.connection import ClusterOptions, clusterwide_options, with_client
from hekla.cli.failing import failing_as
from hekla.cli.go_flags import GoGroup
from hekla.cli.named import (
    chosen_name,
    confirm,
    delete_one,
    for_each_named,
    issue_command,
    name_argument,
    names_argument,
)
from hekla.cli.output import print_document, print_table
from hekla.cli.parameters import output_option
from hekla.cli.vcctl import is_vcctl, print_queues
from hekla.client.rest import Client
from hekla.errors import UsageError

_PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
# A queue has no namespace; this one is always there, whatever the kubeconfig names.
_COMMANDS = "default"
_HEADERS = ["NAME", "WEIGHT", "STATE", "PARENT", *(phase.upper() for phase in _PHASES)]


@click.group(cls=GoGroup)
def queue() -> None:
    """Create, list, operate (open, close, weigh) and delete queues."""


@queue.command("create")
@clusterwide_options
@name_argument(QUEUE)
@click.option("-w", "--weight", default=1, help="Its share of the cluster, against other queues' weights.")
@click.option("--parent", default="", help="Parent queue.")
@click.option("-S", "--state", default="Open", hidden=True)
@failing_as("create queue")
def create(cluster: ClusterOptions, name: str, name_flag: str, weight: int, parent: str, state: str) -> None:
    """Create a queue.

    \b
    Example:  hekla queue create research --weight 3
    """
    # parity: vcctl makes a queue of this name when none is given.
    name = chosen_name(name, name_flag or ("test" if is_vcctl() else ""), "queue name is mandatory to create a queue")
    spec: dict[str, Any] = {"weight": weight, **({"parent": parent} if parent else {})}
    wanted = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": name}, "spec": spec}
    with_client(cluster.connection(), lambda client: client.create(QUEUE, wanted))
    confirm(f"queue.scheduling.volcano.sh/{name} created", vcctl="")


@queue.command("list")
@clusterwide_options
@output_option("table", "json", "yaml", "name")
@failing_as("list queue")
def list_queues(cluster: ClusterOptions, output: str) -> None:
    """List queues with their PodGroups by phase.

    \b
    Example:  hekla queue list
    """
    queues, groups = with_client(cluster.connection(), _read)
    if output in ("json", "yaml"):
        print_document({"apiVersion": "v1", "kind": "List", "items": queues}, output)
    elif output == "name":
        for found in queues:
            click.echo(f"queue.scheduling.volcano.sh/{name_of(found)}")
    elif not queues:
        click.echo("No resources found")
    else:
        _print([_row(found, groups) for found in queues])


@queue.command("get")
@clusterwide_options
@name_argument(QUEUE)
@failing_as("get queue")
def get(cluster: ClusterOptions, name: str, name_flag: str) -> None:
    """Show one queue.

    \b
    Example:  hekla queue get default
    """
    name = chosen_name(name, name_flag, "name is mandatory to get the particular queue details")

    async def work(client: Client) -> tuple[Obj, list[Obj]]:
        return await client.get(QUEUE, name), (await client.list(POD_GROUP)).items

    found, groups = with_client(cluster.connection(), work)
    _print([_row(found, groups)])


@queue.command("operate")
@clusterwide_options
@name_argument(QUEUE)
@click.option("-a", "--action", default="", help="open, close or update.")
@click.option("-w", "--weight", type=int, default=None, help="With update: the new weight.")
@failing_as("operate queue")
def operate(cluster: ClusterOptions, name: str, name_flag: str, action: str, weight: int | None) -> None:
    """Open or close a queue, or change its weight.

    \b
    Example:  hekla queue operate research --action close
    """
    name = chosen_name(name, name_flag, "queue name must be specified")
    connection = cluster.connection()
    match action:
        case "open" | "close":
            verb = JobAction.OPEN_QUEUE if action == "open" else JobAction.CLOSE_QUEUE
            with_client(connection, lambda client: issue_command(client, QUEUE, name, verb, _COMMANDS))
        case "update":
            if not weight:
                raise UsageError(
                    f"when update queue {name}, weight must be specified, the value must be greater than 0"
                )
            with_client(connection, lambda client: client.patch(QUEUE, name, {"spec": {"weight": weight}}))
        case "":
            raise UsageError("action can not be null" if is_vcctl() else "--action is missing: open, close or update")
        case _:
            raise UsageError(f"action {action} invalid, valid actions are open, close and update")
    confirm(f"queue.scheduling.volcano.sh/{name}: {action}", vcctl="")
    if action == "open" and not is_vcctl():
        with_client(connection, lambda client: _warn_of_parent(client, name))


@queue.command("delete")
@clusterwide_options
@names_argument(QUEUE)
@failing_as("delete queue")
def delete(cluster: ClusterOptions, names: tuple[str, ...], name_flag: str) -> None:
    """Delete queues.

    \b
    Example:  hekla queue delete research
    """
    for_each_named(names, name_flag, "queue name must be specified", partial(_delete, cluster))


def _delete(cluster: ClusterOptions, name: str) -> None:
    delete_one(cluster, QUEUE, name)
    confirm(f"queue.scheduling.volcano.sh/{name} deleted", vcctl="")


async def _warn_of_parent(client: Client, name: str) -> None:
    parent = str(((await client.get(QUEUE, name)).get("spec") or {}).get("parent") or "")
    above = await client.find(QUEUE, parent) if parent else None
    state = str(((above or {}).get("status") or {}).get("state") or "")
    if state in (QueueState.CLOSED, QueueState.CLOSING):
        click.echo(f"It opens when its parent does: queue {parent} is {state}.")


def _print(rows: list[list[object]]) -> None:
    if is_vcctl():
        print_queues([["" if cell == "-" else cell for cell in row] for row in rows])
    else:
        print_table(_HEADERS, rows)


async def _read(client: Client) -> tuple[list[Obj], list[Obj]]:
    return (await client.list(QUEUE)).items, (await client.list(POD_GROUP)).items


def _row(found: Obj, groups: list[Obj]) -> list[object]:
    name = name_of(found)
    mine = [group for group in groups if (group.get("spec") or {}).get("queue", "default") == name]
    # parity: vcctl leaves out what no scheduler has looked at.
    unseen = "" if is_vcctl() else "Pending"
    phases = [str((group.get("status") or {}).get("phase") or unseen) for group in mine]
    spec, status = found.get("spec") or {}, found.get("status") or {}
    counts = [phases.count(phase) for phase in _PHASES]
    return [name, spec.get("weight", 1), status.get("state") or "-", spec.get("parent") or "-", *counts]
