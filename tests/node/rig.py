"""A real API server, real agents in processes of their own, real pods: as root and as an ordinary user.

The server runs in the test's own loop; the agent is a separate process, so it can be killed like one.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import hekla
from hekla.api.kinds import CONFIG_MAP, POD, SECRET, SERVICE, Obj
from hekla.apiserver import server
from hekla.apiserver.sockets import open_sockets
from hekla.client.informer import Informer, Update
from hekla.client.kubeconfig import Access, connect
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.node.directory import PodDirectory
from tests.eventually import LIMIT_SECONDS

ACCOUNTS = ["root", "user"] if os.geteuid() == 0 else ["user"]
ID_RANGE = 3_000_000_000  # where the ids of pods begin for the account "user with ids"
USER = 54321  # nobody's number: no account is needed to run as it
_SOURCES = Path(hekla.__file__).resolve().parent.parent
_AGENT = Path(__file__).with_name("agent_process.py")
NODE_NAME = "n1"
# Pods outlive their node, as anywhere, but not the tests, though these be killed: then this process reads to the end.
_LAST_RESORT = """
import json, os, subprocess, sys
homes = dict(json.loads(line) for line in sys.stdin)
for home, (command, environment) in homes.items():
    if os.path.exists(home):
        subprocess.run(command, env=environment, cwd="/")
