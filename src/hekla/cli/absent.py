"""The job a person names, and what they may have meant when there is none of that name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from hekla.api.batch import JOB_NAME
from hekla.api.kinds import JOB, POD, Obj
from hekla.api.meta import labels_of, name_of, namespace_of
from hekla.client.rest import Client
from hekla.errors import Forbidden, UsageError


async def require_job(client: Client, name: str, namespace: str) -> Obj:
    found = await client.find(JOB, name, namespace)
    if found is None:
        pod = await client.find(POD, name, namespace)
        raise UsageError(f"no job {name!r} in namespace {namespace}{meant(name, namespace, pod, await _jobs(client))}")
    return found


async def _jobs(client: Client) -> list[Obj]:
    try:
        return (await client.list(JOB)).items
    except Forbidden:
        return []  # nothing to say about other people's, then


def meant(name: str, namespace: str, pod: Obj | None, jobs: Sequence[Obj]) -> str:
    """What to add to the news; empty when nothing comes to mind."""
    owner = labels_of(pod).get(JOB_NAME) if pod is not None else None
    if owner:
        return f": that is a pod of job {owner!r}"
    elsewhere = [namespace_of(job) for job in jobs if name_of(job) == name]
    if elsewhere:
        return f", but in {', '.join(sorted(elsewhere))}: say which with -n"
    close = difflib.get_close_matches(name, [name_of(job) for job in jobs if namespace_of(job) == namespace], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
