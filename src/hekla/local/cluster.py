"""A whole cluster on this machine: `up` runs it, `down` ends it.

The main path is `run_cluster`; its numbered steps are the life of a local cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hekla.apiserver.sockets import open_sockets
from hekla.clock import SystemClock
from hekla.errors import UsageError
from hekla.local import components
from hekla.local.components import APISERVER, CONTROLLERS, ClusterSettings
from hekla.local.layout import Layout
from hekla.local.private_files import write_private
from hekla.local.running import inspect, locked
from hekla.local.supervisor import Supervisor
from hekla.log import get_logger

if TYPE_CHECKING:
    from hekla.local.credentials import Credentials

log = get_logger("cluster")

_STOP_SECONDS = 60.0


def run_cluster(
    settings: ClusterSettings, *, takes_jobs: Callable[[], None] = lambda: None, ready: Callable[[], None]
) -> None:
    """Run a local cluster until SIGTERM or SIGINT. Returns when nothing is left.

    `takes_jobs` is called once Jobs can be created, `ready` once everything is there that they need to run.
    """
    settings.validate()
    layout = Layout(settings.data_dir)
    layout.prepare()
    # 1. One cluster per data dir.
    with _trouble_told(layout), locked(layout):
        # 2. Where the API server is reached stays the same however often it is started; who comes before it serves
        #    waits there. It takes longest to load, so it begins before anything else is done.
        sockets = open_sockets(layout.socket, settings.port or _last_port(layout))
        supervisor = Supervisor(layout.status, settings.log_level)
        supervisor.open()
        # 6. At the end nodes stop before their pods are swept, the API server last: each step, whatever the others met.
        with contextlib.ExitStack() as ending:
            ending.callback(layout.status.unlink, missing_ok=True)
            ending.callback(sockets.close)
            ending.callback(supervisor.close)
            ending.callback(_sweep, layout)
            ending.callback(_stop_workers, supervisor)
            nodes = components.node_names(settings)
            supervisor.launch(components.apiserver(layout, sockets, nodes=nodes, queue_gates=settings.queue_gates))
            # 3. Certificates and tokens, made once; the kubeconfigs that hold them.
            credentials = _write_credentials(layout, sockets.port)
            settings = _with_scheduler_conf(layout, settings)
            _sweep_others(layout, nodes)
            # 4. The others beside it. Jobs can be created as soon as the controllers are at work.
            for component in components.workers(layout, credentials, settings, sockets.port):
                supervisor.launch(component)
            supervisor.wait_until_ready(told=lambda name, _: takes_jobs() if name == CONTROLLERS else None)
            # 5. Ready; from here on whatever dies is started again.
            if not supervisor.stopping:
                ready()
                supervisor.watch()


def _stop_workers(supervisor: Supervisor) -> None:
    supervisor.stop([name for name in supervisor.names() if name != APISERVER])


@dataclass(frozen=True, slots=True)
class Stopped:
    """What `stop_cluster` found: a cluster at work, or what a killed one had left behind."""

    running: bool
    killed: bool
    pods_left: int


def stop_cluster(data_dir: Path) -> Stopped:
    """End the cluster on this data dir and whatever a killed one left behind."""
    layout = Layout(data_dir)
    running = inspect(data_dir)
    if running is not None and running.supervisor:
        _terminate(running.supervisor)
    elif running is not None:
        holder = f" (process {running.holder})" if running.holder else ""
        raise UsageError(
            f"{data_dir} is held by a cluster that is still starting, or by `hekla node`{holder}: stop that first"
        )
    left = remains_of(layout)
    if layout.run.exists():
        with locked(layout):
            _sweep(layout)
            layout.status.unlink(missing_ok=True)
    return Stopped(running is not None, left is not None, len(left or ()))


def remains_of(layout: Layout) -> list[str] | None:
    """The pods that run on without their cluster, when it was killed; None when it was not, or runs."""
    if inspect(layout.root) is not None or not layout.status.exists():
        return None
    from hekla.node.cleanup import running_pods

    return running_pods(layout.nodes)


@contextlib.contextmanager
def _trouble_told(layout: Layout) -> Iterator[None]:
    """What the machine refuses us (a full disk, a folder that is not ours), with the place."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{error.filename or layout.root}: {error.strerror or error}") from error


def _write_credentials(layout: Layout, port: int) -> Credentials:
    from hekla.local.credentials import ensure_credentials
    from hekla.local.kubeconfigs import write_component_kubeconfig, write_user_kubeconfig

    credentials = ensure_credentials(layout.pki, clock=SystemClock(), rng=random.SystemRandom())
    write_component_kubeconfig(layout.component_kubeconfig, socket=layout.socket)
    write_user_kubeconfig(layout.kubeconfig, port=port, credentials=credentials, data_dir=layout.root)
    return credentials


def _with_scheduler_conf(layout: Layout, settings: ClusterSettings) -> ClusterSettings:
    """The configuration given, or the one that cards to be shared need; recorded, so that `why` and `plan` rehearse
    with what the scheduler really uses."""
    conf = settings.scheduler_conf
    if conf is None and settings.node_gpu_memory:
        from hekla.scheduler.config import CARD_SHARING_CONFIG

        conf = layout.card_sharing_conf
        write_private(conf, CARD_SHARING_CONFIG.encode())
    if conf is None:
        layout.scheduler_conf.unlink(missing_ok=True)
    else:
        write_private(layout.scheduler_conf, f"{conf.absolute()}\n".encode())
    return replace(settings, scheduler_conf=conf)


def _sweep(layout: Layout) -> None:
    from hekla.node.agent import sweep

    report = sweep(layout.nodes)
    log.info("swept", report=report)
    if report.left:
        log.warning("some of it would not go", left="; ".join(report.left))


def _sweep_others(layout: Layout, nodes: list[str]) -> None:
    """A killed cluster's pods are taken back by their nodes; those of nodes that are not there now, by nobody."""
    from hekla.node.cleanup import sweep_others

    report = sweep_others(layout.nodes, nodes)
    if report.containers:
        log.info("swept what ran on nodes that are gone", report=report)


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
