"""What is behind a Service can be read, and stays right while pods come, get ready and go."""

from __future__ import annotations

import asyncio
from typing import Any

from hekla.api.kinds import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE, Obj
from hekla.api.meta import labels_of, name_of
from tests.apiserver.rig import Rig, pod
from tests.local.builtins.test_furnishing import QUIET, with_builtins

APP = {"app": "web"}


def service(name: str = "web", **spec: Any) -> Obj:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": APP, "ports": ports, **spec}}


async def run_pod(rig: Rig, name: str, address: str, *, port: int = 8080, ready: bool = True, **spec: Any) -> None:
    made = pod(name, **spec)
    made["metadata"]["labels"] = APP
    made["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": port}]
    await rig.client.create(POD, made)
    await tell(rig, name, address, ready=ready)


async def tell(rig: Rig, name: str, address: str, *, ready: bool, phase: str = "Running") -> None:
    condition = {"type": "Ready", "status": str(ready)}
    status = {"phase": phase, "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}
    await rig.client.patch(POD, name, {"status": status}, "default", subresource="status")


async def settled(rig: Rig, of: str = "web") -> list[Obj]:
    await asyncio.sleep(QUIET)
    found = (await rig.client.list(ENDPOINT_SLICE, "default")).items
    return sorted((one for one in found if labels_of(one)["kubernetes.io/service-name"] == of), key=name_of)


def told(slices: list[Obj]) -> dict[str, bool]:
    """Whether each address is ready."""
    return {one["addresses"][0]: one["conditions"]["ready"] for each in slices for one in each.get("endpoints") or ()}


def test_a_service_tells_of_its_pods_and_of_no_others() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service())
        await run_pod(rig, "a", "10.1.0.1", nodeName="n1")
        await run_pod(rig, "b", "10.1.0.2", ready=False)
        await rig.client.create(POD, pod("other"))
        await tell(rig, "other", "10.1.0.9", ready=True)
        (one,) = await settled(rig)
        assert told([one]) == {"10.1.0.1": True, "10.1.0.2": False}
        assert one["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert one["endpoints"][0]["nodeName"] == "n1"
        assert one["endpoints"][0]["targetRef"]["name"] == "a"
        old = await rig.client.get(ENDPOINTS, "web", "default")
        (subset,) = old["subsets"]
        assert [one["ip"] for one in subset["addresses"]] == ["10.1.0.1"]
        assert [one["ip"] for one in subset["notReadyAddresses"]] == ["10.1.0.2"]

    with_builtins(script)


def test_it_follows_pods_that_get_ready_end_and_go() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service())
        for number in (1, 2, 3):
            await run_pod(rig, f"p{number}", f"10.1.0.{number}", ready=False)
        (first,) = await settled(rig)
        await tell(rig, "p1", "10.1.0.1", ready=True)
        await tell(rig, "p2", "10.1.0.2", ready=False, phase="Succeeded")
        await rig.client.delete(POD, "p3", "default", grace_seconds=0)
        (after,) = await settled(rig)
        assert told([after]) == {"10.1.0.1": True}
        assert name_of(after) == name_of(first)
        await rig.client.delete(POD, "p1", "default", grace_seconds=0)
        (empty,) = await settled(rig)
        assert told([empty]) == {}
        assert not (await rig.client.get(ENDPOINTS, "web", "default")).get("subsets")

    with_builtins(script)


def test_a_pod_that_is_leaving_serves_on_and_is_not_ready() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service())
        await rig.client.create(SERVICE, service("all", publishNotReadyAddresses=True))
        await run_pod(rig, "a", "10.1.0.1", nodeName="n1")
        await rig.client.delete(POD, "a", "default", grace_seconds=3000)
        ((one,), (other,)) = await settled(rig), await settled(rig, "all")
        assert one["endpoints"][0]["conditions"] == {"ready": False, "serving": True, "terminating": True}
        assert other["endpoints"][0]["conditions"] == {"ready": True, "serving": True, "terminating": True}

    with_builtins(script)


def test_names_of_a_gang_are_told_with_their_hosts() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service(clusterIP="None", ports=[]))
        await run_pod(rig, "a", "10.1.0.1", hostname="gang-worker-0", subdomain="web")
        await run_pod(rig, "b", "10.1.0.2", hostname="gang-worker-1", subdomain="elsewhere")
        (one,) = await settled(rig)
        assert [each.get("hostname") for each in one["endpoints"]] == ["gang-worker-0", None]
        assert labels_of(one)["service.kubernetes.io/headless"] == ""
        assert not one.get("ports")

    with_builtins(script)


def test_pods_whose_ports_differ_are_in_slices_of_their_own() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service())
        await run_pod(rig, "a", "10.1.0.1", port=8080)
        await run_pod(rig, "b", "10.1.0.2", port=9090)
        slices = await settled(rig)
        assert sorted(each["ports"][0]["port"] for each in slices) == [8080, 9090]
        await rig.client.delete(POD, "b", "default", grace_seconds=0)
        assert told(await settled(rig)) == {"10.1.0.1": True}
        assert len(await settled(rig)) == 1

    with_builtins(script)


def test_many_pods_are_cut_into_slices_and_one_that_goes_changes_one_of_them() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service())
        for number in range(250):
            await run_pod(rig, f"p{number}", f"10.1.{number // 200}.{number % 200}")
        before = {name_of(each): each["metadata"]["resourceVersion"] for each in await settled(rig)}
        assert len(before) == 3
        await rig.client.delete(POD, "p7", "default", grace_seconds=0)
        after = await settled(rig)
        assert len(told(after)) == 249
        changed = [each for each in after if before[name_of(each)] != each["metadata"]["resourceVersion"]]
        assert len(changed) == 1

    with_builtins(script)


def test_what_belongs_to_a_service_goes_with_it() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service())
        await run_pod(rig, "a", "10.1.0.1")
        await settled(rig)
        await rig.client.delete(SERVICE, "web", "default")
        assert await settled(rig) == []
        assert await rig.client.find(ENDPOINTS, "web", "default") is None
        # One of the same name is told of anew.
        await rig.client.create(SERVICE, service())
        assert told(await settled(rig)) == {"10.1.0.1": True}

    with_builtins(script)


def test_a_service_without_a_selector_is_left_to_others() -> None:
    async def script(rig: Rig) -> None:
        plain = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}
        await rig.client.create(SERVICE, plain)
        subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]
        await rig.client.create(ENDPOINTS, {"metadata": {"name": "web", "namespace": "default"}, "subsets": subsets})
        assert await settled(rig) == []
        kept = await rig.client.get(ENDPOINTS, "web", "default")
        assert kept["subsets"][0]["addresses"][0]["ip"] == "192.0.2.1"

    with_builtins(script)


def test_a_slice_that_is_deleted_comes_back() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service())
        await run_pod(rig, "a", "10.1.0.1")
        (one,) = await settled(rig)
        await rig.client.delete(ENDPOINT_SLICE, name_of(one), "default")
        assert told(await settled(rig)) == {"10.1.0.1": True}

    with_builtins(script)