"""


@dataclass
class Rig:
    """A cluster of one node. Pods are made already bound: there is no scheduler here."""

    home: Path
    client: Client
    pods: Informer
    account: str
    agent: asyncio.subprocess.Process | None = None
    inside: tuple[str, ...] = ()  # a command that runs another in some other place
    variables: dict[str, str] = field(default_factory=dict)  # more of the agent's environment
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def data_dir(self) -> Path:
        return self.home / "node"

    async def start_agent(self, *, isolation: str = "namespaces", **settings: Any) -> None:
        """Return when the node is ready. `settings` are NodeSettings', as far as they fit into JSON."""
        sweeping = _sweeping(self.account, self.data_dir, self.inside), environment(self.data_dir)
        _tell_last_resort(json.dumps([str(self.home), sweeping]))
        command = [
            *self.inside,
            *as_account(self.account),
            str(_AGENT),
            str(self.home / "api.sock"),
            str(self.data_dir),
            json.dumps({"isolation": isolation, **settings}, default=str),
        ]
        self.agent = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, env=environment(self.home) | self.variables, cwd="/"
        )
        assert self.agent.stdout is not None
        async with asyncio.timeout(LIMIT_SECONDS):
            line = await self.agent.stdout.readline()
        assert line == b"ready\n", line

    async def kill_agent(self, number: int = signal.SIGKILL) -> None:
        assert self.agent is not None
        self.agent.send_signal(number)
        await self.agent.wait()
        self.agent = None

    async def create_pod(self, name: str, script: str = "", **overrides: Any) -> Obj:
        """A pod that runs a shell script; `overrides` go into its spec, `container` into its container.

        `labels`, `annotations` and `owners` are about the pod itself.
        """
        container = {
            "name": "main",
            "image": "local",
            "command": ["sh", "-c", script],
            **overrides.pop("container", {}),
        }
        marks = {key: overrides.pop(key, {}) for key in ("labels", "annotations")}
        marks["ownerReferences"] = overrides.pop("owners", [])
        spec = {"nodeName": NODE_NAME, "restartPolicy": "Never", "terminationGracePeriodSeconds": 5, **overrides}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **marks},
            "spec": {"containers": [container], **spec},
        }
        return await self.client.create(POD, pod)

    async def create(self, kind: str, name: str, **content: Any) -> None:
        kinds = {"ConfigMap": CONFIG_MAP, "Secret": SECRET, "Service": SERVICE}
        obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **content}
        await self.client.create(kinds[kind], obj)

    async def until(self, name: str, holds: Callable[[Obj], bool], *, seconds: float = LIMIT_SECONDS) -> Obj:
        """The pod, as soon as it is as wanted."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    pod = self.pods.get(name, "default")
                    if pod is not None and holds(pod):
                        return pod
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            raise AssertionError(f"{name} is {self.pods.get(name, 'default')}") from None

    async def until_gone(self, name: str) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while self.pods.get(name, "default") is not None:
                self._woken.clear()
                await self._woken.wait()

    async def finished(self, name: str) -> Obj:
        return await self.until(name, lambda pod: phase(pod) in ("Succeeded", "Failed"))

    async def running(self, name: str) -> Obj:
        return await self.until(name, lambda pod: phase(pod) == "Running")

    def log(self, pod: Obj, attempt: int = 0, container: str = "main") -> str:
        path = PodDirectory(self.data_dir, pod["metadata"]["uid"]).log(container, attempt)
        return "".join(line.split(" ", 3)[3] for line in path.read_text().splitlines(keepends=True))

    def sweep(self) -> None:
        """End whatever pods are left."""
        sweep_as(self.account, self.data_dir)

    def hear(self, _: Update) -> None:
        self._woken.set()


@asynccontextmanager
async def rig(account: str, *, parent: Path | None = None) -> AsyncIterator[Rig]:
    """An API server and a place for a node; whatever the test leaves running is ended."""
    home = Path(tempfile.mkdtemp(prefix="hekla-node-", dir=parent))
    home.chmod(0o755)
    clock, rng = SystemClock(), random.Random(1)
    (home / "ca.crt").write_text("the certificate pods trust\n")
    settings = server.ApiServerSettings(
        database=home / "state.db", sockets=open_sockets(home / "api.sock", None), root_ca=home / "ca.crt"
    )
    listening = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.run(settings, clock=clock, rng=rng, ready=listening.set))
            await listening.wait()
            client = connect(Access(server=f"unix://{home / 'api.sock'}"))
            pods = Informer(client, POD, rng=rng)
            made = Rig(home, client, pods, account)
            made.data_dir.mkdir()
            if account != "root" and os.geteuid() == 0:
                for path in (home / "api.sock", made.data_dir):
                    os.chown(path, USER, USER)
            pods.subscribe(made.hear)
            watching = tasks.create_task(pods.run())
            try:
                yield made
            finally:
                if made.agent is not None:
                    await made.kill_agent()
                await asyncio.to_thread(sweep_as, account, made.data_dir, made.inside)
                watching.cancel()
                await client.close()
                serving.cancel()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def sweep_as(account: str, data_dir: Path, inside: tuple[str, ...] = ()) -> str:
    """What the sweep tells."""
    command = _sweeping(account, data_dir, inside)
    swept = subprocess.run(command, env=environment(data_dir), check=True, cwd="/", stdout=subprocess.PIPE, text=True)
    return swept.stdout


def _sweeping(account: str, data_dir: Path, inside: tuple[str, ...]) -> list[str]:
    code = "import sys; from pathlib import Path; from hekla.node.agent import sweep; print(sweep(Path(sys.argv[1])))"
    return [*inside, *as_account(account), "-c", code, str(data_dir)]


def _tell_last_resort(line: str) -> None:
    stdin = _last_resort().stdin
    assert stdin is not None
    print(line, file=stdin, flush=True)


@cache
def _last_resort() -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", "-c", _LAST_RESORT]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)
    atexit.register(process.communicate)
    return process


def phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def state(pod: Obj, container: int = 0) -> Obj:
    return dict(pod["status"]["containerStatuses"][container]["state"])


def exit_code(pod: Obj) -> int:
    return int(state(pod)["terminated"]["exitCode"])


@cache
def as_account(account: str) -> tuple[str, ...]:
    if account == "root" or os.geteuid() != 0:
        return (sys.executable,)
    drop = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--")
    if account == "user with ids":
        drop = (*_with_an_account(), *drop)
    # The interpreter the tests run with may be in a home that is closed to others. Tried at one remove, because
    # setpriv itself still has root's rights when it looks for the program.
    probe = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import hekla.node.agent'], check=True)"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        tried = subprocess.run([*drop, python, "-c", probe], env=environment(Path("/")), capture_output=True, cwd="/")
        if tried.returncode == 0:
            return (*drop, python)
    pytest.skip("the checkout lies where an ordinary user may not read it")


def _with_an_account() -> tuple[str, ...]:
    """In a /etc of its own, the user has a name and a range of ids; nobody else sees it."""
    etc = Path(tempfile.mkdtemp(prefix="hekla-etc-"))
    atexit.register(shutil.rmtree, etc)
    etc.chmod(0o755)
    (etc / "passwd").write_text(Path("/etc/passwd").read_text() + f"hekla-test:x:{USER}:{USER}::/:/bin/sh\n")
    for name in ("subuid", "subgid"):
        (etc / name).write_text(f"hekla-test:{ID_RANGE}:65536\n")
    script = 'mount -t overlay overlay -o "lowerdir=$0:/etc" /etc && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, str(etc))


def environment(home: Path) -> dict[str, str]:
    packages = [str(_SOURCES), sysconfig.get_path("purelib")]
    return {
        "PATH": os.defpath + ":/usr/sbin",
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HEKLA_CANARY": "must not reach a pod",
    }
