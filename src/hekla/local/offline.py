"""An API server in this process, on a memory store: what a cluster would say to an object, with no cluster at hand."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hekla.admission.review import VolcanoAdmission
from hekla.api.kinds import JOB, NAMESPACE, POD, QUEUE, SERVICE_ACCOUNT, Kind, Obj
from hekla.api.scheduling import DEFAULT_QUEUE, QueueState
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.errors import AlreadyExists, Invalid
from hekla.local.bootstrap import install_crds


@asynccontextmanager
async def offline_cluster(on_warning: Callable[[str], None]) -> AsyncIterator[Client]:
    """A server that holds the CRDs and the default queue, and nothing that acts on what it is given."""
    clock = SystemClock()
    app = build_app(MemoryStore(clock), clock=clock, rng=random.Random(), admission=VolcanoAdmission)
    await app.start()
    async with Client(InProcessTransport(app), user_agent="hekla", on_warning=on_warning) as client:
        await install_crds(client)
        await open_queue(client, DEFAULT_QUEUE)
        yield client


async def take_for_granted(client: Client, kind: Kind, obj: Obj) -> None:
    """Make what a file may count on: its namespace, the queues its jobs name, the service accounts of its pods.

    `obj` is as somebody wrote it: nothing about its shape is certain.
    """
    namespace = obj["metadata"].get("namespace")
    if kind.namespaced and isinstance(namespace, str) and namespace:
        await ensure_namespace(client, namespace)
    spec = obj["spec"] if isinstance(obj.get("spec"), dict) else {}
    account = spec.get("serviceAccountName") if kind is POD else None
    if kind is POD and isinstance(namespace or "", str) and isinstance(account or "", str):
        await ensure_account(client, namespace or "default", account or "default")
    queue = spec.get("queue")
    if kind is JOB and isinstance(queue, str) and queue:
        await open_queue(client, queue)


async def open_queue(client: Client, name: str) -> None:
    """A queue that takes jobs, as its controller would have made it; one that is there is opened."""
    queue = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": name}, "spec": {"weight": 1}}
    try:
        made = await client.create(QUEUE, queue)
    except AlreadyExists:
        made = await client.get(QUEUE, name)
    except Invalid:
        return  # what is wrong with its name is told of who names it
    await client.update_status(QUEUE, {**made, "status": {"state": QueueState.OPEN}})


async def ensure_namespace(client: Client, name: str) -> None:
    namespace = {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": {"name": name}}
    if await client.find(NAMESPACE, name) is None:
        await client.create(NAMESPACE, namespace)


async def ensure_account(client: Client, namespace: str, name: str) -> None:
    account = {"apiVersion": SERVICE_ACCOUNT.api_version, "kind": SERVICE_ACCOUNT.kind}
    try:
        await client.create(SERVICE_ACCOUNT, {**account, "metadata": {"name": name, "namespace": namespace}})
    except (AlreadyExists, Invalid):
        return  # here, too
