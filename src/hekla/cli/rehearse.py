"""The scheduler's core run on a copy of a cluster's objects, for `why` and `plan`. Nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from hekla.api.kinds import JOB, POD_GROUP, Kind, Obj, kind_of
from hekla.api.meta import Key, controller_of, key_of
from hekla.cli.connection import ClusterOptions
from hekla.client.kubeconfig import NoKubeconfig
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.errors import Forbidden
from hekla.local.layout import Layout
from hekla.scheduler.config import Config, default_config, read_config
from hekla.scheduler.plan import Plan
from hekla.scheduler.rehearsal import KINDS, rehearse


async def read_cluster(client: Client) -> list[Obj]:
    """Everything the scheduler looks at, as far as this person may see it."""
    lists = await asyncio.gather(*(_visible(client, kind) for kind in KINDS))
    return [obj for objects in lists for obj in objects]


async def _visible(client: Client, kind: Kind) -> Iterable[Obj]:
    try:
        return await client.find_all(kind)
    except Forbidden:
        click.echo(f"note: you may not list {kind.plural}; the answer does without them", err=True)
        return ()


def rehearse_with(config: Config, cluster: Iterable[Obj], extra: Iterable[Obj] = ()) -> Plan:
    return rehearse([*cluster, *extra], config, now=SystemClock().now().timestamp())


def scheduler_conf_option(command: Any) -> Any:
    """For clusters whose scheduler has a configuration we cannot see."""
    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    return click.option(
        "--scheduler-conf",
        type=file,
        default=None,
        help="The scheduler's configuration (default: a local cluster's own, elsewhere the built-in one).",
    )(command)


def effective_config(cluster: ClusterOptions, given: Path | None) -> Config:
    """The configuration to rehearse with: the one given, else the local cluster's own, else the built-in one."""
    if given is not None:
        return read_config(given)
    try:
        return recorded_config(cluster.connection().local_layout())
    except NoKubeconfig:
        return default_config()


def recorded_config(local: Layout | None) -> Config:
    """What the scheduler of a local cluster uses; of another this is not known."""
    if local is None or not local.scheduler_conf.exists():
        return default_config()
    return read_config(Path(local.scheduler_conf.read_text().strip()))


def decision_about(plan: Plan, group: str, namespace: str, cluster: Iterable[Obj] = ()) -> Mapping[str, Any]:
    """Why a group waits; empty when it does not. Of Jobs among those ahead of it the names are told, too."""
    for decision in plan.decisions():
        if decision["group"]["name"] == group and decision["group"]["namespace"] == namespace:
            ahead, jobs = decision["ahead"], jobs_by_group(cluster)
            first = [{**one, "job": jobs.get(Key(one["namespace"], one["name"]), "")} for one in ahead["first"]]
            return {**decision, "ahead": {**ahead, "first": first}}
    return {}


def jobs_by_group(cluster: Iterable[Obj]) -> dict[Key, str]:
    """The name of the Job that each PodGroup belongs to, as far as it belongs to one."""
    owners = {key_of(obj): controller_of(obj) for obj in cluster if kind_of(obj) == POD_GROUP}
    return {key: owner["name"] for key, owner in owners.items() if owner is not None and JOB.owns_reference(owner)}
