"""The way out of the pods' network, on a machine of the test's own making."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hekla.node import records
from hekla.node.switch import RECORD
from tests.eventually import eventually
from tests.node.rig import Rig, environment, rig, sweep_as

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="making a network for the test needs root"),
]

_LOOK = """
import socket, time

def call(host, port=8080):
    try:
        with socket.create_connection((host, port), timeout=3) as peer:
            return peer.recv(64).decode()
    except OSError as error:
        return type(error).__name__

deadline = time.monotonic() + 30
while (found := call("outside.example")) == "gaierror" or "Error" in found and time.monotonic() < deadline:
    time.sleep(0.1)
print(found)
print(call("127.0.0.1", LOCAL), call("192.0.2.2", LOCAL), call("169.254.169.254", 80))
"""


@contextlib.contextmanager
def a_machine() -> Iterator[tuple[str, ...]]:
    """The command that runs another there."""
    script = Path(__file__).with_name("outside_world.py")
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(Path("/"))
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield ("nsenter", f"--net=/proc/{process.pid}/ns/net", f"--mount=/proc/{process.pid}/ns/mnt", "--")
        finally:
            assert process.stdin is not None
            process.stdin.close()


def hide(inside: tuple[str, ...], *programs: str) -> None:
    """As if they had never been installed there."""
    for each in programs:
        subprocess.run([*inside, "mount", "--bind", "/dev/null", f"/usr/bin/{each}"], check=True)


def network_of(inside: tuple[str, ...]) -> str:
    script = "cat /proc/net/dev | cut -d: -f1; cat /proc/net/route /proc/sys/net/ipv4/ip_forward; ls /run"
    commands = [["sh", "-c", script], ["nft", "list", "ruleset"]]
    return "".join(subprocess.check_output([*inside, *each], text=True) for each in commands)


@pytest.mark.parametrize(
    ("account", "outgoing", "way"),
    [
        ("root", "auto", "slirp4netns"),
        ("user", "auto", "slirp4netns"),
        ("user", "auto", "pasta"),
        ("root", "nat", "nat"),
    ],
)
def test_pods_reach_the_world_and_the_machine_stays_as_it_was(account: str, outgoing: str, way: str) -> None:
    with a_machine() as inside:
        hide(inside, *{"slirp4netns", "pasta"} - {way})
        before = network_of(inside)
        asyncio.run(_go_out(account, outgoing, way, inside))
        assert network_of(inside) == before


async def _go_out(account: str, outgoing: str, way: str, inside: tuple[str, ...]) -> None:
    async with rig(account) as node:
        node.inside = inside
        await node.start_agent(outgoing=outgoing)
        known = records.read(str(node.data_dir / RECORD))
        assert known["outgoing"] == way
        await _look_out(node, "first")
        # Whatever is killed: it is there again, and nothing stays when all is over.
        os.kill(known["keeper"]["pid"] if way == "nat" else known["process"]["pid"], signal.SIGKILL)
        eventually(lambda: not records.is_alive(known["keeper"]))
        if way != "nat":
            await _look_out(node, "second")
        await node.kill_agent()
        sweep_as(account, node.data_dir, inside)
        final = records.read(str(node.data_dir / RECORD))
        assert not records.is_alive(final["keeper"])


async def _look_out(node: Rig, name: str) -> None:
    listen = (
        "import socket; s = socket.create_server(('127.0.0.1', 7777)); print('on', flush=True)\nwhile 1: s.accept()"
    )
    with subprocess.Popen([*node.inside, sys.executable, "-c", listen], stdout=subprocess.PIPE) as local:
        assert local.stdout is not None
        local.stdout.readline()
        await node.create_pod(name, container={"command": ["python3", "-c", _LOOK.replace("LOCAL", "7777")]})
        pod = await node.finished(name)
        outside, inside = node.log(pod).splitlines()
        assert outside == "198.51.100.2"
        assert not [word for word in inside.split() if not word.endswith("Error")]
        local.kill()


_ASK = """
from hekla.node import uplink
for wanted in ("none", "auto"):
    print([uplink.missing(wanted), uplink.choose_way(wanted)])
"""


def test_what_is_missing_is_named() -> None:
    with a_machine() as inside:
        hide(inside, "slirp4netns", "pasta")
        command = [*inside, sys.executable, "-c", _ASK]
        said = subprocess.check_output(command, env=environment(Path("/")), text=True).splitlines()
    assert said == ["['', '']", "[\"the program slirp4netns (Debian's package of that name)\", '']"]
