"""A new pod's service account: which one, what it mounts, and what happens when it is not there (yet)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hekla.api.kinds import NAMESPACE, POD, SERVICE_ACCOUNT, Obj
from hekla.errors import Forbidden
from tests.apiserver.rig import Rig, pod, with_server

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def account(name: str, namespace: str = "default", **fields: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def mounts(made: Obj) -> list[str]:
    containers = [*made["spec"].get("initContainers", ()), *made["spec"]["containers"]]
    return [mount["mountPath"] for each in containers for mount in each.get("volumeMounts", ())]


def test_every_container_sees_the_token_of_the_default_account() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod(initContainers=[{"name": "first", "image": "x"}]))
        spec = made["spec"]
        assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
        (volume,) = spec["volumes"]
        assert volume["name"].startswith("kube-api-access-")
        assert len(volume["name"]) == len("kube-api-access-") + 5
        token, authority, namespace = volume["projected"]["sources"]
        assert token == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
        assert authority["configMap"]["name"] == "kube-root-ca.crt"
        assert namespace["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == "metadata.namespace"
        for container in [*spec["initContainers"], *spec["containers"]]:
            assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": PATH}]

    with_server(script)


@pytest.mark.parametrize(
    ("of_pod", "of_account", "mounted"),
    [(None, None, True), (None, False, False), (True, False, True), (False, True, False), (False, None, False)],
)
def test_the_pod_decides_whether_it_gets_a_token_and_its_account_where_the_pod_is_silent(
    of_pod: bool | None, of_account: bool | None, mounted: bool
) -> None:
    async def script(rig: Rig) -> None:
        said = {} if of_account is None else {"automountServiceAccountToken": of_account}
        await rig.client.create(SERVICE_ACCOUNT, account("builder", **said))
        wish = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
        made = await rig.client.create(POD, pod(serviceAccountName="builder", **wish))
        assert bool(mounts(made)) == bool(made["spec"].get("volumes")) == mounted

    with_server(script)


def test_what_a_container_mounts_in_that_place_itself_stays() -> None:
    async def script(rig: Rig) -> None:
        own = pod(volumes=[{"name": "mine", "emptyDir": {}}])
        own["spec"]["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": PATH}]
        made = await rig.client.create(POD, own)
        assert [volume["name"] for volume in made["spec"]["volumes"]] == ["mine"]
        assert made["spec"]["containers"][0]["volumeMounts"] == [{"name": "mine", "mountPath": PATH}]

    with_server(script)


def test_an_account_brings_its_pull_secrets_to_pods_that_name_none() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE_ACCOUNT, account("puller", imagePullSecrets=[{"name": "registry"}]))
        given = await rig.client.create(POD, pod("a", serviceAccountName="puller"))
        own = await rig.client.create(POD, pod("b", serviceAccountName="puller", imagePullSecrets=[{"name": "mine"}]))
        assert given["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        assert own["spec"]["imagePullSecrets"] == [{"name": "mine"}]

    with_server(script)


def test_a_pod_of_an_unknown_account_is_refused_at_once() -> None:
    async def script(rig: Rig) -> float:
        began = rig.clock.monotonic()
        with pytest.raises(Forbidden) as refused:
            await rig.client.create(POD, pod(serviceAccountName="nobody"))
        assert str(refused.value) == (
            'pods "p" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found'
        )
        return rig.clock.monotonic() - began

    assert with_server(script) < 1.0


def test_a_pod_of_a_new_namespace_waits_until_the_namespace_has_its_account() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "young"}})
        wish = {**pod(), "metadata": {"name": "p", "namespace": "young"}}
        creating = asyncio.create_task(rig.client.create(POD, wish))
        await asyncio.sleep(2)
        await rig.client.create(SERVICE_ACCOUNT, account("unrelated", "young"))
        assert not creating.done()
        await rig.client.create(SERVICE_ACCOUNT, account("default", "young"))
        assert (await creating)["spec"]["serviceAccountName"] == "default"

    with_server(script)


def test_it_does_not_wait_for_ever() -> None:
    async def script(rig: Rig) -> list[float]:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "young"}})
        wish = {**pod(), "metadata": {"name": "p", "namespace": "young"}}
        waited = []
        for _ in range(2):
            began = rig.clock.monotonic()
            with pytest.raises(Forbidden, match='serviceaccount "default" not found'):
                await rig.client.create(POD, wish)
            waited.append(rig.clock.monotonic() - began)
        return waited

    first, second = with_server(script)
    assert 8 < first <= 10
    assert second < 1, "the namespace is not new any more"
