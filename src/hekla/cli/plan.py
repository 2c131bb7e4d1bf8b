"""`hekla plan FILE`: what would happen to a job if it were submitted now. Nothing is written.

The job goes through admission (a dry run), its pods are made as the controller would make them, and the scheduler's
core places them on a copy of the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hekla.api.job_plugins import registered
from hekla.api.kinds import JOB, QUEUE, Obj, kind_of
from hekla.api.meta import Key, is_owned_by, name_of, namespace_of, uid_of
from hekla.cli.brought import brought_by, judge_with
from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.decision import print_decision, print_queues, print_victims
from hekla.cli.main import EXIT_UNPLACEABLE
from hekla.cli.manifest import Document, read_manifest
from hekla.cli.named import queue_names
from hekla.cli.output import print_table
from hekla.cli.parameters import output_option
from hekla.cli.planned import as_if_stored, nameless, planned_pods
from hekla.cli.progress import queue_reason
from hekla.cli.rehearse import (
    decision_about,
    effective_config,
    jobs_by_group,
    read_cluster,
    scheduler_conf_option,
)
from hekla.cli.submit import check_documents, create_document, only_job
from hekla.cli.what_helps import print_remedies, rehearse_timed, remedies_for
from hekla.client.rest import Client
from hekla.controllers.job.configured import configured_plugins
from hekla.controllers.job.model import read_job
from hekla.controllers.job.podgroup import build_pod_group
from hekla.errors import Forbidden
from hekla.scheduler.config import Config
from hekla.scheduler.plan import Plan


@click.command()
@cluster_options
@click.argument("file")
@scheduler_conf_option
@output_option("text", "json")
def plan(cluster: ClusterOptions, file: str, scheduler_conf: Path | None, output: str) -> int:
    """Say where the pods of the job in FILE would go now and who would have to leave, or why it would wait.

    \b
    0 it fits, 2 it would wait, 3 the file is wrong
    Example:  hekla plan examples/hello-gang/job.yaml
    """
    documents = read_manifest(file)
    job = only_job(documents, "plan")
    connection = cluster.connection()
    check_documents(documents, connection.namespace)
    config = effective_config(cluster, scheduler_conf)
    beside = [document for document in documents if document is not job]
    answer = with_client(connection, lambda client: plan_job(client, job, config, beside))
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
    else:
        print_plan(answer)
    return 0 if answer["fits"] else EXIT_UNPLACEABLE


async def plan_job(
    client: Client, document: Document, config: Config, beside: Sequence[Document] = ()
) -> dict[str, Any]:
    """Placements by pod, or the decision that says why not.

    What stands `beside` it in its file counts as there; a job of its name counts as gone, with all that is its own: to
    take its place is the only way to be submitted.
    """
    there, brought = await read_cluster(client), await brought_by(client, beside)
    async with judge_with(brought, client, there, document.obj) as judge:
        admitted = await create_document(judge, replace(document, obj=nameless(document.obj)), dry_run=True)
        name = document.obj["metadata"].get("name") or name_of(admitted)
        job = read_job({**admitted, "metadata": {**admitted["metadata"], "name": name}})
        configured = configured_plugins(job, registered())
        pods = await planned_pods(judge, job, job.tasks, configured)
    replaced = await _job_there(client, job.key)
    cluster = [obj for obj in (*there, *brought) if replaced is None or not is_owned_by(obj, replaced)]
    priorities = {name_of(obj): int(obj.get("value") or 0) for obj in cluster if obj.get("kind") == "PriorityClass"}
    group = as_if_stored(build_pod_group(job, priorities))
    # Among what plugins make is the Service by which pods are spread.
    made = [wanted.obj for plugin in configured for wanted in plugin.objects(job)]
    rehearsed = rehearse_timed(config, [*cluster, *made, group, *pods])
    result = rehearsed.plan
    victims = _victims(result, group, jobs_by_group(cluster))
    bindings = result.bindings() | ({one.pod.uid: one.node for one in result.promises} if victims else {})
    decision = dict(decision_about(result, name_of(group), namespace_of(group), cluster))
    if not decision:
        queues = await queue_names(client)
        if queues is not None:
            queues |= {name_of(obj) for obj in brought if kind_of(obj) is QUEUE}
        code, sentence = queue_reason(job.obj, queues, [])
        decision = {"reason": code, "sentence": sentence} if code else {}
    placed = {name_of(pod): bindings[pod["metadata"]["uid"]] for pod in pods if pod["metadata"]["uid"] in bindings}
    return {
        "job": job.key.name,
        "queue": job.obj["spec"].get("queue"),
        "minAvailable": job.obj["spec"].get("minAvailable"),
        "replaces": uid_of(replaced) if replaced else "",
        "fits": len(placed) >= int(job.obj["spec"].get("minAvailable") or 0) and bool(placed),
        "placements": placed,
        "victims": victims,
        "waiting": [name_of(pod) for pod in pods if name_of(pod) not in placed],
        "queues": _queues(result, group),
        "decision": decision,
        "remedies": await remedies_for(rehearsed, group, pods),
    }


async def _job_there(client: Client, key: Key) -> Obj | None:
    try:
        return await client.find(JOB, key.name, key.namespace)
    except Forbidden:
        return None


def _victims(plan: Plan, group: Obj, jobs: Mapping[Key, str]) -> list[dict[str, str]]:
    """Who would have to leave for the group."""
    return [
        {
            "namespace": eviction.pod.namespace,
            "pod": eviction.pod.name,
            "job": jobs.get(eviction.group.row.key, ""),
            "group": eviction.group.row.key.name,
            "node": eviction.pod.node,
            "action": eviction.reason,
        }
        for eviction in plan.evictions
        if eviction.contender is not None and eviction.contender.row.uid == uid_of(group)
    ]


def _queues(plan: Plan, group: Obj) -> list[Any]:
    """The books of the group's queue and of those above it, as the cycle would leave them."""
    found = (outcome.group for outcome in plan.groups if outcome.group.row.uid == uid_of(group))
    return [queue for each in found for queue in plan.standing(each).get("queues", ())]


def print_plan(answer: Mapping[str, Any]) -> None:
    name = answer["job"]
    if answer["replaces"]:
        click.echo(f"{name} is there already: this is how it would be once that one is deleted.\n")
    if answer["fits"]:
        if answer["victims"]:
            click.echo(f"{name} would start in queue {answer['queue']} once others have made room:\n")
            print_victims(answer["victims"])
            click.echo()
        else:
            click.echo(f"{name} would start now in queue {answer['queue']}.\n")
        print_table(["POD", "NODE"], sorted(answer["placements"].items()))
        print_queues(answer)
        if answer["waiting"]:
            click.echo(f"\n{len(answer['waiting'])} more would wait: {', '.join(answer['waiting'][:5])}")
        return
    decision = answer["decision"]
    click.echo(f"{name} would wait: {decision.get('reason', 'Unschedulable')}")
    click.echo(f"  {decision.get('sentence', 'the scheduler places none of its pods')}")
    print_decision(decision)
    print_remedies(answer["remedies"])
