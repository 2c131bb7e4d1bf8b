"""A real kube-apiserver binds pods one by one and may refuse some of a gang: it is completed or undone, never half."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvloop

from hekla.api import kinds
from hekla.api.batches import Binding
from hekla.api.kinds import POD, Kind
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.errors import ApiError
from hekla.scheduler import scheduler
from hekla.scheduler.trial.objects import group_object, node_object, pod_object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.scene import wipe
from tests.eventually import until
from tests.scheduler.replay import NAMESPACE

pytestmark = pytest.mark.cluster

POLICY = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
POLICY_BINDING = Kind(
    POLICY.group, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
MEMBERS = ["a-t-0", "a-t-1", "a-t-2"]
SETTINGS = scheduler.SchedulerSettings(torn_seconds=3.0)


def test_a_gang_with_a_member_nobody_lets_in_is_undone_and_bound_once_it_may(bare_plane: ControlPlane) -> None:
    async def main() -> None:
        async with client_from_files([bare_plane.kubeconfig]) as client:
            await wipe(client)
            await refuse_binding(client, "a-t-1")
            await set_stage(client)
            async with scheduling(bare_plane):
                await until(lambda: are_leaving(client, ["a-t-0", "a-t-2"]))
                await make_again(client, ["a-t-0", "a-t-2"])
                await until(lambda: is_told(client, "a-t-0", "the gang is not bound without a-t-1"))
                assert await bound(client) == []
                await let_bind(client)
                await until(lambda: are_bound(client))

    uvloop.run(main())


async def set_stage(client: Client) -> None:
    node = await client.create(kinds.NODE, node_object({"name": "n1", "cpu": 8}))
    await client.update_status(kinds.NODE, {**node, "status": node_object({"name": "n1", "cpu": 8})["status"]})
    group = {"apiVersion": kinds.POD_GROUP.api_version, **group_object({"name": "a", "min": 3})}
    group["metadata"]["namespace"] = NAMESPACE
    await client.create(kinds.POD_GROUP, group)
    for name in MEMBERS:
        await make(client, name)


async def make(client: Client, name: str) -> None:
    pod = pod_object({"name": name, "cpu": 1}, "a")
    pod["metadata"] |= {"namespace": NAMESPACE, "ownerReferences": [OWNER]}
    pod["spec"]["containers"][0]["image"] = "any"
    await client.create(POD, pod)


async def make_again(client: Client, names: list[str]) -> None:
    """What kubelet and Job controller do about deleted pods."""
    for name in names:
        await client.delete(POD, name, NAMESPACE, grace_seconds=0)
        await make(client, name)


@contextlib.asynccontextmanager
async def scheduling(plane: ControlPlane) -> AsyncIterator[None]:
    async with client_from_files([plane.kubeconfig]) as client:
        task = asyncio.create_task(scheduler.run(client, clock=SystemClock(), rng=random.Random(1), settings=SETTINGS))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def refuse_binding(client: Client, pod: str) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    validation = {"expression": f"object.metadata.name != '{pod}'", "message": f"{pod} is not let in"}
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    await client.create(POLICY, _named(POLICY, policy))
    await client.create(
        POLICY_BINDING, _named(POLICY_BINDING, {"policyName": "keep-out", "validationActions": ["Deny"]})
    )
    await make(client, pod)
    await until(lambda: _is_denied(client, pod))
    await client.delete(POD, pod, NAMESPACE, grace_seconds=0)


async def let_bind(client: Client) -> None:
    for kind in (POLICY_BINDING, POLICY):
        await client.delete(kind, "keep-out")


async def _is_denied(client: Client, pod: str) -> bool:
    found = await client.get(POD, pod, NAMESPACE)
    (answer,) = await client.rehearse_bindings([Binding(NAMESPACE, pod, "n1", found["metadata"]["uid"])])
    return isinstance(answer, ApiError) and "is not let in" in str(answer)


def _named(kind: Kind, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "keep-out"}, "spec": spec}


async def bound(client: Client) -> list[str]:
    pods = (await client.list(POD, NAMESPACE)).items
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


async def are_bound(client: Client) -> bool:
    return await bound(client) == MEMBERS


async def are_leaving(client: Client, names: list[str]) -> bool:
    pods = (await client.list(POD, NAMESPACE)).items
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]] == names


async def is_told(client: Client, name: str, text: str) -> bool:
    pod = await client.get(POD, name, NAMESPACE)
    return any(text in item.get("message", "") for item in pod["status"].get("conditions") or ())
