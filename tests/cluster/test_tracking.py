"""A real kube-apiserver records who wrote which field of a PodGroup, at a cost: kept where somebody may apply it."""

from __future__ import annotations

import pytest
import uvloop

from hekla.api.kinds import POD_GROUP, Obj
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.scheduler.trial.objects import group_object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.scene import wipe
from tests.cluster.test_torn_gang import OWNER, scheduling
from tests.eventually import until
from tests.scheduler.replay import NAMESPACE

pytestmark = pytest.mark.cluster


def test_the_record_goes_from_what_a_controller_made_and_stays_on_what_a_person_did(bare_plane: ControlPlane) -> None:
    async def main() -> None:
        async with client_from_files([bare_plane.kubeconfig]) as client:
            await wipe(client)
            await make_group(client, "of-a-job", [OWNER])
            await make_group(client, "of-a-person", [])
            async with scheduling(bare_plane):
                await until(lambda: have_entered(client))
            assert "managedFields" not in (await group(client, "of-a-job"))["metadata"]
            assert (await group(client, "of-a-person"))["metadata"]["managedFields"]

    uvloop.run(main())


async def make_group(client: Client, name: str, owners: list[Obj]) -> None:
    made = {"apiVersion": POD_GROUP.api_version, **group_object({"name": name, "min": 1, "needs": {}})}
    made["metadata"] |= {"namespace": NAMESPACE, "ownerReferences": owners}
    await client.create(POD_GROUP, made)


async def have_entered(client: Client) -> bool:
    return all([(await group(client, name))["status"]["phase"] == "Inqueue" for name in ("of-a-job", "of-a-person")])


async def group(client: Client, name: str) -> Obj:
    return await client.get(POD_GROUP, name, NAMESPACE)
