"""What a real kube-apiserver lets in, refuses and counts under a quota: the cases our own server is held to."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from hekla.api.kinds import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from tests.apiserver.quota_cases import CASES, Case, status, tell
from tests.cluster.control_plane import ControlPlane
from tests.eventually import until

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_server_lets_in_refuses_and_counts_the_same(case: Case, control_plane: ControlPlane) -> None:
    async def ask() -> list[str]:
        async with client_from_files([control_plane.kubeconfig]) as client:
            namespace = f"quota-{case.name}"
            await furnish(client, namespace)
            await tell(client, case.quota, namespace)
            await until(lambda: is_counted(client, namespace, len(case.used)), what="the quota is in force")
            told = [await tell(client, obj, namespace) for obj, _ in case.steps]
            await until(lambda: has_used(client, namespace, case.used), what=f"{case.used} is used", seconds=60)
            return told

    assert asyncio.run(ask()) == [told for _, told in case.steps]


async def furnish(client: Client, namespace: str) -> None:
    """A namespace of the test's own, with all that every namespace is given."""
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for kind, name in ((SERVICE_ACCOUNT, "default"), (CONFIG_MAP, "kube-root-ca.crt")):
        await until(partial(client.find, kind, name, namespace), what=f"{name} is there")


async def is_counted(client: Client, namespace: str, names: int) -> bool:
    return len((await status(client, namespace)).get("used") or {}) == names


async def has_used(client: Client, namespace: str, used: dict[str, str]) -> bool:
    return bool((await status(client, namespace)).get("used") == used)
