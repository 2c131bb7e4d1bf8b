"""Ways out of a pod that have worked elsewhere, tried for real, as root and as an ordinary user: all must be closed.

`intruder.py` is one pod that tries most of them; the others are in how a pod is written. `pytest -s` shows the list.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hekla.api.kinds import NETWORK_POLICY, Obj
from hekla.node import records
from hekla.node.hooks.cgroups import recorded_cgroups
from tests.conftest import NOT_POSSIBLE
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, Rig, phase, rig, state

pytestmark = pytest.mark.root

_INTRUDER = Path(__file__).with_name("intruder.py").read_text()
_PROCESSES = 400
_NEIGHBOUR = """
import socket, threading
named = socket.socket(socket.AF_UNIX); named.bind("\\0neighbour"); named.listen()
open("/secret/file", "w").write("neighbour's secret")
server = socket.create_server(("", 7000))
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""
# Run from the file the shim ran from: keep hold of it, become another program, and write to it.
_REPLACE_RUNTIME = """
import os, sys
held = os.open("/proc/self/exe", os.O_PATH)
os.set_inheritable(held, True)
print(os.readlink("/proc/self/exe"), flush=True)
code = "import os, sys; held = os.open(sys.argv[1], os.O_WRONLY); os.write(held, b'#!/bin/sh'); print('ESCAPED')"
os.execv("/usr/bin/python3", ["python3", "-c", code, f"/proc/self/fd/{held}"])
"""


@pytest.mark.parametrize("account", ACCOUNTS)
def test_every_way_out_is_closed(account: str, record_property: Callable[[str, object], None]) -> None:
    verdicts = asyncio.run(_try_everything(account))
    for name, verdict in verdicts.items():
        print(f"{verdict['outcome']:8} {name.replace('_', ' ')}: {verdict['details']}")
    counts = {kind: sum(each["outcome"] == kind for each in verdicts.values()) for kind in ("blocked", "not tried")}
    for name, verdict in verdicts.items():
        if verdict["outcome"] == "not tried":
            record_property(NOT_POSSIBLE, f"{name.replace('_', ' ')}: {verdict['details']}")
    tried = len(verdicts) - counts["not tried"]
    print(f"as {account}: {counts['blocked']} of {tried} attempts blocked, {counts['not tried']} not possible here")
    assert {name: each for name, each in verdicts.items() if each["outcome"] not in counts} == {}
    assert counts["blocked"] >= 40


async def _try_everything(account: str) -> dict[str, Obj]:
    # Not in /tmp, which is every pod's own: what is to be hidden has to be hidden from somewhere.
    async with rig(account, parent=Path("/var/tmp")) as node:
        await node.start_agent(processes=_PROCESSES, hidden_paths=[node.home])
        with _bait(node) as aims:
            neighbour = await _neighbour(node)
            aims["neighbour"] = neighbour["status"]["podIP"]
            aims["gateway"] = records.read(str(node.data_dir / "switch.json"))["gateway"]
            aims["neighbour_file"] = f"{node.data_dir}/pods/{neighbour['metadata']['uid']}/volumes/secret/file"
            verdicts = await _intrude(node, aims)
            for escape in _BY_SPECIFICATION:
                verdicts[escape.__name__.strip("_")] = await escape(node)
            verdicts |= _marks_left(aims)
            assert phase(await node.running("neighbour")) == "Running", "a neighbour was harmed"
        return verdicts


async def _neighbour(node: Rig) -> Obj:
    policy = {"podSelector": {"matchLabels": {"app": "neighbour"}}, "policyTypes": ["Ingress"]}
    metadata = {"name": "closed", "namespace": "default"}
    await node.client.create(
        NETWORK_POLICY,
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": policy},
    )
    await node.create_pod(
        "neighbour",
        labels={"app": "neighbour"},
        container={
            "command": ["python3", "-c", _NEIGHBOUR],
            "volumeMounts": [{"name": "secret", "mountPath": "/secret"}],
        },
        volumes=[{"name": "secret", "emptyDir": {}}],
    )
    pod = await node.running("neighbour")
    await soon(lambda: "listening" in node.log(pod), what="the neighbour listens")
    return pod


