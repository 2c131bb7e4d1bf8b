"""What tests on a real control plane begin with: a cluster as they want to find it, and a scheduler at work on it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from hekla.api import kinds
from hekla.api.kinds import Obj
from hekla.client.rest import Client
from hekla.errors import NotFound
from tests.cluster.components import HEKLA
from tests.cluster.control_plane import ControlPlane, find_binaries
from tests.eventually import eventually
from tests.scheduler.replay import NAMESPACE

_WIPED = (kinds.POD, kinds.POD_GROUP, kinds.POD_DISRUPTION_BUDGET, kinds.QUEUE, kinds.NODE, kinds.PRIORITY_CLASS)


async def wipe(client: Client) -> None:
    """The cluster as a scenario wants to find it: empty, with its namespace."""
    for kind in _WIPED:
        for obj in (await client.list(kind)).items:
            meta = obj["metadata"]
            if not meta["name"].startswith("system-"):
                with contextlib.suppress(NotFound):
                    grace = 0 if kind is kinds.POD else None
                    await client.delete(kind, meta["name"], meta.get("namespace"), grace_seconds=grace)
    for namespace in (NAMESPACE, "kube-system"):
        if await client.find(kinds.NAMESPACE, namespace) is None:
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await client.create(kinds.NAMESPACE, made)
    for namespace in (await client.list(kinds.NAMESPACE)).items:
        await client.raw("DELETE", kinds.EVENT.path(namespace["metadata"]["name"]))


@contextlib.asynccontextmanager
async def serving(client: Client, service: Obj | None) -> AsyncIterator[None]:
    """With a Service, where there is one, that is gone afterwards whatever happens."""
    if service is None:
        yield
        return
    made = (await client.create(kinds.SERVICE, service))["metadata"]
    try:
        yield
    finally:
        await client.delete(kinds.SERVICE, made["name"], made["namespace"])


@contextlib.contextmanager
def running(plane: ControlPlane, scheduler: str, directory: Path, *flags: str) -> Iterator[Path]:
    """Gives the file it logs to."""
    binaries = find_binaries()
    assert binaries is not None
    log = directory / f"{scheduler}.log"
    commands = {
        "default-scheduler": [
            binaries / "kube-scheduler", "--kubeconfig", plane.kubeconfig, "--leader-elect=false", "--secure-port", "0",
        ],
        "volcano": [HEKLA, "scheduler", "--kubeconfig", plane.kubeconfig, "--scheduler-conf", directory / "conf"],
    }  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*commands[scheduler], *flags], stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
    try:
        eventually(lambda: process.poll() is None and log.stat().st_size > 0, what=f"{scheduler} has started")
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
