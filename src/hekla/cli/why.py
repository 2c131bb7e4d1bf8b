"""`hekla why JOB`: what a waiting job waits for.

The answer is not remembered but worked out: the scheduler's core runs on a copy of the cluster's objects and says what
is in the way now. What the PodGroup's condition says stands beside it in the JSON form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from hekla.api.batch import JobPhase
from hekla.api.kinds import EVENT, POD_GROUP, QUEUE, Obj
from hekla.api.meta import is_deleting, name_of, namespace_of, uid_of
from hekla.api.reasons import Reason
from hekla.cli.absent import require_job
from hekla.cli.alike import told_together
from hekla.cli.complaints import code_of
from hekla.cli.completing import complete_job
from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.decision import print_decision
from hekla.cli.events import time_of_event
from hekla.cli.gone_pods import EMPTYING, failures_of_gone
from hekla.cli.named import own_pods, pods_by_name
from hekla.cli.output import printable_lines
from hekla.cli.parameters import output_option
from hekla.cli.progress import (
    attempts_of,
    dependency_reason,
    failures,
    is_finished,
    phase_of,
    predecessor_reason,
    queue_reason,
    retries_of,
    task_rows,
    told_reason,
    waiting_reason,
)
from hekla.cli.rehearse import (
    decision_about,
    effective_config,
    read_cluster,
    scheduler_conf_option,
)
from hekla.cli.what_helps import print_remedies, rehearse_timed, remedies_for_job
from hekla.client.rest import Client
from hekla.scheduler.config import Config

_FOREGROUND = "foregroundDeletion"  # taken off by the cluster itself
_ABOUT_QUEUES = (Reason.QUEUE_NOT_OPEN, Reason.QUEUE_UNUSABLE)


@click.command()
@cluster_options
@click.argument("job", shell_complete=complete_job)
@scheduler_conf_option
@output_option("text", "json")
def why(cluster: ClusterOptions, job: str, scheduler_conf: Path | None, output: str) -> None:
    """Say why JOB is waiting, or how it ended.

    \b
    Example:  hekla why hello-gang
    """
    connection = cluster.connection()
    config = effective_config(cluster, scheduler_conf)
    answer = with_client(connection, lambda client: explain_job(client, connection.namespace, job, config))
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
    else:
        print_why(answer)


def print_why(answer: dict[str, Any]) -> None:
    for line in _sentences(answer):
        click.echo(printable_lines(line))
    if not answer["deleting"]:
        print_decision(answer["decision"])
        print_remedies(answer["remedies"])


async def explain_job(client: Client, namespace: str, name: str, config: Config) -> dict[str, Any]:
    """Everything known about why a job is where it is, as one document."""
    job = await require_job(client, name, namespace)
    group = await client.find(POD_GROUP, f"{name}-{uid_of(job)}", namespace)
    of_name = await pods_by_name(client, job)
    pods = own_pods(job, of_name)
    queue_name = str(job["spec"].get("queue") or "default")
    queue = await client.find(QUEUE, queue_name)
    code, sentence = waiting_reason(group, pods)
    if not code:
        code, sentence = dependency_reason(job, pods)
    decision: Mapping[str, Any] = {}
    remedies: list[dict[str, Any]] = []
    if group is not None and not is_finished(job):
        rehearsed = rehearse_timed(config, await read_cluster(client))
        decision = decision_about(rehearsed.plan, name_of(group), namespace, rehearsed.cluster)
        if phase_of(job) not in EMPTYING and not predecessor_reason(job, of_name)[0]:
            remedies = await remedies_for_job(client, job, group, rehearsed)
    if not pods and not is_finished(job) and not code:
        code, sentence = await _last_complaint(client, job)
    said = predecessor_reason(job, of_name)
    if not said[0]:
        said = _first_cause(decision, pods)
    if said[0] == Reason.GANG_NOT_COMPLETE and (complaint := (await _last_complaint(client, job))[1]):
        said = said[0], f"{said[1]}: {complaint}"
    if queue is None and not is_finished(job) and (gone := queue_reason(job, (), pods))[0]:
        said = gone
    return {
        "job": name,
        "phase": phase_of(job),
        "reason": said[0] or code,
        "message": said[1] or sentence,
        "condition": {"reason": code, "message": sentence},
        "decision": decision,
        "remedies": remedies,
        "queue": {"name": queue_name, "state": _queue_state(queue)},
        "podGroup": {"phase": ((group or {}).get("status") or {}).get("phase", "") if group else "absent"},
        "minAvailable": job["spec"].get("minAvailable"),
        "tasks": [
            {
                "name": row.name,
                "replicas": row.wanted,
                "pending": row.pending,
                "running": row.running,
                "done": row.done,
                "failed": row.failed,
            }
            for row in task_rows(job, pods)
        ],
        "failures": [*failures(pods, attempts_of(job)), *await failures_of_gone(client, job, of_name)],
        "retries": retries_of(job),
        "finished": is_finished(job),
        "deleting": is_deleting(job),
        "finalizers": job["metadata"].get("finalizers", []) if is_deleting(job) else [],
    }


def _first_cause(decision: Mapping[str, Any], pods: Sequence[Obj]) -> tuple[str, str]:
    """(code, sentence) of what is in the way now; what was said before may be history."""
    code, sentence = str(decision.get("reason") or ""), str(decision.get("sentence") or "")
    if code == Reason.WAITING_FOR_GATE:
        gates = {gate.get("name", "") for pod in pods for gate in pod["spec"].get("schedulingGates") or ()}
        sentence += f": {', '.join(sorted(gates))}" if gates else ""
    return code, sentence


async def _last_complaint(client: Client, job: Obj) -> tuple[str, str]:
    """(code, message) of the last thing a controller could not do for the job; or empty."""
    about = f"involvedObject.uid={uid_of(job)},type=Warning"
    listed = (await client.list(EVENT, namespace_of(job), field_selector=about)).items
    # That a gang waits is no complaint about what the controller could not do.
    events = [event for event in listed if event.get("reason") != "PodGroupPending"]
    if not events:
        return "", ""
    last = max(events, key=time_of_event)
    return code_of(last), str(last.get("message", "")).strip()


def _queue_state(queue: Obj | None) -> str:
    if queue is None:
        return "absent"
    return str((queue.get("status") or {}).get("state") or "Open")


def _sentences(answer: dict[str, Any]) -> list[str]:
    head = f"{answer['job']} is {answer['phase']}"
    lines = [head]
    if answer["deleting"]:
        held = [name for name in answer["finalizers"] if name != _FOREGROUND]
        goes_first = [f"  until these finalizers are taken off it: {', '.join(held)}"] if held else []
        if _FOREGROUND in answer["finalizers"]:
            goes_first.insert(0, "  what belongs to it goes first, its pods among it")
        return [f"{answer['job']} is being deleted", *goes_first]
    if answer["finished"]:
        tries = f" ({answer['retries']})" if answer["retries"] and not answer["failures"] else ""
        lines[0] = f"{answer['job']} has ended: {answer['phase']}{tries}"
        if answer["phase"] == JobPhase.ABORTED:
            lines[0] = f"{answer['job']} is suspended; it goes on with:  hekla job resume {answer['job']}"
    elif answer["phase"] in EMPTYING:
        leaving = sum(task["pending"] + task["running"] for task in answer["tasks"])
        lines += [f"  {leaving} of its pods are being stopped" if leaving else "  its pods are stopped"]
    elif answer["reason"]:
        lines += [f"  {told_reason(answer['reason'], answer['message'])}"]
    elif any(task["running"] for task in answer["tasks"]):
        lines[0] = f"{answer['job']} is running"
    else:
        lines += [f"  its PodGroup is {answer['podGroup']['phase'] or 'new'}: the scheduler has not said why yet"]
    about_queue = answer["reason"] in _ABOUT_QUEUES and answer["phase"] not in EMPTYING
    if answer["queue"]["state"] != "Open" and not about_queue:
        lines.append(f"  queue {answer['queue']['name']} is {answer['queue']['state']}: nothing new starts in it")
    lines += [f"  {failure}" for failure in told_together(answer["failures"])]
    return lines
