from __future__ import annotations

from typing import Any

from hekla.api.kinds import Obj
from hekla.node.hooks.service_env import service_environment


def service(name: str, namespace: str = "default", **spec: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def pod(**spec: Any) -> Obj:
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}


_WEB = service(
    "my-web",
    clusterIP="10.96.0.9",
    ports=[{"name": "http", "port": 80}, {"name": "names-udp", "port": 53, "protocol": "UDP"}],
)


def test_every_port_has_its_variables() -> None:
    assert service_environment(pod(), [_WEB]) == {
        "MY_WEB_SERVICE_HOST": "10.96.0.9",
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP": "80",
        "MY_WEB_SERVICE_PORT_NAMES_UDP": "53",
        "MY_WEB_PORT": "tcp://10.96.0.9:80",
        "MY_WEB_PORT_80_TCP": "tcp://10.96.0.9:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": "10.96.0.9",
        "MY_WEB_PORT_53_UDP": "udp://10.96.0.9:53",
        "MY_WEB_PORT_53_UDP_PROTO": "udp",
        "MY_WEB_PORT_53_UDP_PORT": "53",
        "MY_WEB_PORT_53_UDP_ADDR": "10.96.0.9",
    }


def test_services_without_an_address_or_of_another_namespace_have_none() -> None:
    services = [
        service("headless", clusterIP="None", ports=[{"port": 1}]),
        service("elsewhere", "other", clusterIP="10.96.0.8", ports=[{"port": 1}]),
        service("outside", type="ExternalName"),
        service("kubernetes", clusterIP="10.96.0.1", ports=[{"port": 443}]),
    ]
    assert service_environment(pod(), services) == {}


def test_a_pod_may_do_without() -> None:
    assert service_environment(pod(enableServiceLinks=False), [_WEB]) == {}
