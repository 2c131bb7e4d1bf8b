"""What `tests/api/pod-faults.yaml` says a real API server tells about a pod, it tells."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.kinds import POD, Obj
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.errors import Invalid
from tests.api.test_pod_rules import FAULTS
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster


def test_the_table_of_faulty_pods_is_what_kubernetes_says(bare_plane: ControlPlane) -> None:
    async def ask() -> dict[str, list[str]]:
        client = client_from_files([bare_plane.kubeconfig])
        try:
            return {fault["name"]: await told(client, fault) for fault in FAULTS}
        finally:
            await client.close()

    # Where several amounts are wrong, Kubernetes tells them in any order.
    assert asyncio.run(ask()) == {fault["name"]: sorted(fault["problems"]) for fault in FAULTS}


async def told(client: Client, fault: Obj) -> list[str]:
    metadata = {"name": "faulty", "namespace": "default", **fault.get("metadata", {})}
    try:
        await client.create(POD, {"metadata": metadata, "spec": fault["spec"]})
    except Invalid as error:
        causes = (error.details or {})["causes"]
        return sorted(f"{cause['field']}: {cause['message']}" for cause in causes)
    await client.delete(POD, "faulty", "default", grace_seconds=0)
    return []
