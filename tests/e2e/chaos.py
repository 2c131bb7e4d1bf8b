"""Chaos: a cluster at work, and somebody who kills its processes at random.

    python -m tests.e2e.chaos --kills 100 --seed 7 --account user

Pods run all the while, each once (`restartPolicy: Never`): every start leaves a mark on the host, every pod ends with a
code of its own. Afterwards nobody may have run twice, every code must be the pod's own unless that very pod was killed,
whatever was killed must be back in time, and nothing may be left of it all. The same seed draws the same kills.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hekla.api.kinds import POD, Obj
from hekla.client.kubeconfig import Access, connect
from hekla.client.rest import Client
from hekla.errors import ApiError, Disconnected, NotFound
from hekla.local.layout import Layout
from hekla.node.hooks.volumes import secret_root
from tests.e2e.local_cluster import processes_of
from tests.eventually import LIMIT_SECONDS, eventually, soon, until
from tests.node.rig import USER, as_account, environment, sweep_as

_COMPONENTS = ("apiserver", "controllers", "scheduler", "node-local")
_CROWD = 6
# Lives for a while, then ends with its own code; what is said to it does not matter.
_LIFE = "echo once >> /marks/$NAME; n=0; while [ $n -lt $TURNS ]; do sleep 0.1; n=$((n + 1)); done; exit $CODE"
T = TypeVar("T")


@dataclass
class Report:
    """What was done and found. `wrong` must be empty."""

    kills: Counter[str] = field(default_factory=Counter)
    pods: int = 0
    longest: float = 0.0  # seconds until what was killed was back
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.kills.items()))
        verdict = "\n".join(self.wrong) or "nothing wrong: every pod ran once, every code is right, nothing is left"
        counts = f"{self.kills.total()} kills ({kinds}), {self.pods} pods"
        return f"{counts}, back after {self.longest:.1f} s at most\n{verdict}"


class Cluster:
    """`hekla up`, started as often as it takes."""

    def __init__(self, home: Path, account: str) -> None:
        self.layout = Layout(home / "data")
        self.marks = home / "marks"
        self._home = home
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when it is ready."""
        program = [*as_account(self._account), "-c", "from hekla.cli.main import main; main()", "up"]
        flags = ["--data-dir", str(self.layout.root), "--allow-host-path", str(self.marks)]
        output = (self._home / "up.log").open("wb")
        with output:
            self._process = subprocess.Popen(
                [*program, *flags], stdout=output, stderr=output, env=environment(self._home), start_new_session=True
            )
        eventually(self._is_ready, what="hekla up is ready")

    def _is_ready(self) -> bool:
        said = (self._home / "up.log").read_text()
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"hekla up ended: {said}")
        return "Ready." in said

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(LIMIT_SECONDS)

    def reap(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def supervisor(self) -> int:
        assert self._process is not None
        return self._process.pid

    def components(self) -> dict[str, Obj]:
        with contextlib.suppress(OSError, ValueError):
            return {each["name"]: each for each in json.loads(self.layout.status.read_text())["components"]}
        return {}

    def found(self, pattern: str) -> list[Path]:
        """What is there now below the nodes' folder. Pods come and go: `Path.glob` would stumble."""
        return [Path(path) for path in glob.glob(str(self.layout.nodes / pattern))]

    def records(self, name: str) -> Iterator[Obj]:
        """Every record of that name, by a pattern below the nodes' folder."""
        for path in self.found(name):
            with contextlib.suppress(OSError, ValueError):
                yield json.loads(path.read_text())

    def containers(self) -> list[tuple[str, Obj]]:
        """Uid and start record of every container that runs."""
        found = []
        for path in self.found("pods/*/containers/*/*/started.json"):
            if not (path.parent / "exit.json").exists():
                with contextlib.suppress(OSError, ValueError):
                    found.append((path.parents[3].name, json.loads(path.read_text())))
        return found


class Chaos:
    def __init__(self, cluster: Cluster, client: Client, rng: random.Random, patience: float) -> None:
        self._patience = patience
        self._cluster = cluster
        self._client = client
        self._rng = rng
        self._codes: dict[str, int] = {}
        self._names: dict[str, str] = {}  # of pods, by uid
        self._hit: set[str] = set()  # uids of pods that were killed themselves
        self.report = Report()

    async def run(self, kills: int) -> Report:
        deeds = [self._kill_container, self._kill_shim, self._kill_pause, self._kill_switch, self._kill_spawner]
        deeds += [self._kill_component] * 4 + [self._stop_for_a_while, self._kill_everything]
        # In rounds, each in an order of its own: even a short run does everything once.
        rounds = [self._rng.sample(deeds, len(deeds)) for _ in range(-(-kills // len(deeds)))]
        for deed in [deed for each in rounds for deed in each][:kills]:
            await self._keep_the_crowd()
            await deed()
        await self._settle()
        return self.report

    # -- the pods ---------------------------------------------------------------------------------------------------

    async def _keep_the_crowd(self) -> None:
        """Have enough pods that are not over, and one that runs."""
        await until(self._is_crowded, what="a container runs")

    async def _is_crowded(self) -> bool:
        for _ in range(_CROWD - sum(not _is_over(pod) for pod in await self._pods())):
            await self._create()
        return bool(self._cluster.containers())

    async def _create(self) -> None:
        name, code = f"pod-{len(self._codes)}", self._rng.randrange(100)
        self._codes[name] = code
        env = {
            "NAME": name,
            "CODE": str(code),
            "TURNS": str(self._rng.randrange(5, 40)),
            "RUN": str(self._cluster.marks),
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": "local",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "volumes": [{"name": "marks", "hostPath": {"path": str(self._cluster.marks)}}],
                "containers": [
                    {
                        "name": "main",
                        "image": "any",
                        "command": ["sh", "-c", _LIFE],
                        "env": [{"name": key, "value": value} for key, value in env.items()],
                        "volumeMounts": [{"name": "marks", "mountPath": "/marks"}],
                    }
                ],
            },
        }
        await self._persist(lambda: self._create_once(pod))

    async def _create_once(self, pod: Obj) -> None:
        """A create whose answer was lost may have been carried out."""
        found = await self._client.find(POD, pod["metadata"]["name"], "default")
        made = found or await self._client.create(POD, pod)
        self._names[made["metadata"]["uid"]] = pod["metadata"]["name"]

    # -- the deeds --------------------------------------------------------------------------------------------------

    async def _kill_container(self) -> None:
        self._kill_one_of_a_pod("container")

    async def _kill_shim(self) -> None:
        self._kill_one_of_a_pod("shim")

    def _kill_one_of_a_pod(self, which: str) -> None:
        running = self._cluster.containers()
        if running:
            uid, record = self._rng.choice(running)
            self._hit.add(self._names.get(uid, uid))
            self._kill(which, record[which]["pid"])

    async def _kill_pause(self) -> None:
        """A pod's network goes with it, in the end; what runs in the pod does not."""
        records = list(self._cluster.records("pods/*/sandbox.json"))
        if records:
            self._kill("pause", self._rng.choice(records)["process"]["pid"])

    async def _kill_switch(self) -> None:
        for record in self._cluster.records("switch.json"):
            self._kill("switch", record["process"]["pid"])

    async def _kill_spawner(self) -> None:
        agent = self._cluster.components().get("node-local", {}).get("pid")
        for child in _children(agent) if agent else ():
            if _name_of(child) == "hekla-spawner":
                self._kill("spawner", child)

    async def _kill_component(self) -> None:
        name = self._rng.choice(_COMPONENTS)
        killed = self._cluster.components()[name]["pid"]
        if not killed:
            return
        self._kill(name, killed)
        began = time.monotonic()
        await soon(lambda: self._is_back(name, killed), what=f"{name} is back")
        self._note(began)

    async def _stop_for_a_while(self) -> None:
        """Not dead, but deaf: a laptop's lid, a debugger, a machine that swaps."""
        pids = [part["pid"] for part in self._cluster.components().values() if part["pid"]]
        pids += [record[which]["pid"] for _, record in self._cluster.containers() for which in ("shim", "container")]
        pid = self._rng.choice(pids)
        self._kill("stopped", pid, signal.SIGSTOP)
        await asyncio.sleep(self._rng.uniform(0.2, 2.0))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    async def _kill_everything(self) -> None:
        pids = [part["pid"] for part in self._cluster.components().values() if part["pid"]]
        self._kill("everything", self._cluster.supervisor)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.reap()
        began = time.monotonic()
        await asyncio.to_thread(self._cluster.start)
        self._note(began)

    def _kill(self, what: str, pid: int, number: int = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            self.report.kills[what] += 1

    def _is_back(self, name: str, killed: int) -> bool:
        part = self._cluster.components().get(name, {})
        return bool(part.get("ready")) and part.get("pid") not in (0, killed)

    def _note(self, began: float) -> None:
        took = time.monotonic() - began
        self.report.longest = max(self.report.longest, took)
        if took > self._patience:
            self.report.wrong.append(f"back only after {took:.1f} s")

    # -- the end ----------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Everybody ends; then everything goes."""
        await until(self._all_are_over, what="every pod is over")
        pods = await self._pods()
        self.report.pods = len(pods)
        for pod in pods:
            self._judge(pod)
        if len(pods) != len(self._codes):
            self.report.wrong.append(f"{len(self._codes)} pods were made, {len(pods)} are there")
        for pod in pods:
            await self._persist(lambda name=pod["metadata"]["name"]: self._delete(name))
        await until(self._all_are_gone, what="every pod is gone")

    async def _all_are_over(self) -> bool:
        return all(_is_over(pod) for pod in await self._pods())

    async def _all_are_gone(self) -> bool:
        return not await self._pods()

    async def _pods(self) -> list[Obj]:
        return await self._persist(lambda: self._client.find_all(POD, "default"))

    def _judge(self, pod: Obj) -> None:
        name = pod["metadata"]["name"]
        status = pod["status"]["containerStatuses"][0]
        code = status["state"].get("terminated", {}).get("exitCode")
        mark = self._cluster.marks / name
        runs = mark.read_text().count("once") if mark.exists() else 0
        if runs > 1 or status["restartCount"]:
            self.report.wrong.append(f"{name} ran {runs} times, {status['restartCount']} restarts")
        if code != self._codes[name] and not (name in self._hit and code == 137):
            self.report.wrong.append(f"{name} ended with {code}, not {self._codes[name]}: {status['state']}")
        if code == self._codes[name] and runs != 1:
            self.report.wrong.append(f"{name} is said to have ended with its code {code} and ran {runs} times")

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(POD, name, "default")

    async def _persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """As any client must: ask again until somebody answers."""

        async def asked() -> list[T]:
            with contextlib.suppress(ApiError, Disconnected, OSError):
                async with asyncio.timeout(10):
                    return [await ask()]
            return []

        (answer,) = await until(asked, what="the API server answers")
        return answer


def rampage(kills: int, seed: int, account: str, patience: float) -> Report:
    """`patience`: seconds within which what was killed must be back. What went wrong keeps its folder."""
    home = Path(tempfile.mkdtemp(prefix="hekla-chaos-"))
    home.chmod(0o755)
    cluster = Cluster(home, account)
    cluster.marks.mkdir()
    if account == "user" and os.geteuid() == 0:
        for path in (home, cluster.marks):
            os.chown(path, USER, USER)
    try:
        cluster.start()
        report = asyncio.run(_run(cluster, kills, random.Random(seed), patience))
        report.wrong += leftovers(cluster, "while the cluster runs")
        cluster.stop()
        report.wrong += leftovers(cluster, "after the cluster") + _cluster_left(cluster)
    finally:
        cluster.reap()
        sweep_as(account, cluster.layout.nodes)
    if report.wrong:
        report.wrong.append(f"see {home}")
    else:
        shutil.rmtree(home)
    return report


async def _run(cluster: Cluster, kills: int, rng: random.Random, patience: float) -> Report:
    client = connect(Access(server=f"unix://{cluster.layout.socket}"))
    try:
        return await Chaos(cluster, client, rng, patience).run(kills)
    finally:
        await client.close()


def leftovers(cluster: Cluster, when: str) -> list[str]:
    """What pods that are gone have left behind. Given a moment: the last steps come after the object has gone."""
    return [f"{when}: {each}" for each in _what_stays(lambda: _traces(cluster))]


def _what_stays(look: Callable[[], list[str]]) -> list[str]:
    with contextlib.suppress(AssertionError):
        eventually(lambda: not look())
    return look()


def _traces(cluster: Cluster) -> list[str]:
    marker = f"RUN={cluster.marks}".encode()
    found = [f"folder {path}" for path in cluster.found("pods/*")]
    found += [
        f"mount {line}"
        for line in Path("/proc/self/mounts").read_text().splitlines()
        if str(cluster.layout.root) in line
    ]
    memory = secret_root(cluster.layout.nodes)
    found += [f"secrets {path}" for path in (memory.iterdir() if memory.is_dir() else ())]
    identity = cluster.layout.nodes.stat()
    own = f"/sys/fs/cgroup/**/hekla-{identity.st_dev:x}-{identity.st_ino:x}"
    found += [f"control group {path}" for path in glob.glob(f"{own}/*.main.*", recursive=True)]
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker in (entry / "environ").read_bytes():
                found.append(f"process {entry.name} {_name_of(int(entry.name))}")
    return found


def _cluster_left(cluster: Cluster) -> list[str]:
    """Shims, pauses, the switch: all carry the data directory's name. Their links and networks go with them."""
    found = _what_stays(lambda: processes_of(cluster.layout.root))
    identity = cluster.layout.nodes.stat()
    groups = glob.glob(f"/sys/fs/cgroup/**/hekla-{identity.st_dev:x}-{identity.st_ino:x}", recursive=True)
    return [f"after the cluster: {each}" for each in [*found, *groups]]


def _is_over(pod: Obj) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    parser.add_argument("--account", choices=["root", "user"], default="root" if os.geteuid() == 0 else "user")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds until what was killed must be back")
    given: Any = parser.parse_args()
    print(f"seed {given.seed}, as {given.account}")
    report = rampage(given.kills, given.seed, given.account, given.patience)
    print(report)
    sys.exit(bool(report.wrong))


if __name__ == "__main__":
    main()
