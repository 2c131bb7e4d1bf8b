"""`hekla events JOB`: everything that was said about a job, its PodGroup and its pods, in the order of time."""

from __future__ import annotations

import json
from datetime import datetime

import click

from hekla.api.kinds import EVENT, JOB, Obj
from hekla.api.meta import parse_timestamp, uid_of
from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.named import pods_of
from hekla.cli.output import age, print_table
from hekla.cli.parameters import output_option
from hekla.client.rest import Client
from hekla.clock import SystemClock


@click.command()
@cluster_options
@click.argument("job")
@output_option("table", "json")
def events(cluster: ClusterOptions, job: str, output: str) -> None:
    """Tell the story of JOB: its events, its PodGroup's and its pods', oldest first.

    \b
    Example:  hekla events hello-gang
    """
    connection = cluster.connection()
    found = with_client(connection, lambda client: story_of(client, connection.namespace, job))
    if output == "json":
        click.echo(json.dumps(found, indent=2))
    elif not found:
        click.echo(f"Nothing has been said about {job} yet.")
    else:
        now = SystemClock().now()
        print_table(["AGE", "TYPE", "ABOUT", "REASON", "MESSAGE"], [_row(event, now) for event in found])


async def story_of(client: Client, namespace: str, name: str) -> list[Obj]:
    job = await client.get(JOB, name, namespace)
    pods = await pods_of(client, job)
    about = {uid_of(job), *map(uid_of, pods)}
    group = f"{name}-{uid_of(job)}"
    listed = (await client.list(EVENT, namespace)).items
    mine = [
        event
        for event in listed
        if event["involvedObject"].get("uid") in about or event["involvedObject"].get("name") == group
    ]
    return sorted(mine, key=time_of_event)


def time_of_event(event: Obj) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"))


def _row(event: Obj, now: datetime) -> list[object]:
    about = event["involvedObject"]
    times = f" (×{event['count']})" if int(event.get("count") or 1) > 1 else ""
    return [
        age(parse_timestamp(time_of_event(event)), now),
        event.get("type", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        event.get("reason", ""),
        str(event.get("message", "")).strip() + times,
    ]
