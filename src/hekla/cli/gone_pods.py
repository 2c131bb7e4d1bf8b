"""Pods of a job that are gone, as Events tell of them: which they were, and how they ended.

Policies restart a pod by deleting it, and what is evicted is deleted too: what a pod's status said is lost with it,
its Events stay for a while. Other pods may have had the same names: those of an earlier Job, and each other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime

from hekla.api.batch import JobPhase
from hekla.api.container_end import ENDED_BADLY, ContainerEnd
from hekla.api.kinds import EVENT, POD, Obj
from hekla.api.meta import is_owned_by, name_of, namespace_of, parse_timestamp, revision_of, uid_of
from hekla.cli.named import own_pods
from hekla.cli.progress import attempts_of, failure_line, is_finished, phase_of
from hekla.cli.told import told
from hekla.client.rest import Client

# Phases in which a job's pods are taken away.
EMPTYING = frozenset({JobPhase.ABORTING, JobPhase.RESTARTING, JobPhase.TERMINATING, JobPhase.COMPLETING})

# Of Events that say why somebody else ended a pod: by Hekla's scheduler, nodes, and kube-scheduler.
_ENDED_BY_OTHERS = frozenset({"Evict", "Evicted", "DeadlineExceeded", "Preempted"})
_WENT_WELL = frozenset({JobPhase.COMPLETED, JobPhase.COMPLETING})


async def failures_of_gone(client: Client, job: Obj, of_name: Sequence[Obj]) -> list[str]:
    """`gone_failures`, asked of the cluster; empty for a job that goes on, whose pods are made anew."""
    if phase_of(job) in _WENT_WELL or not (is_finished(job) or phase_of(job) in EMPTYING):
        return []
    listed = (await client.list(EVENT, namespace_of(job), field_selector=f"involvedObject.kind={POD.kind}")).items
    return gone_failures(job, own_pods(job, of_name), pod_events(job, of_name, listed))


def pod_events(job: Obj, of_name: Sequence[Obj], events: Sequence[Obj]) -> list[Obj]:
    """Of the Events of a namespace those about the job's pods, the gone ones included.

    `of_name` are the pods there are of that name, whichever Job's.
    """
    own = {uid_of(pod) for pod in of_name if is_owned_by(pod, job)}
    others = {uid_of(pod) for pod in of_name} - own
    fits = _names_of_pods(job)
    mine = [
        event
        for event in events
        if (about := event["involvedObject"]).get("kind") == POD.kind
        and about.get("uid") not in others
        and (about.get("uid") in own or fits.fullmatch(str(about.get("name"))))
    ]
    # Pods of an earlier Job may end after this one was made, but what was said of them began before: times have whole
    # seconds, so only one that was made anew within a second has its predecessor's story before its own.
    created, begun = parse_timestamp(job["metadata"]["creationTimestamp"]), _beginnings(mine)
    return [event for event in mine if (uid := event["involvedObject"].get("uid")) in own or begun[uid][0] >= created]


def gone_failures(job: Obj, pods: Collection[Obj], events: Sequence[Obj]) -> list[str]:
    """A line for each container that ended badly of pods that are gone, and for each pod that others ended; of the last
    pod of each name. `events` are those of `pod_events`, `pods` the job's own that are there."""
    present, begun = set(map(name_of, pods)), _beginnings(events)
    in_order = sorted(events, key=lambda event: begun[event["involvedObject"].get("uid")])
    last = {event["involvedObject"].get("name"): event["involvedObject"].get("uid") for event in in_order}
    lines: dict[tuple[str, str], str] = {}
    for event in sorted(events, key=lambda event: (_time(event, "lastTimestamp"), revision_of(event))):
        name = str(event["involvedObject"]["name"])
        if name in present or event["involvedObject"].get("uid") != last[name]:
            continue
        reason, message = str(event.get("reason") or ""), str(event.get("message") or "").strip()
        end = ContainerEnd.read(message) if event.get("action") == ENDED_BADLY else None
        if end is not None:
            lines[name, end.container] = failure_line(name, reason, end.code, end.said, attempts_of(job))
        elif reason in _ENDED_BY_OTHERS:
            lines[name, ""] = f"{name}: {reason}: {told(event)}"
    return [lines[key] for key in sorted(lines)]


def _names_of_pods(job: Obj) -> re.Pattern[str]:
    """Whatever their index: there may have been more of them once."""
    tasks = "|".join(re.escape(str(task.get("name"))) for task in (job.get("spec") or {}).get("tasks") or ())
    return re.compile(rf"{re.escape(name_of(job))}-(?:{tasks})-\d+")


def _beginnings(events: Sequence[Obj]) -> dict[str | None, tuple[datetime, int]]:
    """When each pod was first spoken of, by uid."""
    found: dict[str | None, tuple[datetime, int]] = {}
    for event in events:
        uid, moment = event["involvedObject"].get("uid"), (_time(event, "firstTimestamp"), revision_of(event))
        found[uid] = min(moment, found.get(uid, moment))
    return found


def _time(event: Obj, field: str) -> datetime:
    return parse_timestamp(event.get(field) or event.get("eventTime") or event["metadata"]["creationTimestamp"])
