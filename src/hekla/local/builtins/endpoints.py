"""Keeps the EndpointSlices and Endpoints of every Service that selects pods.

Pods find each other without them (names and rules of the network are made from Services and pods); people, and programs
that look for what is behind a Service, read them here. Pods are followed from the first Service on that selects some.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from functools import partial
from typing import Any, TypedDict

from hekla.api.kinds import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE, Obj
from hekla.api.meta import (
    Key,
    controller_of,
    is_deleting,
    is_owned_by,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    revision_of,
    uid_of,
)
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import NotFound
from hekla.local.builtins.endpoint_lists import (
    MANAGED_BY,
    MANAGER,
    SERVICE_NAME,
    has_endpoints,
    legacy_endpoints,
    plan_slices,
)
from hekla.local.builtins.working import work
from hekla.log import get_logger

log = get_logger("endpoints")

_BY_LABEL = "label"
_BY_SELECTOR = "selector"
_BY_SERVICE = "service"
# The pods of a gang start together: what they change is written once. The more there are, the more a look costs.
_PAUSE_SECONDS = 0.2
_PAUSE_PER_SLICE = 0.05
_SEEN_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = 1.0


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    deletionTimestamp: str | None
    labels: dict[str, str] | None


class _Container(TypedDict, total=False):
    ports: list[Any] | None
    restartPolicy: str


class _Spec(TypedDict, total=False):
    hostname: str
    subdomain: str
    nodeName: str
    containers: list[_Container] | None
    initContainers: list[_Container] | None


class _Condition(TypedDict, total=False):
    type: str
    status: str


class _Status(TypedDict, total=False):
    phase: str
    podIP: str
    podIPs: list[Any] | None
    conditions: list[_Condition] | None


class _PodView(TypedDict, total=False):
    """What of a pod its endpoints tell."""

    metadata: _Metadata
    spec: _Spec
    status: _Status


class EndpointController:
    def __init__(self, client: Client, *, rng: random.Random) -> None:
        self._client = client
        self._rng = rng
        self._services = Informer(client, SERVICE, rng=rng, indexers={_BY_SELECTOR: _selector_of})
        self._slices = Informer(
            client, ENDPOINT_SLICE, rng=rng, label_selector=f"{MANAGED_BY}={MANAGER}", indexers={_BY_SERVICE: _owner_of}
        )
        self._queue: WorkQueue[Key] = WorkQueue()
        self._pods: Informer | None = None

    async def run(self) -> None:
        informers = (self._services, self._slices)
        try:
            async with asyncio.TaskGroup() as group:
                for informer in informers:
                    group.create_task(informer.run())
                for informer in informers:
                    await informer.synced()
                self._services.subscribe(lambda update: self._queue.add(key_of(update.obj)))
                self._slices.subscribe(self._observe_slice)
                await work(self._queue, partial(self._reconcile, group), log)
        finally:
            self._queue.close()

    def _observe_pod(self, update: Update) -> None:
        if update.old is not None and update.new is not None and _told_of(update.old) == _told_of(update.new):
            return
        for pod in filter(None, (update.old, update.new)):
            for service in self._services_of(pod):
                slices = self._slices.count(_BY_SERVICE, _place(service))
                self._queue.add_after(key_of(service), _PAUSE_SECONDS + _PAUSE_PER_SLICE * slices)

    def _observe_slice(self, update: Update) -> None:
        service = labels_of(update.obj).get(SERVICE_NAME)
        if service and (update.new is None or update.old is None):
            self._queue.add_after(Key(namespace_of(update.obj), service), _PAUSE_SECONDS)

    def _services_of(self, pod: Obj) -> Iterable[Obj]:
        labels = labels_of(pod).items()
        for value in _labels_of(pod):
            for service in self._services.by_index(_BY_SELECTOR, value):
                if service["spec"]["selector"].items() <= labels:
                    yield service

    async def _reconcile(self, group: asyncio.TaskGroup, key: Key) -> None:
        service = self._services.get(key.name, key.namespace)
        if service is None or is_deleting(service) or not has_endpoints(service):
            # What there is goes with the Service, which owns it; without a selector it is up to others.
            return
        known = self._follow_pods(group)
        await known.synced()
        pods = _selected(known, service)
        await self._write_slices(service, pods)
        await self._write_endpoints(service, legacy_endpoints(service, pods))

    def _follow_pods(self, group: asyncio.TaskGroup) -> Informer:
        if self._pods is None:
            pods = Informer(self._client, POD, rng=self._rng, view=_PodView, indexers={_BY_LABEL: _labels_of})
            pods.subscribe(self._observe_pod)
            group.create_task(pods.run())
            self._pods = pods
        return self._pods

    async def _write_slices(self, service: Obj, pods: list[Obj]) -> None:
        existing = self._slices.by_index(_BY_SERVICE, _place(service))
        owned = [one for one in existing if is_owned_by(one, service)]
        plan = plan_slices(service, pods, sorted(owned, key=name_of))
        newest = 0
        for wanted in plan.created:
            newest = max(newest, revision_of(await self._client.create(ENDPOINT_SLICE, wanted)))
        for wanted in plan.changed:
            newest = max(newest, revision_of(await self._client.update(ENDPOINT_SLICE, wanted)))
        for one in plan.surplus:
            try:
                await self._client.delete(ENDPOINT_SLICE, name_of(one), namespace_of(one), uid=uid_of(one))
            except NotFound:
                pass
        # The next look must know what this one has made.
        await self._slices.wait_for(newest, _SEEN_SECONDS)

    async def _write_endpoints(self, service: Obj, wanted: Obj) -> None:
        found = await self._client.find(ENDPOINTS, name_of(wanted), namespace_of(wanted))
        if found is None:
            await self._client.create(ENDPOINTS, wanted)
        elif not is_owned_by(found, service):
            # An earlier Service's go with it, and these are made then. Somebody's own stay.
            if controller_of(found) is not None:
                self._queue.add_after(key_of(service), _LOOK_AGAIN_SECONDS)
        elif (found.get("subsets") or []) != wanted["subsets"] or labels_of(found) != labels_of(wanted):
            fence = {"uid": uid_of(found), "resourceVersion": found["metadata"]["resourceVersion"]}
            await self._client.update(ENDPOINTS, {**wanted, "metadata": {**wanted["metadata"], **fence}})


def _selected(pods: Informer, service: Obj) -> list[Obj]:
    selector = service["spec"]["selector"]
    candidates = pods.by_index(_BY_LABEL, next(iter(_selector_of(service))))
    return [pod for pod in candidates if selector.items() <= labels_of(pod).items()]


def _selector_of(service: Obj) -> Iterable[str]:
    """One of what it selects by, the last in the order of their names: enough to find it again."""
    if has_endpoints(service):
        name, value = max(service["spec"]["selector"].items())
        yield f"{namespace_of(service)}/{name}={value}"


def _labels_of(pod: Obj) -> list[str]:
    return [f"{namespace_of(pod)}/{name}={value}" for name, value in labels_of(pod).items()]


def _owner_of(one: Obj) -> Iterable[str]:
    yield f"{namespace_of(one)}/{labels_of(one).get(SERVICE_NAME, '')}"


def _place(service: Obj) -> str:
    return f"{namespace_of(service)}/{name_of(service)}"


def _told_of(pod: Obj) -> tuple[object, ...]:
    return labels_of(pod), is_deleting(pod), pod.get("spec"), pod.get("status")
