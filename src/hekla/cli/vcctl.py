"""What this program prints under its other name, `vcctl`: upstream's tables, which scripts cut up by column."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click

from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of, labels_of, name_of, namespace_of, parse_timestamp
from hekla.api.quantity import canonical
from hekla.apiserver.columns.pods import pod_status
from hekla.cli.log_flags import is_upstreams
from hekla.cli.output import age
from hekla.errors import UsageError

_JOB_TYPE = "volcano.sh/job-type"
_JOB_COLUMNS = {
    "Creation": 15, "Phase": 12, "JobType": 12, "Replicas": 12, "Min": 6, "Pending": 10, "Running": 10,
    "Succeeded": 12, "Failed": 10, "Unknown": 12, "RetryCount": 10,
}  # fmt: skip
_QUEUE_COLUMNS = {
    "Name": 25, "Weight": 8, "State": 8, "Parent": 8, "Inqueue": 8, "Pending": 8, "Running": 8, "Unknown": 8,
    "Completed": 8,
}  # fmt: skip
_COUNTERS = ("Succeeded", "Pending", "Running", "Failed", "Terminating", "Unknown", "RetryCount")
_NEVER = "0001-01-01 00:00:00 +0000 UTC"


def is_vcctl() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and is_upstreams(context)


def check_is_there(filename: str, saying: str = "") -> None:
    """Say of a file that is not there, or was not named, what upstream does: `saying` before Go's words for it."""
    if is_vcctl() and not (filename and Path(filename).exists()):
        raise UsageError(f"{saying}open {filename}: no such file or directory")


def print_jobs(jobs: Sequence[Obj], *, namespaces: bool) -> None:
    columns = {"Name": max([4, *(len(name_of(job)) for job in jobs)]) + 3, **_JOB_COLUMNS}
    rows = [[name_of(job), *_job_cells(job)] for job in jobs]
    if namespaces:
        columns = {"Namespace": max([9, *(len(namespace_of(job)) for job in jobs)]) + 3, **columns}
        rows = [[namespace_of(job), *row] for job, row in zip(jobs, rows, strict=True)]
    _print_columns(columns, rows)


def print_queues(rows: Sequence[Sequence[object]]) -> None:
    _print_columns(_QUEUE_COLUMNS, rows)


def print_pods(pods: Sequence[Obj], now: datetime) -> None:
    rows = [_pod_cells(pod, now) for pod in pods]
    widths = [max(len(row[column]) for row in rows) + 8 for column in range(5)]
    _print_columns(dict(zip(("Name", "Ready", "Status", "Restart", "Age"), widths, strict=True)), rows)