async def _intrude(node: Rig, aims: dict[str, Any]) -> dict[str, Obj]:
    env = [{"name": "AIMS", "value": json.dumps(aims)}]
    await node.create_pod("intruder", container={"command": ["python3", "-c", _INTRUDER], "env": env})
    pod = await node.until("intruder", lambda pod: phase(pod) in ("Succeeded", "Failed"), seconds=120)
    lines = node.log(pod).splitlines()
    assert lines[-1:] == ["done"], lines
    verdicts = {each.pop("name"): each for each in map(json.loads, lines[:-1])}
    if not records.read(str(node.data_dir / "switch.json"))["nft"]:
        reason = "rules of the network need the program nft"
        verdicts["connect_to_a_neighbour_that_lets_nobody_in"] = {"outcome": "not tried", "details": reason}
    if node.account == "root" and recorded_cgroups(node.data_dir) is None:
        reason = "what root may start only control groups limit, and this machine gives none"
        verdicts["multiply_without_end"] = {"outcome": "not tried", "details": reason}
    return verdicts


async def _replace_the_runtime(node: Rig) -> Obj:
    await node.create_pod("replacer", container={"command": ["/proc/self/exe", "-I", "-c", _REPLACE_RUNTIME]})
    said = node.log(await node.finished("replacer"))
    assert "memfd" in said, f"this has tried something else: {said}"
    return _verdict("ESCAPED" not in said, said)


async def _be_privileged(node: Rig) -> Obj:
    script = "mount -t tmpfs x /mnt && echo ESCAPED; true"
    wish = {"securityContext": {"privileged": True, "capabilities": {"add": ["ALL", "SYS_ADMIN"]}}}
    await node.create_pod("privileged", script, container=wish)
    said = node.log(await node.finished("privileged"))
    return _verdict("ESCAPED" not in said, said)


async def _lead_a_subpath_out(node: Rig) -> Obj:
    mount = {"name": "v", "mountPath": "/v"}
    link = {"name": "link", "image": "any", "command": ["ln", "-s", "/", "/v/out"], "volumeMounts": [mount]}
    wanted = {"name": "v", "mountPath": "/host", "subPath": "out/etc"}
    await node.create_pod(
        "subpath",
        "cat /host/passwd",
        container={"volumeMounts": [wanted]},
        initContainers=[link],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    pod = await node.until("subpath", lambda pod: "leads outside the volume" in str(pod.get("status")))
    return _verdict(state(pod).get("waiting", {}).get("reason") == "CreateContainerError", str(state(pod)))


async def _have_a_folder_made_on_the_host(node: Rig) -> Obj:
    target = node.data_dir / "made-by-a-pod"
    mount = {"name": "v", "mountPath": "/v"}
    script = f"ln -s /.hekla-host{node.data_dir} /v/a; ln -s /proc/1/root{node.data_dir} /v/b"
    link = {"name": "link", "image": "any", "command": ["sh", "-c", script], "volumeMounts": [mount]}
    inner = [{"name": "w", "mountPath": f"/v/{name}/made-by-a-pod"} for name in ("a", "b")]
    await node.create_pod(
        "nested",
        "true",
        container={"volumeMounts": [mount, *inner]},
        initContainers=[link],
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
    )
    await node.until("nested", lambda pod: phase(pod) == "Succeeded" or "CreateContainer" in str(pod.get("status")))
    return _verdict(not target.exists(), f"{target} was {'' if target.exists() else 'not '}made")


async def _mount_the_hosts_root(node: Rig) -> Obj:
    await node.create_pod("host-path", "true", volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    message = (await node.finished("host-path"))["status"].get("message", "")
    return _verdict("hostPath / is not among the paths" in message, message)


async def _use_the_hosts_network(node: Rig) -> Obj:
    await node.create_pod("host-network", "true", hostNetwork=True)
    message = (await node.finished("host-network"))["status"].get("message", "")
    return _verdict("hostNetwork is not supported" in message, message)


async def _write_more_than_allowed(node: Rig) -> Obj:
    limits = {"resources": {"limits": {"ephemeral-storage": "8Mi"}}}
    await node.create_pod("writer", "head -c 32M /dev/zero > /var/big; sleep 600", container=limits)
    pod = await node.finished("writer")
    return _verdict(pod["status"].get("reason") == "Evicted", pod["status"].get("message", ""))


async def _fill_a_volume(node: Rig) -> Obj:
    await node.create_pod(
        "filler",
        "head -c 32M /dev/zero > /v/big; sleep 600",
        container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "emptyDir": {"sizeLimit": "8Mi"}}],
    )
    pod = await node.finished("filler")
    return _verdict(pod["status"].get("reason") == "Evicted", pod["status"].get("message", ""))


