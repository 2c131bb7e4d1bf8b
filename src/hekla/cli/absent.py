"""The job a person names, and what they may have meant when there is none of that name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from hekla.api.batch import JOB_NAME
from hekla.api.kinds import CRON_JOB, JOB, JOB_FLOW, JOB_TEMPLATE, POD, Kind, Obj
from hekla.api.meta import is_owned_by, labels_of, name_of, namespace_of
from hekla.client.rest import Client
from hekla.errors import Forbidden, UsageError

# What a person may take for a job; the first of that name is told.
_ALIKE = (POD, JOB_FLOW, CRON_JOB, JOB_TEMPLATE)
_MOST_NAMED = 5


async def require_job(client: Client, name: str, namespace: str) -> Obj:
    found = await client.find(JOB, name, namespace)
    if found is None:
        alike = [obj for kind in _ALIKE if (obj := await _visible(client, kind, name, namespace))]
        raise UsageError(
            f"no job {name!r} in namespace {namespace}{meant(name, namespace, alike, await _jobs(client))}"
        )
    return found


async def _visible(client: Client, kind: Kind, name: str, namespace: str) -> Obj | None:
    try:
        found = await client.find(kind, name, namespace)
    except Forbidden:
        return None
    return {**found, "kind": kind.kind} if found is not None else None


async def _jobs(client: Client) -> list[Obj]:
    try:
        return (await client.list(JOB)).items
    except Forbidden:
        return []  # nothing to say about other people's, then


def meant(name: str, namespace: str, alike: Sequence[Obj], jobs: Sequence[Obj]) -> str:
    """What to add to the news; empty when nothing comes to mind. `alike` are other objects of that name."""
    for obj in alike:
        if obj["kind"] != POD.kind:
            made = sorted(name_of(job) for job in jobs if is_owned_by(job, obj))
            return f": that is a {obj['kind']}{_told_jobs(obj['kind'], made)}"
        owner = labels_of(obj).get(JOB_NAME)
        if owner:
            return f": that is a pod of job {owner!r}"
    elsewhere = [namespace_of(job) for job in jobs if name_of(job) == name]
    if elsewhere:
        return f", but in {', '.join(sorted(elsewhere))}: say which with -n"
    close = difflib.get_close_matches(name, [name_of(job) for job in jobs if namespace_of(job) == namespace], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _told_jobs(kind: str, made: Sequence[str]) -> str:
    if kind == JOB_TEMPLATE.kind:
        return ", of which JobFlows make jobs"
    if not made:
        return ", which has no jobs now"
    shown = ", ".join([*made[:_MOST_NAMED], *(["…"] if made[_MOST_NAMED:] else [])])
    return f"; its job is {shown}" if len(made) == 1 else f"; its jobs are {shown}"
