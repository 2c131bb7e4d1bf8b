"""EndpointSlices and Endpoints of the local cluster say what kube-controller-manager's say of the same pods."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

from hekla.api.kinds import ENDPOINT_SLICE, ENDPOINTS, NAMESPACE, NODE, POD, SERVICE, Obj
from hekla.api.meta import labels_of, name_of
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from tests.apiserver.rig import Rig
from tests.cluster.control_plane import ControlPlane
from tests.eventually import until
from tests.local.builtins.test_furnishing import QUIET, with_builtins

pytestmark = pytest.mark.cluster

WHERE = "endpoints"
SERVICES: dict[str, Obj] = {
    "plain": {"ports": [{"port": 80}]},
    "named": {
        "ports": [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "d", "port": 53, "protocol": "UDP"}]
    },
    "headless": {"clusterIP": "None"},
    "early": {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": [{"name": "x", "port": 1}]},
    "nobody": {"ports": [{"port": 80}], "selector": {"app": "nothing"}},
}
PODS: dict[str, dict[str, Any]] = {
    "ready": {"spec": {"hostname": "first", "subdomain": "headless"}},
    "waiting": {"ready": False},
    "other-port": {"port": 9090},
    "leaving": {"leaves": True},
    "ended": {"phase": "Succeeded"},
    "new": {"address": ""},
    "stranger": {"labels": {"app": "other"}},
}


async def act(client: Client) -> None:
    await client.create(NAMESPACE, {"metadata": {"name": WHERE}})
    await client.create(NODE, {"metadata": {"name": "n1"}})
    for name, spec in SERVICES.items():
        labels = {"of": name}
        metadata = {"name": name, "namespace": WHERE, "labels": labels}
        await client.create(SERVICE, {"metadata": metadata, "spec": {"selector": {"app": "web"}, **spec}})
    for number, (name, about) in enumerate(PODS.items(), start=1):
        await _run(client, name, f"10.1.0.{number}", **about)


async def _run(
    client: Client,
    name: str,
    address_of_its: str,
    *,
    spec: Obj | None = None,
    labels: dict[str, str] | None = None,
    ready: bool = True,
    port: int = 8080,
    phase: str = "Running",
    address: str | None = None,
    leaves: bool = False,
) -> None:
    container = {"name": "main", "image": "any", "ports": [{"name": "http", "containerPort": port}]}
    metadata = {"name": name, "namespace": WHERE, "labels": labels or {"app": "web"}}
    # Whoever tells of the account is not what is tried here.
    made = {"nodeName": "n1", "automountServiceAccountToken": False, "containers": [container], **(spec or {})}
    await client.create(POD, {"metadata": metadata, "spec": made})
    given = address_of_its if address is None else address
    status: Obj = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    if given:
        status.update(podIP=given, podIPs=[{"ip": given}])
    await client.patch(POD, name, {"status": status}, WHERE, subresource="status")
    if leaves:
        await client.delete(POD, name, WHERE, grace_seconds=600)


async def read(client: Client) -> Obj:
    """What both say, without what differs from server to server."""
    slices = (await client.list(ENDPOINT_SLICE, WHERE)).items
    olds = (await client.list(ENDPOINTS, WHERE)).items
    return {
        "slices": sorted((_slice(one) for one in slices), key=_in_order),
        "endpoints": {name_of(one): _old(one) for one in olds},
    }


def _slice(one: Obj) -> Obj:
    endpoints = [_without_uid(each) for each in one.get("endpoints") or ()]
    return {
        "labels": labels_of(one),
        "type": one["addressType"],
        "ports": sorted(one.get("ports") or [], key=_in_order),
        "endpoints": sorted(endpoints, key=_in_order),
        "owners": [(ref["kind"], ref["name"], ref["controller"]) for ref in one["metadata"]["ownerReferences"]],
    }


def _old(one: Obj) -> Obj:
    subsets = []
    for subset in one.get("subsets") or ():
        told = {key: [_without_uid(each) for each in value] for key, value in subset.items() if key != "ports"}
        subsets.append({**told, "ports": sorted(subset.get("ports") or [], key=_in_order)})
    return {"labels": labels_of(one), "subsets": sorted(subsets, key=_in_order)}


def _in_order(told: Obj) -> str:
    return json.dumps(told, sort_keys=True)


def _without_uid(endpoint: Obj) -> Obj:
    return {**endpoint, "targetRef": {key: value for key, value in endpoint["targetRef"].items() if key != "uid"}}


def ours() -> Obj:
    found: Obj = {}

    async def script(rig: Rig) -> None:
        await asyncio.sleep(QUIET)
        await act(rig.client)
        await asyncio.sleep(QUIET)
        found.update(await read(rig.client))

    with_builtins(script)
    return found


def test_both_tell_the_same_of_the_same_pods(own_plane: ControlPlane) -> None:
    expected = ours()

    async def script() -> None:
        async with client_from_files([own_plane.kubeconfig]) as client:
            await act(client)

            async def is_the_same() -> bool:
                return await read(client) == expected

            with contextlib.suppress(TimeoutError):
                await until(is_the_same)
            assert await read(client) == expected

    asyncio.run(script())
