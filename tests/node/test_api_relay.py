"""Pods reach the API server at the address of its Service; their tokens are new before the old ones end."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import pytest

from hekla.node.directory import PodDirectory
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, Rig, rig

each_account = pytest.mark.parametrize("account", ACCOUNTS)
TALK = """
import os, socket
host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
for name in (host, "kubernetes.default.svc"):
    with socket.create_connection((name, port), 10) as server:
        server.sendall(b"x" * 300_000 + b"!")
        heard = b""
        while not heard.endswith(b"?"):
            heard += server.recv(65536)
        print(name, len(heard))
"""


def on_a_node(account: str, script: Callable[[Rig], Awaitable[None]]) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await script(node)

    asyncio.run(main())


@each_account
def test_what_a_pod_says_arrives_and_is_answered(account: str) -> None:
    on_a_node(account, _talk)


async def _talk(node: Rig) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await reader.readuntil(b"!")
        writer.write(b"y" * len(said) + b"?")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 20) as server:
        port = server.sockets[0].getsockname()[1]
        await node.start_agent(api_server=["127.0.0.1", port])
        await node.create_pod("talker", container={"command": ["python3", "-c", TALK]})
        pod = await node.finished("talker")
        assert node.log(pod) == "10.96.0.1 300002\nkubernetes.default.svc 300002\n"


@each_account
def test_a_pod_is_not_told_of_a_server_it_cannot_reach(account: str) -> None:
    on_a_node(account, _alone)


async def _alone(node: Rig) -> None:
    await node.start_agent()
    await node.create_pod("alone", "env | grep -c KUBERNETES_; exit 0")
    assert node.log(await node.finished("alone")) == "0\n"


def test_an_old_token_is_replaced_while_the_pod_runs() -> None:
    on_a_node(ACCOUNTS[0], _grow_old)


async def _grow_old(node: Rig) -> None:
    await node.start_agent()
    where = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    script = f'first=$(cat {where}); echo began; while [ "$(cat {where})" = "$first" ]; do sleep 0.1; done; echo new'
    pod = await node.create_pod("old", script)
    await node.running("old")
    await soon(lambda: node.log(pod) == "began\n", what="it has read the first token")
    volume = pod["spec"]["volumes"][0]
    token = PodDirectory(node.data_dir, pod["metadata"]["uid"]).volume(volume) / "token"
    await node.kill_agent()
    # Four fifths of its 3607 seconds are over; whoever looks after the pod now must notice.
    os.utime(token, (time.time() - 3000, time.time() - 3000))
    await node.start_agent()
    ended = await node.finished("old")
    assert node.log(ended) == "began\nnew\n"
