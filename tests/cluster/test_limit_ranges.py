"""What a real kube-apiserver gives to pods and keeps from them: the cases our own server is held to."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.kinds import LIMIT_RANGE, kind_of
from hekla.client.kubeconfig import client_from_files
from tests.apiserver.limit_range_cases import CASES, Case, limit_range, shape
from tests.apiserver.quota_cases import tell
from tests.cluster.control_plane import ControlPlane
from tests.cluster.test_quotas import furnish

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_server_completes_and_refuses_the_same(case: Case, control_plane: ControlPlane) -> None:
    async def ask() -> None:
        async with client_from_files([control_plane.kubeconfig]) as client:
            namespace, kind, name = (
                f"range-{case.name}"[:63].rstrip("-"),
                kind_of(case.obj),
                case.obj["metadata"]["name"],
            )
            assert kind is not None
            await furnish(client, namespace)
            wish = limit_range(case.limits)
            await client.create(LIMIT_RANGE, {**wish, "metadata": {**wish["metadata"], "namespace": namespace}})
            assert await tell(client, case.obj, namespace) == case.told
            if not case.told:
                made = await client.get(kind, name, namespace)
                assert shape(made) == (case.note, case.resources)

    asyncio.run(ask())
