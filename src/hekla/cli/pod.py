"""`hekla pod list`: the pods of jobs, as `vcctl pod list`."""

from __future__ import annotations

from datetime import datetime

import click

from hekla.api.batch import JOB_NAME, QUEUE_NAME
from hekla.api.kinds import POD, Obj
from hekla.api.meta import annotations_of, labels_of, name_of, namespace_of, parse_timestamp
from hekla.api.scheduling import QUEUE_NAME_ANNOTATION
from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.failing import failing_as
from hekla.cli.go_flags import GoGroup
from hekla.cli.output import age, print_document, print_table
from hekla.cli.parameters import all_namespaces_option, output_option
from hekla.cli.vcctl import is_vcctl, print_pods
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.errors import UsageError


@click.group(cls=GoGroup)
def pod() -> None:
    """List the pods of jobs."""


@pod.command("list")
@cluster_options
@all_namespaces_option
@click.option("-j", "--job", default="", help="Only pods of this job.")
@click.option("-q", "--queue", default="", help="Only pods of this queue.")
@output_option("table", "json", "yaml", "name")
@failing_as("list pod")
def list_pods(cluster: ClusterOptions, all_namespaces: bool, job: str, queue: str, output: str) -> None:
    """List the pods of jobs.

    \b
    Example:  hekla pod list --job hello-gang
    """
    connection = cluster.connection()
    # What somebody else's controllers made may be in a queue, too.
    selector = f"{JOB_NAME}={job}" if job else "" if queue else JOB_NAME

    async def work(client: Client) -> list[Obj]:
        return (await client.list(POD, None if all_namespaces else connection.namespace, label_selector=selector)).items

    listed = with_client(connection, work)
    pods = [found for found in listed if queue in ("", *_queues(found))]
    if job and len(pods) < len(listed) and is_vcctl():
        raise UsageError(f"the input vcjob {job} does not match the queue {queue}")
    if output in ("json", "yaml"):
        print_document({"apiVersion": "v1", "kind": "List", "items": pods}, output)
    elif output == "name":
        for found in pods:
            click.echo(f"pod/{name_of(found)}")
    elif not pods:
        click.echo("No resources found")
    elif is_vcctl():
        print_pods(pods, SystemClock().now())
    else:
        _print(pods, namespaces=all_namespaces)


def _queues(found: Obj) -> tuple[str | None, str | None]:
    """The queue of a job's pod, and the one that another pod asks for."""
    return labels_of(found).get(QUEUE_NAME), annotations_of(found).get(QUEUE_NAME_ANNOTATION)


def _print(pods: list[Obj], *, namespaces: bool) -> None:
    now = SystemClock().now()
    headers = ["NAME", "JOB", "STATUS", "RESTARTS", "NODE", "IP", "QUEUE", "AGE"]
    rows = [[*([namespace_of(found)] if namespaces else []), *_row(found, now)] for found in pods]
    print_table(["NAMESPACE", *headers] if namespaces else headers, rows)


def _row(found: Obj, now: datetime) -> list[object]:
    status = found.get("status") or {}
    containers = status.get("containerStatuses") or []
    return [
        name_of(found),
        annotations_of(found).get(JOB_NAME, ""),
        status.get("phase", ""),
        sum(int(container.get("restartCount") or 0) for container in containers),
        found["spec"].get("nodeName", "-"),
        status.get("podIP", "-"),
        labels_of(found).get(QUEUE_NAME, "-"),
        age(parse_timestamp(found["metadata"]["creationTimestamp"]), now),
    ]