def print_fitting(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what is in them, four blanks apart."""
    widths = [max(len(row[column]) for row in (headers, *rows)) + 4 for column in range(len(headers))]
    _print_columns(dict(zip(headers, widths, strict=True)), rows)


def print_job(job: Obj, events: Sequence[Obj], now: datetime) -> None:
    """Everything about a job that upstream shows, in its order and with its blanks."""
    for line in (*_metadata_lines(job), *_spec_lines(job["spec"]), *_status_lines(job.get("status") or {})):
        click.echo(line)
    if not events:
        click.echo("Events: \t<none>")
        return
    click.echo("Events:")
    rule = "-------"
    for row in (("Type", "Reason", "Age", "Form", "Message"), (rule,) * 5, *(_event_cells(one, now) for one in events)):
        kind, reason, when, source, message = row
        click.echo(f"{kind:<15}\t{reason:<40}\t{when:<30}\t{source:<40}\t{message}")


def as_typed(obj: Obj) -> Obj:
    """A flow or template as upstream's types write it: with times that are not there yet, and with empty objects."""
    typed: Obj = json.loads(json.dumps(obj))
    typed["metadata"].pop("managedFields", None)
    for one in (typed.get("status") or {}).get("jobStatusList") or ():
        one.setdefault("endTimestamp", None)
        for history in one.get("runningHistories") or ():
            history.setdefault("endTimestamp", None)
    for task in (typed.get("spec") or {}).get("tasks") or ():
        template = task.setdefault("template", {})
        template.setdefault("metadata", {})
        for container in (template.get("spec") or {}).get("containers") or ():
            container.setdefault("resources", {})
    return typed


def _print_columns(columns: Mapping[str, int], rows: Sequence[Sequence[object]]) -> None:
    for row in (list(columns), *rows):
        click.echo("".join(str(cell).ljust(width) for cell, width in zip(row, columns.values(), strict=True)))


def _job_cells(job: Obj) -> list[object]:
    status = job.get("status") or {}
    counted = ("minAvailable", "pending", "running", "succeeded", "failed", "unknown", "retryCount")
    return [
        str(job["metadata"]["creationTimestamp"]).partition("T")[0],
        (status.get("state") or {}).get("phase") or "",
        labels_of(job).get(_JOB_TYPE) or "Batch",
        sum(int(task.get("replicas") or 0) for task in job["spec"].get("tasks") or ()),
        *(status.get(counter) or 0 for counter in counted),
    ]


def _pod_cells(pod: Obj, now: datetime) -> list[str]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    ready = sum(1 for one in statuses if one.get("ready") and (one.get("state") or {}).get("running") is not None)
    restarts = sum(int(one.get("restartCount") or 0) for one in statuses)
    ended = [((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for one in statuses]
    last = max((parse_timestamp(moment) for moment in ended if moment), default=None)
    return [
        name_of(pod),
        f"{ready}/{len(pod['spec'].get('containers') or ())}",
        pod_status(pod, now),
        f"{restarts} ({age(last, now)} ago)" if restarts and last else str(restarts),
        age(parse_timestamp(pod["metadata"]["creationTimestamp"]), now),
    ]


def _metadata_lines(job: Obj) -> Iterator[str]:
    meta = job["metadata"]
    yield f"Name:       \t{name_of(job)}"
    yield f"Namespace:  \t{namespace_of(job)}"
    yield f"Labels:     \t{_as_json(labels_of(job))}"
    yield f"Annotations:\t{_as_json(annotations_of(job))}"
    # parity: what a typed client reads has no type of its own.
    yield "API Version:\t"
    yield "Kind:       \t"
    yield "Metadata:"
    yield f"  Creation Timestamp:\t{_moment(meta.get('creationTimestamp'))}"
    yield f"  Generate Name:     \t{meta.get('generateName') or ''}"
    yield f"  Generation:        \t{meta.get('generation') or 0}"
    yield f"  Resource Version:  \t{meta.get('resourceVersion') or ''}"
    yield f"  UID:               \t{meta.get('uid') or ''}"


def _spec_lines(spec: Obj) -> Iterator[str]:
    plugins = spec.get("plugins") or {}
    yield "Spec:"
    yield f"  Min Available:     \t{spec.get('minAvailable') or 0}"
    yield "  Plugins:"
    yield f"    Env:\t[{' '.join(plugins.get('env') or ())}]"
    yield f"    Ssh:\t[{' '.join(plugins.get('ssh') or ())}]"
    yield f"  Scheduler Name:    \t{spec.get('schedulerName') or ''}"
    yield "  Tasks:"
    for task in spec.get("tasks") or ():
        yield from _task_lines(task)


def _task_lines(task: Obj) -> Iterator[str]:
    template = task.get("template") or {}
    given, spec = (template.get("metadata") or {}).get("annotations") or {}, template.get("spec") or {}
    yield f"    Name:\t{task.get('name') or ''}"
    yield f"    Replicas:\t{task.get('replicas') or 0}"
    yield "    Template:"
    yield "      Metadata:"
    yield "        Annotations:"
    yield f"          Cri . Cci . Io / Container - Type:          \t{given.get('cri.cci.io/container-type', '')}"
    yield f"          Kubernetes . Io / Availablezone:            \t{given.get('kubernetes.io/availablezone', '')}"
    network = given.get("network.alpha.kubernetes.io/network", "")
    yield f"          Network . Alpha . Kubernetes . Io / Network:\t{network}"
    yield f"        Creation Timestamp:\t{_NEVER}"
    yield "      Spec:"
    yield "        Containers:"
    for container in spec.get("containers") or ():
        yield from _container_lines(container)
    yield "        Image Pull Secrets:"
    for secret in spec.get("imagePullSecrets") or ():
        yield f"          Name:     \t{secret.get('name') or ''}"
    yield f"        Restart Policy:   \t{spec.get('restartPolicy') or ''}"


def _container_lines(container: Obj) -> Iterator[str]:
    yield "          Command:"
    for word in container.get("command") or ():
        yield f"            {word}"
    yield f"          Image:\t{container.get('image') or ''}"
    yield f"          Name: \t{container.get('name') or ''}"
    yield "          Ports:"
    for port in container.get("ports") or ():
        yield f"            Container Port:\t{port.get('containerPort') or 0}"
        yield f"            Name:          \t{port.get('name') or ''}"
    yield "          Resources:"
    for which in ("limits", "requests"):
        amounts = (container.get("resources") or {}).get(which) or {}
        yield f"            {which.capitalize()}:"
        yield f"              Cpu:   \t{canonical(amounts.get('cpu', 0))}"
        yield f"              Memory:\t{canonical(amounts.get('memory', 0))}"
    yield f"            Working Dir:\t{container.get('workingDir') or ''}"


def _status_lines(status: Obj) -> Iterator[str]:
    yield "Status:"
    for word in _COUNTERS:
        count = status.get(word[0].lower() + word[1:])
        if count:
            yield f"  {word + ':':<14}\t{count}"
    for word, field in (("Min Available:", "minAvailable"), ("Version:", "version")):
        if status.get(field):
            yield f"  {word:<14}\t{status[field]}"
    yield "  State:"
    yield f"    Phase:\t{(status.get('state') or {}).get('phase') or ''}"
    if status.get("controlledResources"):
        yield "  Controlled Resources:"
        for name, value in sorted(status["controlledResources"].items()):
            yield f"    {name}: \t{value}"
    if status.get("conditions"):
        yield "  Conditions:"
        yield "    Status\tTransitionTime"
        for condition in status["conditions"]:
            yield f"    {condition.get('status')} \t{_moment(condition.get('lastTransitionTime'))} "


def _event_cells(event: Obj, now: datetime) -> tuple[str, str, str, str, str]:
    first, last = event.get("firstTimestamp"), event.get("lastTimestamp")
    since = age(parse_timestamp(first) if first else None, now)
    count = int(event.get("count") or 1)
    if count > 1:
        since = f"{age(parse_timestamp(last) if last else None, now)} (x{count} over {since})"
    source = event.get("source") or {}
    told_by = ", ".join(filter(None, (source.get("component"), source.get("host"))))
    return event.get("type", ""), event.get("reason", ""), since, told_by, event.get("message", "").strip()


def _as_json(texts: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(texts.items())), separators=(",", ":")) if texts else "<none>"


def _moment(text: str | None) -> str:
    return parse_timestamp(text).strftime("%Y-%m-%d %H:%M:%S +0000 UTC") if text else _NEVER
