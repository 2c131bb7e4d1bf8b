"""Services get an address of the cluster's network and keep it; what cannot be had is refused in the real words."""

from __future__ import annotations

import asyncio
import ipaddress
import random
from pathlib import Path
from typing import Any

import pytest

from hekla.api.kinds import SERVICE, Obj
from hekla.apiserver.addresses import SERVICE_NETWORK
from hekla.apiserver.app import build_app
from hekla.apiserver.store.sqlite import SqliteStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.errors import Invalid, NotFound
from tests.apiserver.rig import Rig, with_server


def service(name: str = "s", ports: list[Obj] | None = None, **spec: Any) -> Obj:
    ports = [{"port": 80}] if ports is None else ports
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": ports, **spec}}


def test_a_service_that_asks_for_nothing_gets_an_address() -> None:
    async def script(rig: Rig) -> None:
        spec = (await rig.client.create(SERVICE, service()))["spec"]
        address = spec.pop("clusterIP")
        assert ipaddress.ip_address(address) in SERVICE_NETWORK
        assert spec == {
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "clusterIPs": [address],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        }

    with_server(script)


def test_services_made_at_the_same_time_get_different_addresses() -> None:
    async def script(rig: Rig) -> None:
        async with asyncio.TaskGroup() as group:
            made = [group.create_task(rig.client.create(SERVICE, service(f"s{n}"))) for n in range(50)]
        assert len({each.result()["spec"]["clusterIP"] for each in made}) == 50

    with_server(script)


def test_of_two_that_ask_for_one_address_at_the_same_time_one_gets_it() -> None:
    async def script(rig: Rig) -> None:
        wanted = [service(name, clusterIP="10.96.0.10") for name in ("a", "b")]
        results = await asyncio.gather(*(rig.client.create(SERVICE, each) for each in wanted), return_exceptions=True)
        refused = [each for each in results if isinstance(each, Invalid)]
        assert len(refused) == 1
        assert "failed to allocate IP 10.96.0.10: provided IP is already allocated" in str(refused[0])

    with_server(script)


def test_an_address_is_free_again_when_its_service_is_gone() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service("a", clusterIP="10.96.0.10"))
        await rig.client.delete(SERVICE, "a", "default")
        made = await rig.client.create(SERVICE, service("b", clusterIP="10.96.0.10"))
        assert made["spec"]["clusterIPs"] == ["10.96.0.10"]

    with_server(script)


def test_addresses_survive_a_restart(tmp_path: Path) -> None:
    async def start() -> tuple[SqliteStore, Client]:
        store = SqliteStore.open(tmp_path / "state.db", SystemClock())
        app = build_app(store, clock=SystemClock(), rng=random.Random(1))
        await app.start()
        return store, Client(InProcessTransport(app))

    async def main() -> None:
        store, client = await start()
        before = (await client.create(SERVICE, service("a")))["spec"]["clusterIP"]
        await store.close()
        store, client = await start()
        assert (await client.get(SERVICE, "a", "default"))["spec"]["clusterIP"] == before
        with pytest.raises(Invalid, match="provided IP is already allocated"):
            await client.create(SERVICE, service("b", clusterIP=before))
        await store.close()

    asyncio.run(main())


def test_a_dry_run_takes_no_address() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service("a", clusterIP="10.96.0.10"), dry_run=True)
        await rig.client.create(SERVICE, service("b", clusterIP="10.96.0.10"))

    with_server(script)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"clusterIP": "1.2.3.4"}, "failed to allocate IP 1.2.3.4: the provided network does not match"),
        ({"clusterIP": "10.96.255.255"}, "the provided network does not match the current range"),
        ({"clusterIP": "foo"}, r'spec.clusterIPs\[0\]: Invalid value: "foo": must be a valid IP address'),
        ({"clusterIP": "010.96.0.9"}, "must not have leading 0s"),
        ({"clusterIP": "fd00::1"}, "IPv6 is not configured on this cluster"),
        ({"clusterIPs": ["10.96.0.9"]}, "must be empty when `clusterIP` is not specified"),
        ({"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.9"]}, "first value must match `clusterIP`"),
        (
            {"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.8", "10.96.0.9"]},
            "no more than one IP for each IP family",
        ),
        ({"clusterIP": "None", "type": "NodePort"}, "may not be set to 'None' for NodePort services"),
        ({"type": "ExternalName", "externalName": "x.y", "clusterIP": "10.96.0.9"}, "may not be set for ExternalName"),
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        ({"ipFamilies": ["IPv6"]}, "not configured on this cluster"),
        ({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack services"),
        ({"ports": [{"port": 80, "nodePort": 30001}]}, "may not be used when `type` is 'ClusterIP'"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 300}]}, "The range of valid ports is 30000-32767"),
        ({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]}, r"spec.ports\[1\]: Duplicate value"),
    ],
)
def test_what_cannot_be_had_is_refused(spec: Obj, words: str) -> None:
    async def script(rig: Rig) -> None:
        with pytest.raises(Invalid, match=words):
            await rig.client.create(SERVICE, service(**spec))

    with_server(script)