async def _use_more_memory_than_allowed(node: Rig) -> Obj:
    if recorded_cgroups(node.data_dir) is None:
        return {"outcome": "not tried", "details": "this machine gives this account no control groups"}
    hog = ["python3", "-c", "x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('ESCAPED')"]
    await node.create_pod("hog", container={"command": hog, "resources": {"limits": {"memory": "64Mi"}}})
    pod = await node.finished("hog")
    return _verdict(state(pod)["terminated"]["reason"] == "OOMKilled", str(state(pod)))


_BY_SPECIFICATION: list[Callable[[Rig], Awaitable[Obj]]] = [
    _replace_the_runtime,
    _be_privileged,
    _lead_a_subpath_out,
    _have_a_folder_made_on_the_host,
    _mount_the_hosts_root,
    _use_the_hosts_network,
    _write_more_than_allowed,
    _fill_a_volume,
    _use_more_memory_than_allowed,
]


def _verdict(blocked: bool, details: str) -> Obj:
    return {"outcome": "blocked" if blocked else "ESCAPED", "details": details.strip()}


@contextmanager
def _bait(node: Rig) -> Iterator[dict[str, Any]]:
    """What the intruder is told to aim at: files, sockets and memory of the host, open to everybody there."""
    name = f"hekla-bait-{os.getpid()}"
    with ExitStack() as stack:
        files = [Path("/var/tmp", f"{name}-{index}") for index in range(2)]
        memory = Path("/dev/shm", name)
        for path in (*files, memory):
            path.write_text("the host's")
            path.chmod(0o666)
            stack.callback(path.unlink, missing_ok=True)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        nameless = stack.enter_context(socket.socket(socket.AF_UNIX))
        nameless.bind("\0" + name)
        nameless.listen()
        libc = ctypes.CDLL(None)
        segment = libc.shmget(0, 4096, 0o1666)
        stack.callback(libc.shmctl, segment, 0, None)
        yield {
            "file": str(files[0]),
            "second_file": str(files[1]),
            "data_dir": str(node.data_dir),
            "api_socket": str(node.home / "api.sock"),
            "process": os.getpid(),
            "host_port": listener.getsockname()[1],
            "abstract": name,
            "named_memory": name,
            "shared_memory": segment,
            "processes": _PROCESSES,
        }


def _marks_left(aims: dict[str, Any]) -> dict[str, Obj]:
    """What only the host can tell about the attempts that seemed to work."""
    kept = Path(aims["second_file"]).exists()
    setuid = bool(Path("/usr/bin/env").stat().st_mode & stat.S_ISUID)
    return {
        "change_a_file_of_the_host": _verdict(Path(aims["file"]).read_text() == "the host's", "seen from the host"),
        "delete_a_file_of_the_host": _verdict(kept, "seen from the host"),
        "make_a_program_of_the_host_setuid": _verdict(not setuid, "seen from the host"),
    }
