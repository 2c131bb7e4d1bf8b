"""Variables that lead to the Services of a pod's namespace, as containers had them before there was DNS for it."""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import Obj
from hekla.api.meta import name_of, namespace_of
from hekla.node.ruleset import has_cluster_address


def service_environment(pod: Obj, services: Iterable[Obj]) -> dict[str, str]:
    """For each Service with a cluster address: FOO_SERVICE_HOST, FOO_SERVICE_PORT and links for each of its ports.

    Not for the API server's: whether that can be reached is for `api_relay.py` to say.
    """
    if pod["spec"].get("enableServiceLinks") is False:
        return {}
    env: dict[str, str] = {}
    for service in services:
        if (namespace_of(service), name_of(service)) == ("default", "kubernetes"):
            continue
        if namespace_of(service) == namespace_of(pod) and has_cluster_address(service):
            env.update(_variables(service))
    return env


def _variables(service: Obj) -> dict[str, str]:
    prefix, address = _variable(name_of(service)), service["spec"]["clusterIP"]
    env = {f"{prefix}_SERVICE_HOST": address}
    for position, port in enumerate(service["spec"].get("ports") or ()):
        number, protocol = str(port["port"]), str(port.get("protocol") or "TCP")
        url = f"{protocol.lower()}://{address}:{number}"
        if position == 0:
            env[f"{prefix}_SERVICE_PORT"] = number
            env[f"{prefix}_PORT"] = url
        if port.get("name"):
            env[f"{prefix}_SERVICE_PORT_{_variable(port['name'])}"] = number
        link = f"{prefix}_PORT_{number}_{protocol}"
        env |= {link: url, f"{link}_PROTO": protocol.lower(), f"{link}_PORT": number, f"{link}_ADDR": address}
    return env


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