def test_an_update_that_does_not_name_the_address_keeps_it() -> None:
    async def script(rig: Rig) -> None:
        before = (await rig.client.create(SERVICE, service()))["spec"]["clusterIP"]
        for patch in (
            {"clusterIP": None},
            {"clusterIP": ""},
            {"clusterIPs": []},
            {"clusterIP": None, "clusterIPs": None},
        ):
            patched = await rig.client.patch(SERVICE, "s", {"spec": patch}, "default")
            assert patched["spec"]["clusterIPs"] == [before]
        assert (await rig.client.update(SERVICE, service()))["spec"]["clusterIP"] == before
        with pytest.raises(Invalid, match=r'\["10.96.0.9"\]: may not change once set'):
            await rig.client.patch(SERVICE, "s", {"spec": {"clusterIP": "10.96.0.9"}}, "default")

    with_server(script)


def test_a_service_that_becomes_a_name_gives_its_address_back_and_may_get_another() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE, service(clusterIP="10.96.0.10"))
        external = {"spec": {"type": "ExternalName", "externalName": "x.y"}}
        renamed = await rig.client.patch(SERVICE, "s", external, "default")
        assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & set(renamed["spec"])
        await rig.client.create(SERVICE, service("other", clusterIP="10.96.0.10"))
        back = await rig.client.patch(SERVICE, "s", {"spec": {"type": "ClusterIP"}}, "default")
        assert back["spec"]["clusterIP"] not in ("", "10.96.0.10")

    with_server(script)


def test_node_ports_are_found_kept_shared_by_protocols_and_given_back() -> None:
    async def script(rig: Rig) -> None:
        ports = [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]
        made = await rig.client.create(SERVICE, service("a", ports=ports, type="NodePort"))
        number = made["spec"]["ports"][0]["nodePort"]
        assert [port["nodePort"] for port in made["spec"]["ports"]] == [number, number]
        assert made["spec"]["externalTrafficPolicy"] == "Cluster"
        kept = await rig.client.update(SERVICE, service("a", ports=ports, type="NodePort"))
        assert kept["spec"]["ports"] == made["spec"]["ports"]
        taken = service("b", ports=[{"port": 80, "nodePort": number}], type="NodePort")
        with pytest.raises(Invalid, match="provided port is already allocated"):
            await rig.client.create(SERVICE, taken)
        plain = await rig.client.patch(SERVICE, "a", {"spec": {"type": "ClusterIP"}}, "default")
        assert all("nodePort" not in port for port in plain["spec"]["ports"])
        await rig.client.create(SERVICE, taken)

    with_server(script)


def test_a_headless_service_without_selector_may_have_any_family() -> None:
    async def script(rig: Rig) -> None:
        bare = (await rig.client.create(SERVICE, service("a", clusterIP="None")))["spec"]
        assert (bare["clusterIPs"], bare["ipFamilies"]) == (["None"], ["IPv4", "IPv6"])
        chosen = (await rig.client.create(SERVICE, service("b", clusterIP="None", selector={"a": "b"})))["spec"]
        assert (chosen["ipFamilies"], chosen["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")

    with_server(script)


def test_a_service_is_made_by_an_update_when_there_is_none() -> None:
    async def script(rig: Rig) -> None:
        assert (await rig.client.update(SERVICE, service()))["spec"]["clusterIP"]
        with pytest.raises(NotFound):
            await rig.client.update(SERVICE, service("other"), subresource="status")

    with_server(script)
