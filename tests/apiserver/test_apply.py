"""Server-side apply: what is applied again is found again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.rig import Rig, with_server

CORE, APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
APPLY = "application/apply-patch+yaml"
SERVICE = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"name": "a", "port": 443}]}}
CONTAINER = {"name": "c", "image": "i", "ports": [{"containerPort": 80}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}


@pytest.mark.parametrize(("path", "wanted"), [(f"{CORE}/services", SERVICE), (f"{APPS}/deployments", DEPLOYMENT)])
def test_a_port_without_its_protocol_is_the_one_that_was_given_it(path: str, wanted: dict[str, Any]) -> None:
    async def script(rig: Rig) -> None:
        named = {**wanted, "metadata": {"name": "x", "namespace": "default"}}
        _, made, _ = await rig.send("PATCH", f"{path}/x?fieldManager=m", named, APPLY)
        status, again, _ = await rig.send("PATCH", f"{path}/x?fieldManager=m", named, APPLY)
        assert (status, again["spec"]) == (200, made["spec"])

    with_server(script)


def test_ports_that_differ_by_protocol_are_two() -> None:
    async def script(rig: Rig) -> None:
        ports = [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]
        named = {**SERVICE, "metadata": {"name": "x", "namespace": "default"}, "spec": {"ports": ports}}
        for _ in range(2):
            _, made, _ = await rig.send("PATCH", f"{CORE}/services/x?fieldManager=m", named, APPLY)
            assert [port["protocol"] for port in made["spec"]["ports"]] == ["TCP", "UDP"]
        named["spec"] = {"ports": ports[1:]}
        _, made, _ = await rig.send("PATCH", f"{CORE}/services/x?fieldManager=m", named, APPLY)
        assert [port["protocol"] for port in made["spec"]["ports"]] == ["UDP"]

    with_server(script)
