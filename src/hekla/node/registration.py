"""The Node object: what the machine offers, that it is alive, and where its logs are to be had.

Alive means a Lease renewed every ten seconds, as kubelets do; the object itself is written when something changed and
every five minutes.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hekla.api.core import HOSTNAME_LABEL, NODE_NOTES
from hekla.api.devices import GPU_RESOURCES, declared_gpus
from hekla.api.kinds import LEASE, NAMESPACE, NODE, Obj
from hekla.api.meta import micro_timestamp, timestamp, uid_of
from hekla.api.quantity import canonical
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.errors import AlreadyExists, ApiError, Conflict, Disconnected, NotFound
from hekla.log import get_logger
from hekla.node.settings import NodeSettings
from hekla.node.status import HOST_ADDRESS

log = get_logger("node")

_LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
_STATUS_SECONDS = 300.0
_FIRST_RETRY = 0.2
_LONGEST_RETRY = 10.0
_OURS = ("labels", "annotations")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def capacity(settings: NodeSettings) -> dict[str, str]:
    """What pods may ask for: what the settings say, else what the machine has."""
    amounts = {
        "cpu": canonical(settings.cpu or str(len(os.sched_getaffinity(0)))),
        "memory": canonical(settings.memory or f"{_machine_memory_kib()}Ki"),
        "pods": str(settings.pods),
        "ephemeral-storage": f"{_disk_kib(settings.data_dir)}Ki",
    }
    return {**amounts, **declared_gpus(settings.gpus, settings.gpu_memory)}


class Registration:
    def __init__(
        self, client: Client, settings: NodeSettings, *, clock: Clock, port: int | None, notes: Sequence[str] = ()
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._port = port
        self._notes = notes
        self._amounts = capacity(settings)
        self._lease = NodeLease(client, settings.name, clock)

    async def register(self) -> None:
        """Return when the Node object is there and Ready; retries until then."""
        delay = _FIRST_RETRY
        while True:
            try:
                # What an agent before us declared under another name would stay beside ours.
                await self._write_node({**dict.fromkeys(GPU_RESOURCES), **self._amounts})
                return
            except (ApiError, Disconnected) as error:
                log.warning("node not registered yet", node=self._settings.name, error=error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY)

    async def run(self) -> None:
        """Stay alive in the cluster's eyes until cancelled."""
        since_status = 0.0
        while True:
            try:
                await self._renew_lease()
                if since_status >= _STATUS_SECONDS:
                    await self._write_node(self._amounts)
                    since_status = 0.0
            except (ApiError, Disconnected) as error:
                log.warning("heartbeat failed", node=self._settings.name, error=error)
            await asyncio.sleep(RENEW_SECONDS)
            since_status += RENEW_SECONDS

    async def _write_node(self, amounts: Mapping[str, str | None]) -> None:
        wanted = node_object(self._settings, self._notes)
        found = await self._client.find(NODE, self._settings.name)
        if found is None:
            try:
                found = await self._client.create(NODE, wanted)
            except AlreadyExists:
                found = await self._client.get(NODE, self._settings.name)
        if any(not (found["metadata"].get(key) or {}).items() >= wanted["metadata"][key].items() for key in _OURS):
            patch = {"metadata": {key: wanted["metadata"][key] for key in _OURS}}
            found = await self._client.patch(NODE, self._settings.name, patch)
        status = node_status(found, amounts, self._settings.name, self._port, timestamp(self._clock.now()))
        await self._client.patch(NODE, self._settings.name, {"status": status}, subresource="status")

    async def _renew_lease(self) -> None:
        try:
            await self._lease.renew()
        except NotFound:
            await self._write_node(self._amounts)


class NodeLease:
    """The sign of life a cluster waits for, between two writes of the Node object."""

    def __init__(self, client: Client, name: str, clock: Clock) -> None:
        self._client = client
        self._name = name
        self._clock = clock

    async def renew(self) -> None:
        """Raises NotFound when the Node object is gone."""
        now = micro_timestamp(self._clock.now())
        patch = {"spec": {"renewTime": now, "holderIdentity": self._name}}
        try:
            await self._client.patch(LEASE, self._name, patch, _LEASE_NAMESPACE)
        except NotFound:
            await self._create(now)

    async def _create(self, now: str) -> None:
        node = await self._client.get(NODE, self._name)
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": uid_of(node)}
        lease = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": _LEASE_NAMESPACE, "ownerReferences": [owner]},
            "spec": {"holderIdentity": self._name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": now},
        }
        try:
            await self._client.create(LEASE, lease)
        except NotFound:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _LEASE_NAMESPACE}}
            await self._client.create(NAMESPACE, namespace)
            await self._client.create(LEASE, lease)
        except (AlreadyExists, Conflict):
            pass


def node_object(settings: NodeSettings, notes: Sequence[str] = ()) -> Obj:
    labels = {
        HOSTNAME_LABEL: settings.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
        **settings.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": settings.name, "labels": labels, "annotations": {NODE_NOTES: "\n".join(notes)}},
        "spec": {},
    }


def node_status(found: Obj, amounts: Mapping[str, str | None], name: str, port: int | None, now: str) -> Obj:
    old = {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}
    status: dict[str, Any] = {
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": [{"type": "InternalIP", "address": HOST_ADDRESS}, {"type": "Hostname", "address": name}],
        "conditions": [
            _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", old, now),
            _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", old, now),
            _condition("PIDPressure", "False", "KubeletHasSufficientPID", old, now),
            _condition("Ready", "True", "KubeletReady", old, now),
        ],
        "nodeInfo": {
            "architecture": _architecture(),
            "operatingSystem": "linux",
            "kernelVersion": platform.release(),
            "osImage": _os_image(),
            "containerRuntimeVersion": "hekla://1",
            "kubeletVersion": "v1.36.0-hekla",
            "kubeProxyVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }
    if port is not None:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
        # Without this an API server translates exec sessions to SPDY, which we do not speak.
        status["declaredFeatures"] = ["ExtendWebSocketsToKubelet"]
    return status


def _condition(type_: str, status: str, reason: str, old: dict[str, Obj], now: str) -> Obj:
    before = old.get(type_) or {}
    since = before.get("lastTransitionTime") if before.get("status") == status else now
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "",
        "lastHeartbeatTime": now,
        "lastTransitionTime": since or now,
    }


def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _machine_memory_kib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    return 0


def _disk_kib(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize // 1024
