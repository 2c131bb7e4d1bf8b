"""One component alone: `hekla apiserver`, `controllers`, `scheduler`, `node`, each against any cluster."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from hekla.cli.cluster import gpu_options, machine_options, node_events_option
from hekla.cli.connection import ClusterOptions, cluster_options
from hekla.cli.election import election_of, election_options
from hekla.cli.go_flags import GoCommand
from hekla.cli.parameters import Duration, log_level_option
from hekla.cli.upstream_flags import (
    CONTROLLERS_TO_COME,
    MOOT_FOR_CONTROLLERS,
    MOOT_FOR_SCHEDULER,
    MOOT_FOR_WEBHOOK,
    boolean,
    chosen,
    feature_gates,
    health_address,
    health_options,
    moot,
    pairs,
    queue_gates_option,
    refuse_to_share,
    sharding_option,
    version_option,
)
from hekla.clock import SystemClock
from hekla.errors import Misuse, UsageError
from hekla.local.layout import Layout, default_data_dir, default_images
from hekla.local.manifests import LEASES
from hekla.local.supervisor import Ready, run_until_terminated
from hekla.log import configure_logging
from hekla.metrics import serving_health

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_UNREACHABLE = (
    "note: without --tls-cert-file, --tls-private-key-file and --client-ca-file the cluster cannot ask this node:"
    " `kubectl logs`, `exec`, `attach` and `port-forward` will not work for its pods"
)
_TWO_SCHEDULERS = "has a scheduler of its own: both act on the same pods, unless --scheduler-name differs"
_NOT_MISSED = (
    "does not find out when a node of this command is gone: take it away then with `kubectl delete node`,"
    " and its pods with `kubectl delete pod --force`"
)
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command(cls=GoCommand)
@cluster_options
@click.option("--port", default=0, help="Port on 127.0.0.1 (0: a free one).")
@queue_gates_option
@log_level_option
def apiserver(cluster: ClusterOptions, port: int, queue_gates: bool, log_level: str) -> None:
    """Run the API server alone, on the data dir's store.

    \b
    Example:  hekla apiserver --data-dir /tmp/cluster
    """
    from hekla.apiserver.sockets import open_sockets
    from hekla.local import components
    from hekla.local.credentials import ensure_credentials
    from hekla.local.kubeconfigs import write_component_kubeconfig, write_user_kubeconfig

    configure_logging(log_level)
    layout = cluster.layout()
    layout.prepare()
    credentials = ensure_credentials(layout.pki, clock=SystemClock(), rng=random.SystemRandom())
    write_component_kubeconfig(layout.component_kubeconfig, socket=layout.socket)

    with contextlib.closing(open_sockets(layout.socket, port)) as sockets:
        write_user_kubeconfig(layout.kubeconfig, port=sockets.port, credentials=credentials, data_dir=layout.root)
        words = f"serving on https://127.0.0.1:{sockets.port}, kubeconfig {layout.kubeconfig}"
        component = components.apiserver(layout, sockets, queue_gates=queue_gates)
        run_until_terminated(component.run, ready=lambda _: click.echo(words, err=True))


@click.command(cls=GoCommand)
@cluster_options
@click.option(
    "--scheduler-name", multiple=True, default=("volcano",), help="Bare pods with this schedulerName get a PodGroup."
)
@boolean("--enable-metrics", help="Serve figures for Prometheus at /metrics.")
@click.option("--listen-address", default=":8081", help="Where to serve them.")
@click.option("--controllers", "wanted", multiple=True, help="Which to run, e.g. *,-gc-controller (default: *).")
@boolean("--inherit-owner-annotations", default=True, help="Give PodGroups the annotations of their pods' owners.")
@election_options
@health_options
@feature_gates
@moot(MOOT_FOR_CONTROLLERS)
@version_option
@log_level_option
def controllers(cluster: ClusterOptions, log_level: str, **flags: Any) -> None:
    """Run the controllers of Jobs, CronJobs, JobFlows, JobTemplates, queues and pod groups.

    \b
    Example:  hekla controllers --kubeconfig ~/.kube/config
    """
    _note_on_local(cluster, "controllers", "has controllers of its own: both act on the same Jobs")

    async def run(ready: Ready) -> None:
        from hekla.controllers import controllers as volcano

        say_ready = _once(lambda: ready("controllers"))
        async with cluster.connection().client() as client:
            election = election_of(cluster, client, flags, name=LEASES["controllers"], standing_by=say_ready)
            await volcano.run(
                election.fenced(client) if election else client,
                clock=SystemClock(),
                rng=random.SystemRandom(),
                wanted=chosen("--controllers", flags["wanted"], volcano.CONTROLLERS, later=CONTROLLERS_TO_COME),
                schedulers=tuple(flags["scheduler_name"]),
                inherit_owner_annotations=flags["inherit_owner_annotations"],
                metrics_address=flags["listen_address"] if flags["enable_metrics"] else "",
                election=election,
                ready=say_ready,
            )

    _serve(run, log_level, health=health_address(flags))


@click.command(cls=GoCommand)
@cluster_options
@click.option("--scheduler-conf", type=_FILE, default=None, help="Actions, tiers and plugins, as upstream's file.")
@click.option("--scheduler-name", multiple=True, default=("volcano",), help="Pods with this schedulerName are ours.")
@click.option("--plugins-dir", type=_FOLDER, default=None, help="Python files with plugins of your own.")
@click.option("--plugin-budget", type=Duration(), default="2s", help="Longest call of a plugin of your own.")
@click.option("--default-queue", default="default", help="Queue of groups that name none.")
@click.option("--schedule-period", type=Duration(), default="1s", help="Longest pause between two cycles.")
@boolean("--enable-metrics", help="Serve figures for Prometheus at /metrics.")
@click.option("--listen-address", default=":8080", help="Where to serve them.")
@click.option(
    "--node-selector", multiple=True, metavar="KEY:VALUE", help="Leave nodes with none of these labels alone."
)
@boolean("--priority-class", default=True, help="Give groups the priority of the class they name.")
@boolean("--disable-default-scheduler-config", help="Refuse to start without --scheduler-conf.")
@election_options
@health_options
@queue_gates_option
@sharding_option
@moot(MOOT_FOR_SCHEDULER)
@version_option
@log_level_option
def scheduler(cluster: ClusterOptions, log_level: str, **flags: Any) -> None:
    """Run the gang scheduler.

    \b
    Example:  hekla scheduler --scheduler-conf conf.yaml
    """

    refuse_to_share(os.environ)
    if flags["disable_default_scheduler_config"] and flags["scheduler_conf"] is None:
        raise Misuse("--disable-default-scheduler-config needs a --scheduler-conf")
    node_labels = pairs("--node-selector", flags["node_selector"])
    _note_on_local(cluster, "scheduler", _TWO_SCHEDULERS)

    async def run(ready: Ready) -> None:
        from hekla.scheduler import scheduler as volcano

        settings = volcano.SchedulerSettings(
            scheduler_names=tuple(flags["scheduler_name"]),
            conf=flags["scheduler_conf"],
            plugins_dir=flags["plugins_dir"],
            plugin_seconds=flags["plugin_budget"],
            default_queue=flags["default_queue"],
            node_labels=node_labels,
            priority_classes=flags["priority_class"],
            metrics_address=flags["listen_address"] if flags["enable_metrics"] else "",
            period=flags["schedule_period"],
            queue_gates=flags["queue_gates"],
        )
        names, say_ready = settings.scheduler_names, _once(lambda: ready("scheduler"))
        lease = names[0] if len(names) == 1 else LEASES["scheduler"]
        async with cluster.connection().client() as client:
            election = election_of(cluster, client, flags, name=lease, standing_by=say_ready)
            await volcano.run(
                election.fenced(client) if election else client,
                clock=SystemClock(),
                rng=random.SystemRandom(),
                settings=settings,
                election=election,
                ready=say_ready,
            )

    _serve(run, log_level, health=health_address(flags))


@click.command(cls=GoCommand)
@cluster_options
@click.option("--name", default="", help="The node's name (default: this host's).")
@click.option("--node-cpu", default="", help="CPUs to declare (default: the machine's).")
@click.option("--node-memory", default="", help="Memory to declare (default: the machine's).")
@gpu_options
@machine_options
@node_events_option
@click.option(
    "--simulated-nodes",
    default=0,
    help="Be so many nodes whose pods only pretend to run, as long as hekla.dev/simulated-seconds on them says.",
)
@click.option("--tls-cert-file", type=_FILE, default=None, help="Serving certificate for logs.")
@click.option("--tls-private-key-file", type=_FILE, default=None, help="Its key.")
@click.option("--client-ca-file", type=_FILE, default=None, help="Who may read logs: the API server's client CA.")
@log_level_option
def node(cluster: ClusterOptions, name: str, log_level: str, **flags: Any) -> None:
    """Run a node: pods bound to it become isolated processes on this machine.

    \b
    Example:  hekla node --kubeconfig ~/.kube/config --name laptop
    """

    from hekla.local.components import validate_gpus
    from hekla.local.running import locked

    validate_gpus(flags["node_gpus"], flags["node_gpu_memory"])
    tls = [flags["tls_cert_file"], flags["tls_private_key_file"], flags["client_ca_file"]]
    if any(tls) and not all(tls):
        raise Misuse("--tls-cert-file, --tls-private-key-file and --client-ca-file belong together")
    if not any(tls):
        click.echo(_UNREACHABLE, err=True)
    _note_on_local(cluster, "apiserver", _NOT_MISSED)
    name = name or socket.gethostname().lower()
    # A lone node keeps its pods apart from the local cluster's, which would not know them.
    layout = cluster.layout() if cluster.data_dir else Layout(default_data_dir(os.environ) / "alone" / name)
    layout.prepare()
    # Pods must not find what lets us act on the cluster.
    secrets = (cluster.kubeconfig, flags["tls_private_key_file"])

    async def simulate(ready: Ready) -> None:
        from hekla.node.simulated import SimulatedNode, run_simulated

        size = {
            "cpu": flags["node_cpu"] or "32",
            "memory": flags["node_memory"] or "128Gi",
            "gpus": flags["node_gpus"],
            "gpu_memory": flags["node_gpu_memory"],
        }
        nodes = [SimulatedNode(f"{name}-{index}", **size) for index in range(flags["simulated_nodes"])]
        async with cluster.connection().client() as client:
            await run_simulated(
                client,
                nodes,
                clock=SystemClock(),
                rng=random.SystemRandom(),
                ready=lambda: ready("node"),
                signs_of_life=True,
            )

    async def run(ready: Ready) -> None:
        from hekla.node import agent

        connection = cluster.connection()
        settings = agent.NodeSettings(
            name=name,
            data_dir=layout.nodes,
            cpu=flags["node_cpu"] or None,
            memory=flags["node_memory"] or None,
            gpus=flags["node_gpus"],
            gpu_memory=flags["node_gpu_memory"],
            tls_certificate=flags["tls_cert_file"],
            tls_key=flags["tls_private_key_file"],
            client_ca=flags["client_ca_file"],
            hidden_paths=tuple(path for path in (layout.root, *secrets) if path is not None),
            host_paths=flags["allow_host_path"],
            outgoing=flags["outgoing"],
            images=flags["images"] or default_images(os.environ),
            runtime=flags["runtime"],
            events=flags["node_events"],
            api_server=_tcp_address(connection.access.server),
        )
        async with connection.client() as client:
            await agent.run(
                client, settings, clock=SystemClock(), rng=random.SystemRandom(), ready=lambda: ready("node")
            )

    with locked(layout):
        _serve(simulate if flags["simulated_nodes"] else run, log_level)


@click.command(cls=GoCommand)
@cluster_options
@click.option("--port", default=8443, help="Port to listen on.")
@click.option("--tls-cert-file", type=_FILE, required=True, help="Serving certificate.")
@click.option("--tls-private-key-file", type=_FILE, required=True, help="Its key.")
@click.option("--ca-cert-file", type=_FILE, required=True, help="Whom the API server trusts to have signed it.")
@click.option("--webhook-url", default="", help="Where the API server reaches us, e.g. https://10.0.0.5:8443.")
@click.option("--webhook-service-name", default="", help="Or the Service it reaches us by,")
@click.option("--webhook-namespace", default="volcano-system", help="and that Service's namespace.")
@click.option("--scheduler-name", multiple=True, default=("volcano",), help="Pods with this schedulerName are checked.")
@click.option("--max-queue-depth", default=5, help="How deep queues may be nested.")
@click.option("--admission-conf", type=_FILE, default=None, help="File with resource groups, as upstream's.")
@click.option("--enabled-admission", default="", help="Paths to register, comma-separated (default: all that apply).")
@boolean("--enable-root-queue-protection", default=True, help="Refuse changes of the root queue's resources.")
@boolean("--enable-queue-allocated-pods-check", help="Keep queues from deletion while pods of theirs have nodes.")
@health_options
@queue_gates_option
@moot(MOOT_FOR_WEBHOOK)
@version_option
@log_level_option
def webhook(cluster: ClusterOptions, log_level: str, **flags: Any) -> None:
    """Run admission for a real cluster: defaults and checks behind HTTPS.

    With --webhook-url or --webhook-service-name the webhook configurations are written to the cluster as soon as it
    listens. Certificates that are renewed in their files are taken in while it runs.

    \b
    Example:  hekla webhook --tls-cert-file w.crt --tls-private-key-file w.key \\
                --ca-cert-file ca.crt
    """

    async def run(ready: Ready) -> None:
        from hekla.admission import server
        from hekla.admission.certificate import read_authority
        from hekla.admission.queue import QueueRules
        from hekla.admission.resource_groups import GroupsFile
        from hekla.admission.review import VolcanoAdmission

        settings = server.WebhookSettings(flags["tls_cert_file"], flags["tls_private_key_file"], port=flags["port"])
        async with cluster.connection().client() as client:
            admission = VolcanoAdmission(
                client,
                schedulers=tuple(flags["scheduler_name"]),
                queue_rules=QueueRules(
                    max_depth=flags["max_queue_depth"],
                    protect_root=flags["enable_root_queue_protection"],
                    check_allocated_pods=flags["enable_queue_allocated_pods_check"],
                ),
                groups=GroupsFile(flags["admission_conf"]) if flags["admission_conf"] else None,
                queue_gates=flags["queue_gates"],
            )
            where = _webhook_address(flags)
            authority, paths = read_authority(flags["ca_cert_file"]), _enabled_paths(flags)

            async def announce() -> None:
                from hekla.local.bootstrap import register_webhooks, unregister_webhooks

                if where is not None:
                    described = partial(
                        server.webhook_configurations, authority, where, namespace=flags["webhook_namespace"]
                    )
                    await register_webhooks(client, described(paths))
                    await unregister_webhooks(client, described({one.path for one in server.SERVICES} - paths))

            await server.run(
                settings, admission, announce=announce, ready=lambda port: ready(f"webhook on port {port}")
            )

    _serve(run, log_level, health=health_address(flags))


def _tcp_address(url: str) -> tuple[str, int] | None:
    """Where a server really is, for pods to be led there; None for a unix socket."""
    parts = urlsplit(url)
    return (parts.hostname, parts.port or 443) if parts.scheme == "https" and parts.hostname else None


def _webhook_address(flags: dict[str, Any]) -> Callable[[str], dict[str, Any]] | None:
    """For a path, how a webhook configuration names us; None when we are not to be registered."""
    if flags["webhook_url"]:
        return lambda path: {"url": flags["webhook_url"].rstrip("/") + path}
    if flags["webhook_service_name"]:
        service = {"name": flags["webhook_service_name"], "namespace": flags["webhook_namespace"]}
        return lambda path: {"service": {**service, "path": path}}
    return None


def _enabled_paths(flags: dict[str, Any]) -> set[str]:
    """What the cluster shall ask us: about pods, before they exist, where there are resource groups or gates."""
    from hekla.admission.server import SERVICES

    known = {service.path for service in SERVICES}
    wanted = {path.strip() for path in flags["enabled_admission"].split(",") if path.strip()}
    if wanted - known:
        raise UsageError(f"--enabled-admission: no such path {', '.join(sorted(wanted - known))}")
    return wanted or (known if flags["admission_conf"] or flags["queue_gates"] else known - {"/pods/mutate"})


def _note_on_local(cluster: ClusterOptions, component: str, meaning: str) -> None:
    """Say what it means that the cluster is a local one which runs this component."""
    from hekla.local.running import inspect

    local = cluster.connection().local_layout()
    running = inspect(local.root) if local else None
    if local and running and any(part["name"] == component for part in running.components):
        click.echo(f"note: the local cluster on {local.root} {meaning}", err=True)


def _once(say: Callable[[], None]) -> Callable[[], None]:
    """One who stands by is ready, and does not become so again by leading."""
    left = [say]
    return lambda: left.pop()() if left else None


def _serve(run: Callable[[Ready], Awaitable[None]], log_level: str, *, health: str = "") -> None:
    """Run a component until it is told to stop; where `health` is an address, it tells there that it lives."""

    async def run_and_tell(ready: Ready) -> None:
        async with serving_health(health) if health else contextlib.nullcontext():
            await run(ready)

    configure_logging(log_level)
    run_until_terminated(run_and_tell, ready=lambda word: click.echo(f"{word} ready", err=True))
