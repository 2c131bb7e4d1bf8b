"""Two jobs, a wall between them, and a door with a number on it: real pods, real connections."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.kinds import NETWORK_POLICY, SERVICE
from hekla.node.switch_client import SwitchClient
from tests.node.rig import ACCOUNTS, Rig, exit_code, rig

_SERVE = """exec python3 -c '
import socket
server = socket.create_server(("0.0.0.0", 8080))
while True:
    connection, address = server.accept()
    connection.sendall(b"hello " + address[0].encode())
    connection.close()
'"""
_CALL = """python3 -c '
import socket, sys
try:
    print(socket.create_connection(("{host}", {port}), timeout={timeout}).recv(100).decode())
except OSError as error:
    sys.exit(type(error).__name__)
'"""


async def call(node: Rig, name: str, job: str, host: str, port: int = 8080, timeout: float = 60) -> tuple[int, str]:
    await node.create_pod(name, _CALL.format(host=host, port=port, timeout=timeout), labels={"job": job})
    pod = await node.finished(name)
    return exit_code(pod), node.log(pod)


async def call_until(answered: bool, node: Rig, name: str, host: str, port: int = 8080) -> None:
    """For what was changed just now: the pod calls again and again, and ends when the call goes as it should."""
    again = "until" if answered else "while"
    script = f"{again} {_CALL.format(host=host, port=port, timeout=2)}; do :; done"
    await node.create_pod(name, script, labels={"job": "b"})
    assert exit_code(await node.finished(name)) == 0


async def serve(node: Rig, name: str, job: str) -> str:
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    await node.create_pod(name, _SERVE, labels={"job": job}, container={"readinessProbe": probe})
    pod = await node.until(name, lambda pod: any(each.get("ready") for each in statuses(pod)))
    return str(pod["status"]["podIP"])


def statuses(pod: dict) -> list[dict]:  # type: ignore[type-arg]
    return list((pod.get("status") or {}).get("containerStatuses") or ())


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_job_with_a_policy_hears_its_own_pods_and_no_others(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await node.start_agent()
            rules = {
                "podSelector": {"matchLabels": {"job": "a"}},
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"job": "a"}}}]}],
            }
            policy = {"metadata": {"name": "a", "namespace": "default"}, "spec": rules}
            await node.client.create(
                NETWORK_POLICY, {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", **policy}
            )
            inside, outside = await serve(node, "server-a", "a"), await serve(node, "server-b", "b")
            own, stranger, back = await asyncio.gather(
                call(node, "own", "a", inside),
                call(node, "stranger", "b", inside, timeout=2),
                call(node, "back", "a", outside),
            )
            assert own[0] == 0, own
            assert own[1].startswith("hello 10.")
            assert stranger == (1, "TimeoutError\n")
            assert back[0] == 0, back
            # Gone with the policy.
            await node.client.delete(NETWORK_POLICY, "a", "default")
            await call_until(True, node, "friend", inside)

    asyncio.run(main())


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_service_has_an_address_and_a_name_that_lead_to_its_pods(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await node.start_agent()
            spec = {"selector": {"job": "a"}, "ports": [{"port": 80, "targetPort": 8080}]}
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": spec,
            }
            made = await node.client.create(SERVICE, service)
            await serve(node, "server", "a")
            by_address, by_name = await asyncio.gather(
                call(node, "by-address", "b", made["spec"]["clusterIP"], 80), call(node, "by-name", "b", "web", 80)
            )
            assert by_address[0] == 0, by_address
            assert by_name[0] == 0, by_name
            await node.client.delete(SERVICE, "web", "default")
            await call_until(False, node, "nobody", made["spec"]["clusterIP"], 80)

    asyncio.run(main())


def test_rules_nft_does_not_understand_change_nothing_and_are_reported() -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            await node.start_agent()
            switch = SwitchClient(node.data_dir)
            with pytest.raises(Exception, match=r"nft: .*syntax error"):
                switch.set_rules("table inet hekla { nonsense }")
            assert switch.set_rules("") == ""

    asyncio.run(main())


def test_a_pod_reaches_itself_through_its_service() -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            await node.start_agent()
            spec = {"selector": {"job": "a"}, "ports": [{"port": 80, "targetPort": 8080}]}
            await node.create("Service", "web", spec={**spec, "publishNotReadyAddresses": True})
            serve = _SERVE.removeprefix("exec ")
            look = f"until {_CALL.format(host='web', port=80, timeout=2)}; do :; done"
            await node.create_pod("narcissus", f"{serve} & {look}", labels={"job": "a"})
            pod = await node.finished("narcissus")
            assert exit_code(pod) == 0, node.log(pod)

    asyncio.run(main())
