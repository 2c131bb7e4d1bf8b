"""`hekla logs JOB`: the job's pods' logs, merged and prefixed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections import Counter
from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode

import click

from hekla.api.batch import JOB_NAME, JobPhase
from hekla.api.kinds import POD, Obj
from hekla.api.meta import name_of, uid_of
from hekla.cli.absent import require_job
from hekla.cli.completing import complete_job
from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.display import PlainDisplay
from hekla.cli.draft_line import DraftLine
from hekla.cli.go_flags import GoCommand
from hekla.cli.output import printable
from hekla.cli.progress import has_begun, is_finished, phase_of, told_reason, waiting_reason
from hekla.client.rest import Client
from hekla.errors import ApiError, UsageError

# A job that goes on makes the pods anew that are missing: what matters is what they say.
_GOES_ON = frozenset({JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING, JobPhase.COMPLETING})
_MOST_ASKED = 200


@click.command(cls=GoCommand)
@cluster_options
@click.argument("job", shell_complete=complete_job)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the job ends.")
@click.option(
    "-p",
    "--previous",
    count=True,
    help="The attempt before: of the container, or of the pod that had its name. -pp: the one before that, and so on.",
)
@click.option("--tail", type=int, default=None, help="Only the last so many lines of each container.")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@click.option("--task", default="", help="Only pods of this task.")
def logs(cluster: ClusterOptions, job: str, follow: bool, task: str, **parameters: Any) -> None:
    """Print the logs of all pods of JOB, each line prefixed by its pod.

    On a local cluster they stay until JOB is deleted. -p shows what a pod said before a policy restarted it; of pods
    that are gone the last five of each name are kept, the last megabyte of each container. Other clusters know nothing
    further back than -p.

    \b
    Example:  hekla logs -f hello-gang
    """
    tail, previous, timestamps = parameters["tail"], parameters["previous"], parameters["timestamps"]
    if tail is not None and tail < 0:
        raise UsageError(f"--tail {tail}: must not be negative")
    if follow and previous:
        raise UsageError("--previous has ended: it cannot be followed")
    connection = cluster.connection()
    query = {
        "previous": "true" if previous else "",
        "back": previous if previous > 1 else "",
        "tailLines": tail if tail is not None else "",
        "timestamps": "true" if timestamps else "",
    }

    async def work(client: Client) -> None:
        await check_reach(client, previous)
        found = await require_job(client, job, connection.namespace)
        if follow:
            from hekla.cli.follow import Follower, LogWish

            with contextlib.closing(_LogsOnly()) as display:
                await Follower(client, found, display, logs=LogWish(task, timestamps, tail)).run()
        else:
            await _print_all(client, found, connection.namespace, task, query)

    with_client(connection, work)


async def check_reach(client: Client, previous: int) -> None:
    """Raises UsageError where the server would take no notice of how many attempts back, and answer with the last."""
    if previous > 1 and not await client.offers_batches():
        raise UsageError(
            f"-{'p' * previous}: this cluster is none of Hekla's own and knows one attempt back: ask for that with -p"
        )


class _LogsOnly(PlainDisplay):
    def __init__(self) -> None:
        super().__init__()
        self._told = ""
        self._begun: bool | None = None  # whether any container has; None until its pods are known
        self._held_back: list[str] = []
        self._draft_line = _draft_line()
        self.draws_drafts = self._draft_line is not None

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None:
        """The state is not asked for here; but who waits for a first line wants to know what the job waits for."""
        self._begun = any(map(has_begun, pods))
        for warning in () if self._begun else self._held_back:
            self.say(warning)
        self._held_back.clear()
        code, sentence = waiting_reason(group, pods)
        told = printable(f"{name_of(job)} is {phase_of(job)}: {told_reason(code, sentence)}") if code else ""
        if told and told != self._told and not is_finished(job):
            self._told = told
            self.say(told)

    def warned(self, reason: str, message: str) -> None:
        """Nor is what goes wrong, or went wrong once, except with a job that has not come to say anything."""
        warning = f"warning: {reason}: {printable(message)}"
        if self._begun is None:
            self._held_back.append(warning)
        elif not self._begun:
            self.say(warning)

    def say(self, text: str) -> None:
        if self._draft_line is not None:
            self._draft_line.make_way()
        click.echo(text, err=True)

    def log_line(self, pod: str, line: str) -> None:
        if self._draft_line is not None:
            self._draft_line.make_way(pod)
        super().say(f"{pod} | {printable(line)}")

    def log_draft(self, pod: str, draft: str) -> None:
        if self._draft_line is not None:
            self._draft_line.show(pod, f"{pod} | {printable(draft)}")

    def close(self) -> None:
        if self._draft_line is not None:
            self._draft_line.leave()


def _draft_line() -> DraftLine | None:
    return DraftLine(sys.stdout, lambda: shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


async def _print_all(client: Client, job: Obj, namespace: str, task: str, query: dict[str, object]) -> None:
    listed = await client.list(POD, namespace, label_selector=f"{JOB_NAME}={name_of(job)}")
    display = PlainDisplay()
    wanted = [
        (name_of(pod), container)
        for pod in sorted(listed.items, key=name_of)
        if not task or pod["metadata"].get("labels", {}).get("volcano.sh/task-spec") == task
        for container in _containers(pod["spec"])
    ]
    kept = False
    if not wanted or phase_of(job) not in _GOES_ON:
        gone = gone_containers(job, {name_of(pod) for pod in listed.items}, task)
        kept = await _print_kept(client, job, namespace, gone, query)
    if not wanted and not kept:
        raise UsageError(_nothing_to_read(job, task))
    answers = await asyncio.gather(*(_read(client, namespace, pod, name, query) for pod, name in wanted))
    containers = Counter(pod for pod, _ in wanted)
    for (pod, container), answer in zip(wanted, answers):
        shown = f"{pod}/{container}" if containers[pod] > 1 else pod
        if isinstance(answer, ApiError):
            click.echo(f"{shown}: {answer.message}", err=True)
            continue
        for line in answer:
            display.log_line(shown, line)
    if not kept and all(isinstance(answer, ApiError) for answer in answers):
        raise UsageError("there are no logs to read")
    if not (kept or any(answers) or any(map(has_begun, listed.items))):
        # Servers have an empty log of a pod that has no node yet.
        name = name_of(job)
        click.echo(f"no container of {name} has begun: `hekla logs -f {name}` waits for them", err=True)


def _nothing_to_read(job: Obj, task: str) -> str:
    """Why there is nothing to ask for, and what a person may ask instead."""
    name, tasks = name_of(job), [str(one.get("name")) for one in job["spec"].get("tasks") or ()]
    if task and task not in tasks:
        return f"no task of job {name!r} is called {task!r}; there are {', '.join(tasks)}"
    waits = "" if is_finished(job) else f"; `hekla why {name}` says what it waits for"
    return f"job {name!r} has no pods{f' of task {task!r}' if task else ''} to read logs of{waits}"


async def _print_kept(
    client: Client, job: Obj, namespace: str, gone: list[tuple[str, str]], query: dict[str, object]
) -> bool:
    """What nodes have kept of pods that are gone; False when nothing."""
    asked = {**query, "previous": "true", "jobUid": uid_of(job)}
    answers = await asyncio.gather(*(_read(client, namespace, pod, name, asked) for pod, name in gone))
    found = [(pod, name, answer) for (pod, name), answer in zip(gone, answers) if not isinstance(answer, ApiError)]
    if found:
        pods = sorted({pod for pod, _, _ in found})
        click.echo(f"kept of pods that are gone: {', '.join(pods)}", err=True)
    display, containers = PlainDisplay(), Counter(pod for pod, _, _ in found)
    for pod, name, lines in found:
        for line in lines:
            display.log_line(f"{pod}/{name}" if containers[pod] > 1 else pod, line)
    return bool(found)


def gone_containers(job: Obj, present: Collection[str], task: str = "") -> list[tuple[str, str]]:
    """Pods that the job is to have, or had, and are not there; with their containers. So many as can be asked about."""
    found: list[tuple[str, str]] = []
    for each in job["spec"].get("tasks") or ():
        if task and each.get("name") != task:
            continue
        for index in range(each.get("replicas", 1)):
            pod = f"{name_of(job)}-{each.get('name')}-{index}"
            if pod not in present:
                found += [(pod, name) for name in _containers((each.get("template") or {}).get("spec") or {})]
            if len(found) >= _MOST_ASKED:
                return found
    return found


def _containers(spec: Obj) -> list[str]:
    listed = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return [each["name"] for each in listed if each.get("name")]


async def _read(
    client: Client, namespace: str, pod: str, container: str, query: dict[str, object]
) -> list[str] | ApiError:
    parameters = {"container": container, **{key: value for key, value in query.items() if value != ""}}
    try:
        answer = await client.raw(
            "GET", f"{POD.path(namespace, pod, 'log')}?{urlencode(parameters)}", headers={"Accept": "*/*"}
        )
    except ApiError as error:
        return error
    text = answer.body.decode(errors="replace")
    # Not `splitlines`, which ends lines at a carriage return and at other controls, too.
    return text.removesuffix("\n").split("\n") if text else []
