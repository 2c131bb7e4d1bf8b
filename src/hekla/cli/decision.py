"""What the scheduler says about one group, in tables: what speaks against which nodes, the arithmetic, who is ahead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from hekla.api.reasons import Reason
from hekla.cli.output import print_table
from hekla.cli.usage import readable_amount

_ABOUT_AMOUNTS = (Reason.NOT_ENOUGH_RESOURCES, Reason.QUEUE_OVER_QUOTA, Reason.WAITING_FOR_ROOM)
_NODE_COLUMNS = {
    "RESOURCE": "name",
    "ONE POD WANTS": "wanted",
    "MOST FREE ON A NODE": "mostFree",
    "FREE IN ALL": "free",
    "TOTAL": "total",
}
_QUEUE_COLUMNS = {
    "RESOURCE": "name",
    "JOB ASKS": "asked",
    "HELD": "held",
    "LET IN": "letIn",
    "DESERVED": "deserved",
    "LIMIT": "limit",
    "LEFT": "left",
}


def print_decision(decision: Mapping[str, Any]) -> None:
    """Why a group waits: the clauses with their node counts, what was wanted against what is there, and the line."""
    if decision.get("clauses"):
        click.echo()
        total = decision.get("nodes", 0)
        rows = [[clause["text"], f"{clause['nodes']} of {total}"] for clause in decision["clauses"]]
        print_table(["WHY A NODE DOES NOT DO", "NODES"], rows)
    if decision.get("subgroups"):
        click.echo()
        rows = [[part["name"] or "(no subgroup)", part["size"], part["placed"]] for part in decision["subgroups"]]
        print_table(["SUBGROUP", "PODS NEEDED", "PODS PLACED"], rows)
    if decision.get("resources"):
        click.echo()
        print_table([*_NODE_COLUMNS], [_cells(part, _NODE_COLUMNS.values(), "") for part in decision["resources"]])
    if decision.get("reason") in _ABOUT_AMOUNTS:
        print_queues(decision)
    print_line(decision)


def print_queues(standing: Mapping[str, Any]) -> None:
    """What the queue and those above it hold and may hold of what the job asks for."""
    parts = [(queue["name"], part) for queue in standing.get("queues", ()) for part in queue["resources"]]
    if not parts:
        return
    # Groups that were let in and do not hold it yet stand in the way of who is not, where there are any.
    awaited = any(part.get("letIn", "0") != "0" for _, part in parts)
    columns = {title: key for title, key in _QUEUE_COLUMNS.items() if awaited or key != "letIn"}
    click.echo()
    print_table(["QUEUE", *columns], [[name, *_cells(part, columns.values(), "-")] for name, part in parts])


def print_line(decision: Mapping[str, Any]) -> None:
    """Who is considered before it in its queue."""
    ahead = decision.get("ahead") or {}
    if ahead.get("count"):
        noun = "job is" if ahead["count"] == 1 else "jobs are"
        names = _names(ahead["first"], decision["group"]["namespace"])
        more = ", …" if ahead["count"] > len(ahead["first"]) else ""
        click.echo(f"\n{ahead['count']} waiting {noun} ahead of it in queue {decision['queue']}: {names}{more}")


def print_victims(victims: Sequence[Mapping[str, str]]) -> None:
    rows = [[one["pod"], one["job"] or one["group"], one["node"], one["action"]] for one in victims]
    print_table(["POD THAT HAS TO LEAVE", "JOB", "NODE", "BY"], rows)


def _cells(part: Mapping[str, Any], keys: Iterable[str], absent: str) -> list[str]:
    """What a record says of one resource; its name comes first."""
    return [readable_amount(part["name"], part[key]) if key in part else absent for key in keys]


def _names(groups: Sequence[Mapping[str, Any]], namespace: str) -> str:
    return ", ".join(
        f"{'' if one['namespace'] == namespace else one['namespace'] + '/'}{one['job'] or one['name']}"
        for one in groups
    )
