"""Binding, finalize, logs: what each refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hekla.api.batches import BATCH_PATH, BINDING_BATCH
from hekla.api.kinds import NAMESPACE, POD
from hekla.apiserver.store.store import Key
from hekla.errors import Conflict, Invalid, NotFound
from tests.apiserver.rig import Rig, pod, with_server

PODS = "/api/v1/namespaces/default/pods"


def test_binding_places_the_pod_and_says_so() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        await rig.client.bind("default", "p", "n1", uid=made["metadata"]["uid"], annotations={"a": "b"})
        bound = await rig.client.get(POD, "p", "default")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"] == {"a": "b"}
        assert bound["metadata"]["generation"] == 1
        (condition,) = bound["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")

    with_server(script)


@pytest.mark.parametrize(
    ("annotations", "given", "wanted"), [({"a": 5}, "number", "string"), (["a"], "array", "map[string]string")]
)
def test_what_is_no_annotation_gets_into_no_pod(annotations: Any, given: str, wanted: str) -> None:
    why = f"cannot unmarshal {given} into Go struct field ObjectMeta.metadata.annotations of type {wanted}"

    async def script(rig: Rig) -> None:
        await rig.client.create(POD, pod())
        metadata = {"name": "p", "namespace": "default", "annotations": annotations}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"name": "n1"}}
        alone = await rig.send("POST", f"{PODS}/p/binding", binding)
        among_many = await rig.send("POST", f"{BATCH_PATH}/{BINDING_BATCH.plural}", {"items": [binding]})
        for status, refusal, _ in (alone, among_many):
            assert (status, refusal["message"]) == (
                400,
                f'Binding in version "v1" cannot be handled as a Binding: json: {why}',
            )
        assert "nodeName" not in (await rig.client.get(POD, "p", "default"))["spec"]

    with_server(script)


def test_a_bound_pod_no_longer_waits_for_the_node_it_was_promised() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        await rig.client.update_status(POD, {**made, "status": {**made["status"], "nominatedNodeName": "n1"}})
        await rig.client.bind("default", "p", "n2", uid=made["metadata"]["uid"])
        assert "nominatedNodeName" not in (await rig.client.get(POD, "p", "default"))["status"]

    with_server(script)


def test_a_pod_that_came_in_under_older_rules_is_still_reported_on_and_deleted() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        made["spec"]["containers"][0]["terminationMessagePolicy"] = "Whenever"
        await rig.store.write(Key("/pods", "default", "p"), lambda _: made)
        told = await rig.client.patch(POD, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        assert told["status"]["phase"] == "Succeeded"
        with pytest.raises(Invalid, match="terminationMessagePolicy"):
            await rig.client.patch(POD, "p", {"spec": {"activeDeadlineSeconds": 5}}, "default")
        await rig.client.delete(POD, "p", "default")

    with_server(script)


def test_of_many_binds_at_once_one_wins() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        binds = (rig.client.bind("default", "p", f"n{n}", uid=made["metadata"]["uid"]) for n in range(20))
        results = await asyncio.gather(*binds, return_exceptions=True)
        assert results.count(None) == 1
        assert all(isinstance(each, Conflict) for each in results if each is not None)

    with_server(script)


def test_binding_refuses_pods_that_must_not_be_bound() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        with pytest.raises(Conflict, match="Precondition failed: UID in precondition: other"):
            await rig.client.bind("default", "p", "n", uid="other")
        await rig.client.bind("default", "p", "n", uid=made["metadata"]["uid"])
        with pytest.raises(Conflict, match='pod p is already assigned to node "n"'):
            await rig.client.bind("default", "p", "n", uid="")
        await rig.client.delete(POD, "p", "default")
        with pytest.raises(Conflict, match="pod p is being deleted, cannot be assigned to a host"):
            await rig.client.bind("default", "p", "n", uid="")
        gated = await rig.client.create(POD, pod("g", schedulingGates=[{"name": "a.b/c"}]))
        assert gated["status"]["conditions"][0]["reason"] == "SchedulingGated"
        with pytest.raises(Conflict, match=r"non-empty \.spec\.schedulingGates"):
            await rig.client.bind("default", "g", "n", uid="")
        with pytest.raises(NotFound):
            await rig.client.bind("default", "zz", "n", uid="")

    with_server(script)


def test_a_deleted_namespace_goes_with_its_last_finalizer() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "n"}})
        await rig.client.delete(NAMESPACE, "n")
        assert await rig.client.find(NAMESPACE, "n") is not None
        empty = {"metadata": {"name": "n"}, "spec": {"finalizers": []}}
        assert (await rig.send("PUT", "/api/v1/namespaces/n/finalize", empty))[0] == 200
        assert await rig.client.find(NAMESPACE, "n") is None

    with_server(script)


def test_logs_that_cannot_be_had_are_explained() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        assert (await rig.send("GET", f"{PODS}/p/log"))[0] == 204
        status, answer, _ = await rig.send("GET", f"{PODS}/p/log?container=other")
        assert (status, answer["message"]) == (400, "container other is not valid for pod p")
        await rig.client.bind("default", "p", "n1", uid=made["metadata"]["uid"])
        assert (await rig.send("GET", f"{PODS}/p/log"))[0] == 404
        await rig.send("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
        waiting = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
        patch = {"status": {"containerStatuses": [waiting]}}
        await rig.client.patch(POD, "p", patch, "default", subresource="status")
        status, answer, _ = await rig.send("GET", f"{PODS}/p/log")
        assert status == 400
        assert answer["message"] == 'container "main" in pod "p" is waiting to start: ContainerCreating'

    with_server(script)
