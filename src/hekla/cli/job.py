"""`hekla job …`: the verbs of upstream's `vcctl job`, with its flags."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import click

from hekla.api.batch import FINISHED_JOB_PHASES, JOB_NAME, JobAction
from hekla.api.kinds import JOB, POD, POD_GROUP, Obj
from hekla.api.meta import name_of, namespace_of, parse_timestamp, uid_of
from hekla.api.quantity import InvalidQuantity, parse
from hekla.cli.alike import told_together
from hekla.cli.complaints import last_complaints
from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.failing import failing_as
from hekla.cli.go_flags import GoGroup
from hekla.cli.gone_pods import failures_of_gone
from hekla.cli.job_table import job_table, lacks_group
from hekla.cli.left_files import left_files
from hekla.cli.manifest import Document, read_manifest
from hekla.cli.named import (
    chosen_name,
    confirm,
    for_each_named,
    full_name,
    issue_command,
    name_argument,
    names_argument,
    own_pods,
    pods_by_name,
    queue_names,
)
from hekla.cli.output import age, print_document, print_table, printable_lines
from hekla.cli.parameters import all_namespaces_option, output_option
from hekla.cli.progress import (
    attempts_of,
    dependency_reason,
    failures,
    is_finished,
    phase_of,
    predecessor_reason,
    queue_reason,
    task_rows,
    told_reason,
    waited_and_ran,
    waiting_reason,
)
from hekla.cli.submit import check_documents, create_document, require_kind
from hekla.cli.usage import HEADERS, usage_by_task
from hekla.cli.vcctl import check_is_there, is_vcctl, print_job, print_jobs
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.errors import UsageError


@click.group(cls=GoGroup)
def job() -> None:
    """List, view, run, suspend, resume and delete jobs."""


@job.command("run")
@cluster_options
@click.option("-f", "--filename", default="", help="A file with the job; the other flags are then not looked at.")
@click.option("-N", "--name", default="", help="The job's name.")
@click.option("-i", "--image", default="busybox", help="The container's image.")
@click.option("-r", "--replicas", default=1, help="Pods.")
@click.option("-m", "--min", "minimum", default=1, help="Pods that must start together.")
@click.option("-R", "--requests", default="cpu=1000m,memory=100Mi", help="What a pod asks for.")
@click.option("-L", "--limits", default="cpu=1000m,memory=100Mi", help="What a pod may use.")
@click.option("-S", "--scheduler", default="volcano", help="The scheduler's name.")
@failing_as("run job")
def run(cluster: ClusterOptions, filename: str, name: str, **words: Any) -> None:
    """Submit a job from a file or from words, without following it (`hekla run` follows).

    \b
    Example:  hekla job run -f examples/hello-gang/job.yaml
    """
    connection = cluster.connection()
    if filename:
        check_is_there(filename, "failed to read file, err: ")
        documents = read_manifest(filename)
    else:
        if not name:
            raise UsageError("job name cannot be left blank")
        documents = [Document(job_from_words(name, **words), "command line", 0)]
    check_documents(documents, connection.namespace)

    async def work(client: Client) -> None:
        for document in documents:
            created = await create_document(client, document)
            kind = require_kind(document)
            ran = kind is JOB or is_vcctl()
            click.echo(f"run job {name_of(created)} successfully" if ran else f"{full_name(kind, created)} created")

    with_client(connection, work)


def job_from_words(
    name: str, *, image: str, replicas: int, minimum: int, requests: str, limits: str, scheduler: str
) -> Obj:
    resources = {"requests": _amounts(requests), "limits": _amounts(limits)}
    container = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "resources": resources}
    template = {
        "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name},
        "spec": {
            "minAvailable": minimum,
            "schedulerName": scheduler,
            "tasks": [{"replicas": replicas, "template": template}],
        },
    }


def _amounts(text: str) -> dict[str, str]:
    amounts = {}
    for part in text.split(",") if text else ():
        resource, _, value = part.partition("=")
        if part.count("=") != 1:
            raise UsageError(f"invalid argument syntax {part}, expected <resource>=<value>")
        try:
            parse(value)
        except InvalidQuantity as error:
            raise UsageError(str(error) if is_vcctl() else f"{part}: {value!r} is not an amount") from None
        amounts[resource] = value
    return amounts


class _Listed(NamedTuple):
    jobs: list[Obj]
    groups: list[Obj]
    pods: list[Obj]
    queues: frozenset[str] | None
    complaints: dict[str, str]


@job.command("list")
@cluster_options
@all_namespaces_option
@click.option("-l", "--selector", default="", help="Label selector.")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@click.option("-S", "--scheduler", default="", help="Only jobs of this scheduler.")
@output_option("table", "wide", "json", "yaml", "name")
@failing_as("list job")
def list_jobs(
    cluster: ClusterOptions, all_namespaces: bool, selector: str, queue: str, scheduler: str, output: str
) -> None:
    """List jobs, with the reason of those that wait.

    \b
    Example:  hekla job list -A
    """
    connection = cluster.connection()
    namespace = None if all_namespaces else connection.namespace

    async def work(client: Client) -> _Listed:
        # parity: vcctl's selector is a part of the name.
        labels = "" if is_vcctl() else selector
        jobs = (await client.list(JOB, namespace, label_selector=labels)).items
        groups = (await client.list(POD_GROUP, namespace)).items
        pods = (await client.list(POD, namespace, label_selector=JOB_NAME)).items
        complaints = await last_complaints(client, namespace) if lacks_group(jobs, groups) else {}
        return _Listed(jobs, groups, pods, await queue_names(client), complaints)

    jobs, groups, pods, queues, complaints = with_client(connection, work)
    jobs = [found for found in jobs if queue in ("", found["spec"].get("queue") or "default")]
    jobs = [found for found in jobs if scheduler in ("", found["spec"].get("schedulerName"))]
    if is_vcctl():
        jobs = [found for found in jobs if selector in name_of(found)]
    if output in ("json", "yaml"):
        print_document({"apiVersion": "v1", "kind": "List", "items": jobs}, output)
    elif output == "name":
        for found in jobs:
            click.echo(f"job.batch.volcano.sh/{name_of(found)}")
    elif not jobs:
        click.echo("No resources found")
    elif is_vcctl() and output == "table":
        print_jobs(jobs, namespaces=all_namespaces)
    else:
        now, wide = SystemClock().now(), output == "wide"
        print_table(*job_table(jobs, groups, pods, queues, complaints, now, namespaces=all_namespaces, wide=wide))


@job.command("view")
@cluster_options
@name_argument(JOB)
@output_option("text", "json", "yaml")
@failing_as("view job")
def view(cluster: ClusterOptions, name: str, name_flag: str, output: str) -> None:
    """Show one job: state, tasks, pods, events.

    \b
    Example:  hekla job view hello-gang
    """
    name = chosen_name(name, name_flag, "job name (specified by --name or -N) is mandatory to view a particular job")
    connection = cluster.connection()

    async def work(client: Client) -> tuple[Obj, list[Obj], list[Obj], tuple[str, str], list[str]]:
        found = await client.get(JOB, name, connection.namespace)
        of_name = await pods_by_name(client, found)
        pods = own_pods(found, of_name)
        events = await _events(client, connection.namespace, uid_of(found))
        group = await client.find(POD_GROUP, f"{name}-{uid_of(found)}", connection.namespace)
        waits = queue_reason(found, await queue_names(client), pods)
        if not waits[0]:
            waits = predecessor_reason(found, of_name)
        if not waits[0]:
            waits = waiting_reason(group, pods)
        ended = [*failures(pods, attempts_of(found)), *await failures_of_gone(client, found, of_name)]
        return found, pods, events, waits if waits[0] else dependency_reason(found, pods), ended

    found, pods, events, waits, ended = with_client(connection, work)
    if output != "text":
        print_document(found, output)
    elif is_vcctl():
        print_job(found, events, SystemClock().now())
    else:
        _print_job(found, pods, events, told_reason(*waits), ended)


def _print_job(found: Obj, pods: list[Obj], events: list[Obj], waits: str, ended: list[str]) -> None:
    now = SystemClock().now()
    created = parse_timestamp(found["metadata"]["creationTimestamp"])
    waited, ran = waited_and_ran(found, pods, now)
    status = found.get("status") or {}
    facts = [
        ("Name", f"{namespace_of(found)}/{name_of(found)}"),
        ("Status", phase_of(found) + (f" ({waits})" if waits and not is_finished(found) else "")),
        ("Queue", found["spec"].get("queue") or "default"),
        ("Min available", found["spec"].get("minAvailable", "")),
        ("Retries", f"{status.get('retryCount', 0)} of {found['spec'].get('maxRetry', 3)}"),
        ("Plugins", ", ".join(sorted(found["spec"].get("plugins") or {})) or "none"),
        ("Created", f"{age(created, now)} ago"),
        ("Waited", waited),
        ("Ran", ran),
    ]
    for label, value in facts:
        click.echo(printable_lines(f"{label + ':':<15}{value}"))
    click.echo()
    print_table(
        ["TASK", "REPLICAS", "PENDING", "RUNNING", "DONE", "FAILED", "RESTARTS"],
        [[t.name, t.wanted, t.pending, t.running, t.done, t.failed, t.restarts] for t in task_rows(found, pods)],
    )
    usage = usage_by_task(found, pods)
    if usage:
        click.echo()
        print_table(HEADERS, [one.cells() for one in usage])
    for line in left_files(pods):
        click.echo(f"\nnote: {line}")
    if pods:
        click.echo()
        print_table(["POD", "STATUS", "NODE", "IP"], [_pod_row(pod) for pod in sorted(pods, key=name_of)])
    for line in told_together(ended):
        click.echo(printable_lines(f"  {line}"))
    if events:
        click.echo()
        rows = [_event_row(event, now) for event in events]
        print_table(["LAST SEEN", "TYPE", "REASON", "MESSAGE"], rows, breaks_last=True)


def _pod_row(pod: Obj) -> list[str]:
    status = pod.get("status") or {}
    return [name_of(pod), status.get("phase", ""), pod["spec"].get("nodeName", "-"), status.get("podIP", "-")]


def _event_row(event: Obj, now: Any) -> list[str]:
    last = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return [
        age(parse_timestamp(last) if last else None, now),
        event.get("type", ""),
        event.get("reason", ""),
        event.get("message", "").strip(),
    ]


@job.command("delete")
@cluster_options
@names_argument(JOB)
@failing_as("delete job")
def delete(cluster: ClusterOptions, names: tuple[str, ...], name_flag: str) -> None:
    """Delete jobs and everything they made.

    \b
    Example:  hekla job delete hello-gang
    """
    complaint = "job name is mandatory to delete a particular job"
    for_each_named(names, name_flag, complaint, partial(_delete, cluster))


def _delete(cluster: ClusterOptions, name: str) -> None:
    connection = cluster.connection()

    async def work(client: Client) -> None:
        found = await client.get(JOB, name, connection.namespace)
        await client.delete(JOB, name, connection.namespace, uid=uid_of(found), propagation="Background")

    with_client(connection, work)
    confirm(f"job.batch.volcano.sh/{name} deleted", vcctl=f"delete job {name} successfully")


@job.command("suspend")
@cluster_options
@names_argument(JOB)
@failing_as("suspend job")
def suspend(cluster: ClusterOptions, names: tuple[str, ...], name_flag: str) -> None:
    """Abort jobs; they can be resumed.

    \b
    Example:  hekla job suspend hello-gang
    """
    complaint = "job name is mandatory to suspend a particular job"
    for_each_named(names, name_flag, complaint, partial(_issue, cluster, JobAction.ABORT_JOB, "suspending"))


@job.command("resume")
@cluster_options
@names_argument(JOB)
@failing_as("resume job")
def resume(cluster: ClusterOptions, names: tuple[str, ...], name_flag: str) -> None:
    """Start aborted jobs again.

    \b
    Example:  hekla job resume hello-gang
    """
    complaint = "job name is mandatory to resume a particular job"
    for_each_named(names, name_flag, complaint, partial(_issue, cluster, JobAction.RESUME_JOB, "resuming"))


def _issue(cluster: ClusterOptions, action: JobAction, doing: str, name: str) -> None:
    connection = cluster.connection()

    async def work(client: Client) -> None:
        found = await client.get(JOB, name, connection.namespace)
        # parity: vcctl asks for it all the same, and the controllers take it for what it is.
        if phase_of(found) in FINISHED_JOB_PHASES and not is_vcctl():
            raise UsageError(f"{name} has ended ({phase_of(found)})")
        await issue_command(client, JOB, name, action, connection.namespace)

    with_client(connection, work)
    confirm(f"job.batch.volcano.sh/{name}: {doing}", vcctl="")


async def _events(client: Client, namespace: str, uid: str) -> list[Obj]:
    from hekla.api.kinds import EVENT

    listed = await client.list(EVENT, namespace, field_selector=f"involvedObject.uid={uid}")
    return sorted(listed.items, key=lambda event: str(event.get("lastTimestamp") or ""))
