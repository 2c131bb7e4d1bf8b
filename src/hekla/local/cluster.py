"""A whole cluster on this machine: `up` runs it, `down` ends it, `inspect` tells what is there.

The main path is `run_cluster`; its numbered steps are the life of a local cluster.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import select
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hekla.clock import SystemClock
from hekla.errors import UsageError
from hekla.local import components
from hekla.local.components import APISERVER, ClusterSettings
from hekla.local.credentials import ensure_credentials
from hekla.local.kubeconfigs import write_component_kubeconfig, write_user_kubeconfig
from hekla.local.layout import Layout
from hekla.local.private_files import write_private
from hekla.local.supervisor import Supervisor
from hekla.log import get_logger

log = get_logger("cluster")

_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """What can be seen of a running cluster from outside."""

    supervisor: int
    components: list[dict[str, object]]


def run_cluster(settings: ClusterSettings, *, ready: Callable[[Path], None]) -> None:
    """Run a local cluster until SIGTERM or SIGINT; `ready` is told the kubeconfig. Returns when nothing is left."""
    settings.validate()
    layout = Layout(settings.data_dir)
    layout.prepare()
    # 1. One cluster per data dir.
    with locked(layout):
        # 2. Certificates and the token, made once.
        credentials = ensure_credentials(layout.pki, clock=SystemClock(), rng=random.SystemRandom())
        write_component_kubeconfig(layout.component_kubeconfig, socket=layout.socket)
        _record_scheduler_conf(layout, settings.scheduler_conf)
        components.preload_apiserver()
        supervisor = Supervisor(layout.status, settings.log_level)
        supervisor.open()
        try:
            # 3. The API server first: everything else speaks to it. It keeps its port across restarts.
            port = settings.port or _last_port(layout)
            first = components.apiserver(layout, credentials, port)
            words = supervisor.start([first], meanwhile=components.preload_workers)
            if not supervisor.stopping:
                port = int(words[APISERVER])
                supervisor.replace(components.apiserver(layout, credentials, port))
                write_user_kubeconfig(layout.kubeconfig, port=port, credentials=credentials)
                # 4. Controllers, scheduler and nodes, side by side.
                others = components.workers(layout, credentials, settings, port)
                supervisor.start(others)
            # 5. Ready; from here on whatever dies is started again.
            if not supervisor.stopping:
                ready(layout.kubeconfig)
                supervisor.watch()
        finally:
            # 6. Nodes stop before their pods are swept, the API server last.
            supervisor.stop([component["name"] for component in _read_status(layout) if component["name"] != APISERVER])
            _sweep(layout)
            supervisor.close()
            layout.status.unlink(missing_ok=True)


def inspect(data_dir: Path) -> RunningCluster | None:
    """The cluster running on this data dir, if one is."""
    layout = Layout(data_dir)
    if not _is_locked(layout):
        return None
    with contextlib.suppress(OSError, ValueError):
        document = json.loads(layout.status.read_text())
        return RunningCluster(int(document["pid"]), list(document["components"]))
    return RunningCluster(0, [])


def stop_cluster(data_dir: Path) -> bool:
    """End the cluster on this data dir and whatever a killed one left behind. False: nothing was running."""
    layout = Layout(data_dir)
    running = inspect(data_dir)
    if running is not None and running.supervisor:
        _terminate(running.supervisor)
    elif running is not None:
        raise UsageError(f"{data_dir} is held by a cluster that is still starting, or by `hekla node`: stop that first")
    if layout.run.exists():
        with locked(layout):
            _sweep(layout)
    return running is not None


def _record_scheduler_conf(layout: Layout, conf: Path | None) -> None:
    """So that `why` and `plan` rehearse with what the scheduler really uses."""
    if conf is None:
        layout.scheduler_conf.unlink(missing_ok=True)
    else:
        write_private(layout.scheduler_conf, f"{conf.absolute()}\n".encode())


def _sweep(layout: Layout) -> None:
    from hekla.node.agent import sweep

    report = sweep(layout.nodes)
    log.info("swept", report=report)


@contextlib.contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Hold a data dir for ourselves: two clusters, or a cluster and a lone node, would take each other's pods away."""
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            # A record lock: forked components do not inherit it, so it ends with the supervisor alone.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"a cluster or node is already running on {layout.root}: use it (kubeconfig {layout.kubeconfig}), "
                "stop it with `hekla down`, or choose another --data-dir"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _is_locked(layout: Layout) -> bool:
    try:
        descriptor = os.open(layout.lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_status(layout: Layout) -> list[dict[str, str]]:
    with contextlib.suppress(OSError, ValueError):
        return list(json.loads(layout.status.read_text())["components"])
    return []


def _last_port(layout: Layout) -> int:
    """The port of the last run, so that kubeconfigs in people's shells stay good; 0 when it is taken or unknown."""
    try:
        cluster = json.loads(layout.kubeconfig.read_text())["clusters"][0]["cluster"]
        port = int(str(cluster["server"]).rpartition(":")[2])
    except (OSError, ValueError, KeyError, IndexError):
        return 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _terminate(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not select.select([descriptor], [], [], _STOP_SECONDS)[0]:
            raise UsageError(f"the cluster (process {pid}) did not stop in {_STOP_SECONDS:.0f} s")
    finally:
        os.close(descriptor)


__all__ = ["ClusterSettings", "RunningCluster", "inspect", "run_cluster", "stop_cluster"]
