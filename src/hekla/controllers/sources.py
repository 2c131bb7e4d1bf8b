"""The local copies the controllers work from, one informer a kind, shared by all of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from typing import Any, TypedDict

from hekla.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    CRON_JOB,
    JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    NETWORK_POLICY,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    SERVICE,
    Kind,
    Obj,
)
from hekla.api.meta import controller_of, labels_of, namespace_of
from hekla.client.informer import Informer
from hekla.client.rest import Client
from hekla.controllers.belongings import Belongings
from hekla.controllers.targets import TARGET, target_places

BARE_OWNER = "bare owner"
QUEUE_INDEX = "queue"
FLOW = "flow"
CRON = "cron"
TEMPLATE = "template"
CREATED_BY_TEMPLATE = "volcano.sh/createdByJobTemplate"


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    generation: int
    creationTimestamp: str | None
    deletionTimestamp: str | None
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    ownerReferences: list[Obj] | None


class WrittenView(TypedDict, total=False):
    """A Job or a PodGroup without what servers note in its metadata for themselves: who wrote which field."""

    apiVersion: str
    kind: str
    metadata: _Metadata
    spec: Any
    status: Any


class _Revision(TypedDict, total=False):
    resourceVersion: str


class RevisionView(TypedDict, total=False):
    """Of what was just written: as of when it is. What it is, its writer knows."""

    metadata: _Revision


class StatusView(TypedDict, total=False):
    """Of a Job whose status was just written: that, and as of when it is."""

    metadata: _Revision
    status: Any


class _Container(TypedDict, total=False):
    resources: Any
    restartPolicy: str


class _PodSpec(TypedDict, total=False):
    nodeName: str
    schedulerName: str
    priorityClassName: str
    containers: list[_Container]
    initContainers: list[_Container] | None
    overhead: Any
    resources: Any


class _PodStatus(TypedDict, total=False):
    phase: str
    containerStatuses: Any
    initContainerStatuses: Any


class PodView(TypedDict, total=False):
    """What controllers look at in a pod: of tens of thousands of pods, the rest is not kept."""

    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus


class Sources:
    def __init__(self, client: Client, rng: random.Random) -> None:
        owners = {FLOW: partial(_owner_of, JOB_FLOW), CRON: partial(_owner_of, CRON_JOB)}
        self.jobs = Informer(client, JOB, indexers={**owners, TEMPLATE: _template}, view=WrittenView, rng=rng)
        self.pods = Informer(client, POD, indexers={BARE_OWNER: _other_owner}, view=PodView, rng=rng)
        self.groups = Informer(client, POD_GROUP, indexers={QUEUE_INDEX: _queue}, view=WrittenView, rng=rng)
        self.commands = Informer(client, COMMAND, indexers={TARGET: target_places}, rng=rng)
        self.queues = Informer(client, QUEUE, rng=rng)
        self.priorities = Informer(client, PRIORITY_CLASS, rng=rng)
        self.flows = Informer(client, JOB_FLOW, rng=rng)
        self.templates = Informer(client, JOB_TEMPLATE, rng=rng)
        self.cron_jobs = Informer(client, CRON_JOB, rng=rng)
        # Nobody waits until these have been listed: what is missing then is made when its Job is first looked at.
        self.belongings = [Belongings(client, kind, rng) for kind in (SERVICE, CONFIG_MAP, NETWORK_POLICY)]

    def __iter__(self) -> Iterator[Informer]:
        work = (self.jobs, self.pods, self.groups, self.commands)
        return iter((*work, self.queues, self.priorities, self.flows, self.templates, self.cron_jobs))

    async def synced(self) -> None:
        await asyncio.gather(*(informer.synced() for informer in self))


def owned_in(namespace: str, uid: str) -> str:
    """Under which an index has what an owner controls: who is of another namespace only claims to be owned."""
    return f"{namespace}/{uid}"


def _other_owner(obj: Obj) -> Iterator[str]:
    owner = controller_of(obj)
    if owner is not None and not JOB.owns_reference(owner):
        yield owned_in(namespace_of(obj), owner["uid"])


def _owner_of(kind: Kind, obj: Obj) -> Iterator[str]:
    owner = controller_of(obj)
    if owner is not None and kind.owns_reference(owner):
        yield owned_in(namespace_of(obj), owner["uid"])


def _template(obj: Obj) -> Iterator[str]:
    made_by = labels_of(obj).get(CREATED_BY_TEMPLATE)
    if made_by:
        yield made_by


def _queue(group: Obj) -> Iterator[str]:
    yield str((group.get("spec") or {}).get("queue") or "")
