"""`hekla events JOB`: everything that was said about a job, its PodGroup and its pods, in the order of time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime

import click

from hekla.api.batch import JobPhase
from hekla.api.container_end import ENDED_BADLY, ContainerEnd
from hekla.api.kinds import EVENT, POD, POD_GROUP, Obj
from hekla.api.meta import name_of, namespace_of, parse_timestamp, revision_of, uid_of
from hekla.api.scheduling import GROUP_STEP
from hekla.cli.absent import require_job
from hekla.cli.completing import complete_job
from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.gone_pods import pod_events
from hekla.cli.named import own_pods, pods_by_name
from hekla.cli.output import age, print_table
from hekla.cli.parameters import output_option
from hekla.cli.told import told
from hekla.client.recorder import NORMAL, WARNING
from hekla.client.rest import Client
from hekla.clock import SystemClock

_UID = re.compile(r"(-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@click.command()
@cluster_options
@click.argument("job", shell_complete=complete_job)
@output_option("table", "json")
def events(cluster: ClusterOptions, job: str, output: str) -> None:
    """Tell the story of JOB: its events, its PodGroup's and its pods', oldest first.

    Pods that are gone have their part in it, for as long as the cluster keeps their events.

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
        rows = [_row(event, now) for event in _worth_reading(found)]
        print_table(["AGE", "TYPE", "ABOUT", "REASON", "MESSAGE"], rows, breaks_last=True)


async def story_of(client: Client, namespace: str, name: str) -> list[Obj]:
    job = await require_job(client, name, namespace)
    of_name = await pods_by_name(client, job)
    return story(job, of_name, (await client.list(EVENT, namespace)).items)


def story(job: Obj, of_name: Sequence[Obj], events: Sequence[Obj]) -> list[Obj]:
    """Of the `events` of a namespace those that concern the job, with what nobody makes an Event of, oldest first.

    `of_name` are the pods there are of jobs of that name.
    """
    group = f"{name_of(job)}-{uid_of(job)}"
    mine = [
        event
        for event in events
        if event["involvedObject"].get("uid") == uid_of(job) or event["involvedObject"].get("name") == group
    ]
    mine += pod_events(job, of_name, events)
    told = {(event["involvedObject"].get("uid"), event.get("message")) for event in mine}
    ends = [end for pod in own_pods(job, of_name) for end in _ends(pod)]
    untold = [end for end in ends if (end["involvedObject"]["uid"], end["message"]) not in told]
    return _causes_first(sorted([*mine, *_phases(job), *untold], key=_order))


def _causes_first(told: list[Obj]) -> list[Obj]:
    """A restart comes before what is said of the pods it makes, though that may be of the same second."""
    first: dict[int, Obj] = {}
    lives: dict[str, list[str]] = {}
    for event in told:
        about = event["involvedObject"]
        known = lives.setdefault(about["name"], []) if about["kind"] == POD.kind else []
        if about["kind"] == POD.kind and about.get("uid") not in known:
            known.append(about.get("uid"))
            first.setdefault(len(known) - 1, event)
    restarts = [event for event in told if "metadata" not in event and event["reason"] == JobPhase.RESTARTING]
    for number, restart in enumerate(restarts, 1):
        made = first.get(number)
        if made is not None and _second(made) == _second(restart):
            rest = [event for event in told if event is not restart]
            place = next(at for at, event in enumerate(rest) if event is made)
            told = [*rest[:place], restart, *rest[place:]]
    return told


def _worth_reading(story: Sequence[Obj]) -> list[Obj]:
    """Without the steps of a group, warnings by their type, that it has got beyond."""
    group = [event for event in story if event["involvedObject"]["kind"] == POD_GROUP.kind]
    return [event for event in story if event.get("action") != GROUP_STEP or event is group[-1]]


def _phases(job: Obj) -> list[Obj]:
    """What became of the job, which nobody makes an Event of. That it waits or runs is told by its pods."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return [
        _entry(job, "Job", NORMAL, phase, f"The job is {phase}", str(condition["lastTransitionTime"]))
        for condition in conditions
        if (phase := str(condition.get("status") or "")) not in ("", JobPhase.PENDING, JobPhase.RUNNING)
        and condition.get("lastTransitionTime")
    ]


def _ends(pod: Obj) -> list[Obj]:
    """How the pod's containers ended, those of earlier attempts as far as they are known."""
    found = []
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        for ended in ((container.get(key) or {}).get("terminated") for key in ("lastState", "state")):
            if ended and ended.get("finishedAt"):
                code, said = int(ended.get("exitCode") or 0), str(ended.get("message") or "").strip()
                text = str(ContainerEnd(str(container["name"]), code, said))
                reason = str(ended.get("reason") or ("Error" if code else "Completed"))
                found.append(_entry(pod, "Pod", WARNING if code else NORMAL, reason, text, ended["finishedAt"]))
    return found


def _entry(about: Obj, kind: str, type_: str, reason: str, message: str, when: str) -> Obj:
    """In the form of an Event."""
    return {
        "type": type_,
        "reason": reason,
        "message": message,
        "involvedObject": {
            "kind": kind,
            "name": name_of(about),
            "namespace": namespace_of(about),
            "uid": uid_of(about),
        },
        "lastTimestamp": when,
    }


def _order(event: Obj) -> tuple[str, int, int]:
    """By the second; within one as they were written, and ends come last: the container's, then the job's."""
    written = revision_of(event) if event.get("metadata") else 0
    last = 0 if written else 1 if event["involvedObject"]["kind"] == "Pod" else 2
    return time_of_event(event), last, written


def time_of_event(event: Obj) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"))


def _second(event: Obj) -> str:
    return time_of_event(event)[: len("2030-01-01T00:00:00")]


def _row(event: Obj, now: datetime) -> list[object]:
    times = f" (×{event['count']})" if int(event.get("count") or 1) > 1 else ""
    return [
        age(parse_timestamp(time_of_event(event)), now),
        # Nodes write of it only where they write of everything, so it is no warning there.
        WARNING if event.get("action") == ENDED_BADLY else event.get("type", ""),
        about_of(event),
        event.get("reason", ""),
        told(event) + times,
    ]


def about_of(event: Obj) -> str:
    """What it is told of. A job's group is called after the job and its uid, of which the beginning is enough."""
    about = event["involvedObject"]
    kind, name = str(about.get("kind", "")), str(about.get("name", ""))
    shown = _UID.sub(r"\1…", name) if kind == POD_GROUP.kind else name
    return f"{kind.lower()}/{shown}"
