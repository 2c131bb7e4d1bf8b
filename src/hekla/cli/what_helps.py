"""Remedies for a job that waits, looked for in a reasonable time and printed. `remedies.py` finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

from hekla.api.job_plugins import registered
from hekla.api.kinds import POD, Obj
from hekla.api.meta import annotations_of, name_of, namespace_of
from hekla.api.scheduling import GROUP_NAME
from hekla.cli.planned import planned_pods
from hekla.cli.rehearse import decision_about, rehearse_with
from hekla.cli.remedies import MENDABLE, find_remedies
from hekla.client.rest import Client
from hekla.clock import Clock, SystemClock
from hekla.controllers.job.configured import configured_plugins
from hekla.controllers.job.model import read_job
from hekla.errors import HeklaError
from hekla.log import silenced
from hekla.scheduler.config import Config
from hekla.scheduler.intake import NOT_UNDERSTOOD
from hekla.scheduler.plan import Plan

_SECONDS = 2.0
_AT_LEAST = 2
_MOST_LINES = 5


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What the scheduler makes of a cluster as it is, and how long finding out took."""

    config: Config
    cluster: list[Obj]
    plan: Plan
    seconds: float

    @property
    def affordable(self) -> int:
        """How many more there is time for: of a large cluster fewer things are tried."""
        return max(_AT_LEAST, int(_SECONDS / max(self.seconds, 0.001)))


def rehearse_timed(config: Config, cluster: Iterable[Obj], clock: Clock | None = None) -> Rehearsed:
    objects, clock = list(cluster), clock or SystemClock()
    began = clock.monotonic()
    plan = rehearse_with(config, objects)
    return Rehearsed(config, objects, plan, clock.monotonic() - began)


async def remedies_for(rehearsed: Rehearsed, group: Obj, pods: Iterable[Obj]) -> list[dict[str, Any]]:
    """As JSON, for a group with these pods."""
    looking = partial(
        find_remedies,
        rehearsed.cluster,
        group,
        pods,
        rehearsed.config,
        plan=rehearsed.plan,
        limit=rehearsed.affordable,
        now=SystemClock().now().timestamp(),
    )
    try:
        # What there is to say of odd objects was said when the cluster was rehearsed as it is.
        with silenced("scheduler"):
            return [remedy.as_json() for remedy in await asyncio.to_thread(looking)]
    except NOT_UNDERSTOOD:
        # Anything may stand in an object. Why the job waits is told without help, rather than not at all.
        return []


async def remedies_for_job(client: Client, job: Obj, group: Obj, rehearsed: Rehearsed) -> list[dict[str, Any]]:
    """For a job that is there: with its pods or, where it was not let in, with those that it would have."""
    if decision_about(rehearsed.plan, name_of(group), namespace_of(group)).get("reason") not in MENDABLE:
        return []
    pods = [obj for obj in rehearsed.cluster if obj.get("kind") == POD.kind and _is_of(obj, group)]
    if pods:
        return await remedies_for(rehearsed, group, pods)
    try:
        pods, made = await _pods_to_be(client, job)
    except HeklaError:
        # They cannot be made, or not by this person: what is tried without them proves nothing.
        return []
    return await remedies_for(replace(rehearsed, cluster=[*rehearsed.cluster, *made]), group, pods)


def print_remedies(remedies: Sequence[Mapping[str, Any]]) -> None:
    if remedies:
        click.echo("\nWHAT WOULD HELP (each was tried on a copy of the cluster)")
    for remedy in remedies[:_MOST_LINES]:
        click.echo(f"  {remedy['sentence']}")


async def _pods_to_be(client: Client, job: Obj) -> tuple[list[Obj], list[Obj]]:
    """The pods that are made first, and what plugins make beside them."""
    read = read_job(job)
    plugins = configured_plugins(read, registered())
    pods = await planned_pods(client, read, [task for task in read.tasks if not task.depends_on], plugins)
    return pods, [wanted.obj for configured in plugins for wanted in configured.objects(read)]


def _is_of(pod: Obj, group: Obj) -> bool:
    return annotations_of(pod).get(GROUP_NAME) == name_of(group) and namespace_of(pod) == namespace_of(group)
