"""`hekla up`, `down`, `status`: the local cluster's life."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.go_flags import GoCommand
from hekla.cli.output import print_table
from hekla.cli.parameters import log_level_option, output_option
from hekla.cli.upstream_flags import queue_gates_option
from hekla.errors import ApiError, Disconnected, UsageError
from hekla.local.layout import Layout, data_dir_flag
from hekla.local.private_files import write_private
from hekla.local.running import inspect


def machine_options(command: Any) -> Any:
    """What pods may have of this machine; `up`, `run` and `node` share these."""
    for option in (
        click.option(
            "--outgoing",
            type=click.Choice(["auto", "nat", "none"]),
            default="auto",
            help="How pods reach other networks: auto (through slirp4netns or pasta, where installed), nat (as root; "
            "it changes the machine's network until `hekla down`), none.",
        ),
        click.option(
            "--allow-host-path",
            type=click.Path(path_type=Path, exists=True, resolve_path=True),
            multiple=True,
            help="A path of this machine that pods may mount as hostPath; may be repeated.",
        ),
        click.option(
            "--images",
            type=click.Path(path_type=Path, exists=True, dir_okay=False, resolve_path=True),
            default=None,
            help="What images bring to this machine's own files (default: ~/.config/hekla/images.yaml).",
        ),
        click.option(
            "--runtime",
            type=click.Choice(["machine", "podman"]),
            default="machine",
            help="What other images are: this machine's own files, or real images, which podman pulls.",
        ),
    ):
        command = option(command)
    return command


def gpu_options(command: Any) -> Any:
    """What a node tells of its GPUs; `up`, `run` and `node` share these."""
    for option in (
        click.option(
            "--node-gpu-memory",
            default=0,
            help="Memory of each GPU, in MiB: pods then share them (volcano.sh/gpu-memory or gpu-number).",
        ),
        click.option("--node-gpus", default=0, help="GPUs to declare per node (nvidia.com/gpu)."),
    ):
        command = option(command)
    return command


def size_options(command: Any) -> Any:
    """How large the local cluster is; `up` and `run` share these."""
    for option in (
        click.option(
            "--simulated-nodes",
            default=0,
            help="Nodes whose pods only pretend to run, as long as their annotation hekla.dev/simulated-seconds says.",
        ),
        gpu_options,
        click.option(
            "--node-memory", default="", help="Memory to declare per node, e.g. 8Gi (default: the machine's)."
        ),
        click.option("--node-cpu", default="", help="CPUs to declare per node, e.g. 4 (default: the machine's)."),
        click.option("--nodes", default=1, help="Cut this machine into so many nodes."),
    ):
        command = option(command)
    return command


def given_flags(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which of these parameters the command line names, each flag with its value."""
    context = click.get_current_context()
    given = [one for one in context.command.params if one.name in values and _is_given(context, one.name)]
    return [(one.opts[0], str(value)) for one in given for value in _each(values[str(one.name)])]


def _is_given(context: click.Context, name: str | None) -> bool:
    return name is not None and context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def flags_too_late(options: ClusterOptions, given: list[tuple[str, str]]) -> UsageError:
    """Flags for who starts a cluster were given where one is there; with what can be typed to have them."""
    flags = list(dict.fromkeys(flag for flag, _ in given))
    named = f"{', '.join(flags[:-1])} and {flags[-1]} are" if flags[1:] else f"{flags[0]} is"
    refusal = f"a cluster is there already: {named} for the one who starts it\n"
    root = options.layout().root
    if options.names_a_cluster():
        local = options.connection().local_layout()
        if local is None or inspect(local.root) is None:
            return UsageError(
                f"{refusal}--kubeconfig or KUBECONFIG names it: leave the flags out to use it, or run this without it "
                "(`unset KUBECONFIG`) on a cluster of its own"
            )
        root = local.root
    where = data_dir_flag(root, os.environ)
    words = "".join(f" {flag} {shlex.quote(value)}" for flag, value in given)
    # Who names a cluster would name it again, when it is gone.
    again = "and this run without the flags" if options.names_a_cluster() else "or this run again"
    return UsageError(
        f"{refusal}Leave the flags out to use it as it is; or end it and what it runs with `hekla down{where}`, then "
        f"`hekla up{words} --detach{where}`, {again}"
    )


node_events_option = click.option(
    "--node-events",
    type=click.Choice(["all", "warnings"]),
    default="all",
    help="Which Events nodes write of their pods; warnings saves a write a container, two if it is stopped or fails.",
)


@click.command(cls=GoCommand)
@cluster_options
@size_options
@machine_options
@node_events_option
@click.option("--port", default=0, help="Port of the API server on 127.0.0.1 (0: the last one, or a free one).")
@click.option(
    "--scheduler-conf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="The scheduler's actions, tiers and plugins, as upstream's file.",
)
@queue_gates_option
@click.option("--detach", is_flag=True, help="Return when it is ready; `hekla down` stops it.")
@log_level_option
def up(cluster: ClusterOptions, detach: bool, **parameters: Any) -> None:
    """Start a local cluster: API server, controllers, scheduler and a node.

    Its kubeconfig lies in the data dir; --kubeconfig names a second place to write it to.

    \b
    Example:  hekla up --nodes 3
    """
    from hekla.local.components import ClusterSettings
    from hekla.local.kubeconfigs import check_replaceable
    from hekla.local.launch import Stage, launch_cluster

    layout = cluster.layout()
    copies = () if cluster.kubeconfig is None else (cluster.kubeconfig.absolute(),)
    settings = ClusterSettings(data_dir=layout.root, hidden=copies, **parameters)
    settings.validate()
    for copy in copies:
        check_replaceable(copy)
    if detach:
        launch_cluster(settings, outlives_us=True).wait_until(Stage.READY)
        _announce(layout, cluster.kubeconfig, stop=f"hekla down{data_dir_flag(layout.root, os.environ)}")
        return
    from hekla.local.cluster import run_cluster
    from hekla.log import configure_logging

    configure_logging(settings.log_level if settings.log_level != "info" else "warning")
    click.echo("Starting a local cluster …")
    run_cluster(settings, ready=lambda: _announce(layout, cluster.kubeconfig, stop="Ctrl-C"))
    click.echo("Stopped.")


@click.command(cls=GoCommand)
@cluster_options
def down(cluster: ClusterOptions) -> None:
    """Stop the local cluster and everything it runs; jobs and their state stay in the data dir.

    \b
    Example:  hekla down
    """
    from hekla.local.cluster import stop_cluster

    layout = cluster.layout()
    stopped = stop_cluster(layout.root)
    if stopped.running:
        click.echo(f"Stopped the cluster on {layout.root}.")
    elif stopped.killed:
        click.echo(
            f"The cluster on {layout.root} had been killed; ended what was left of it: {_pods(stopped.pods_left)}."
        )
    else:
        click.echo(f"No cluster was running on {layout.root}.")


@click.command(cls=GoCommand)
@cluster_options
@output_option("table", "json")
def status(cluster: ClusterOptions, output: str) -> int:
    """Show the local cluster's components and nodes.

    \b
    Example:  hekla status
    """
    from hekla.local.cluster import remains_of

    layout = cluster.layout()
    running = inspect(layout.root)
    remains = remains_of(layout)
    # Asked only where somebody answers: while the API server is being started again, questions wait.
    nodes = _nodes(cluster) if running is not None and running.serves else []
    if output == "json":
        document = {
            "dataDir": str(layout.root),
            "running": running is not None,
            "supervisor": {"pid": running.supervisor or running.holder} if running else None,
            "kubeconfig": str(layout.kubeconfig),
            "components": running.components if running else [],
            "nodes": nodes,
            "podsLeft": remains or [],
        }
        click.echo(json.dumps(document, indent=2))
        return 0 if running else 1
    where = data_dir_flag(layout.root, os.environ)
    if remains is not None:
        click.echo(f"The cluster on {layout.root} was killed; {_pods(len(remains))} of it still running.")
        taken_back = f", and takes them back if given the same flags; `hekla down{where}` ends them" if remains else ""
        click.echo(f"`hekla up{where}` starts it again{taken_back}.")
        return 1
    if running is None:
        click.echo(f"No cluster is running on {layout.root}. Start one with `hekla up{where}`.")
        return 1
    supervisor = f"pid {running.supervisor}" if running.supervisor else f"pid {running.holder}, still starting"
    click.echo(f"data dir    {layout.root}\nkubeconfig  {layout.kubeconfig}\nsupervisor  {supervisor}\n")
    rows = [
        [part["name"], part["pid"] or "-", "Ready" if part["ready"] and part["pid"] else "Starting", part["restarts"]]
        for part in running.components
    ]
    print_table(["COMPONENT", "PID", "STATUS", "RESTARTS"], rows)
    if nodes:
        from hekla.cli.usage import readable_amount

        click.echo()
        columns = ["name", "status", "cpu", "memory", *(["gpus"] if any(n["gpus"] for n in nodes) else []), "pods"]
        headers = ["NODE", *(column.upper() for column in columns[1:])]
        print_table(headers, [[readable_amount(column, str(node[column])) for column in columns] for node in nodes])
        for note in dict.fromkeys(note for node in nodes for note in node["notes"]):
            click.echo(f"\nnote: {note}")
    return 0


def _announce(layout: Layout, copy_to: Path | None, *, stop: str) -> None:
    """Say that it is ready and how to use it; `copy_to` gets the kubeconfig too when the person named a place."""
    if copy_to is not None:
        write_private(copy_to, layout.kubeconfig.read_bytes())
    shown = str(copy_to or layout.kubeconfig)
    home = str(Path.home())
    if home != "/" and shown.startswith(home + "/"):
        shown = "~" + shown[len(home) :]
    click.echo(f"Ready. In another terminal:\n\n  export KUBECONFIG={shown}\n  kubectl get nodes\n\nStop with {stop}.")
    sys.stdout.flush()


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count or 'no'} pods"


def _nodes(cluster: ClusterOptions) -> list[dict[str, Any]]:
    from hekla.api.kinds import NODE, POD
    from hekla.client.rest import Client

    async def read(client: Client) -> list[dict[str, Any]]:
        nodes = (await client.list(NODE)).items
        pods = (await client.list(POD)).items
        return [_node_row(node, pods) for node in nodes]

    local = ClusterOptions(cluster.layout().kubeconfig, None, "", "")
    try:
        return with_client(local.connection(), read)
    except (ApiError, Disconnected):
        return []


def _node_row(node: dict[str, Any], pods: list[dict[str, Any]]) -> dict[str, Any]:
    from hekla.api.core import NODE_NOTES
    from hekla.api.devices import GPU_NUMBER, NVIDIA_GPU
    from hekla.api.meta import annotations_of

    state = node.get("status", {})
    ready = next((c["status"] for c in state.get("conditions") or () if c["type"] == "Ready"), "Unknown")
    name = node["metadata"]["name"]
    live = [
        pod
        for pod in pods
        if pod.get("spec", {}).get("nodeName") == name
        and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]
    allocatable = state.get("allocatable") or {}
    return {
        "name": name,
        "status": "Ready" if ready == "True" else "NotReady",
        "cpu": allocatable.get("cpu", ""),
        "memory": allocatable.get("memory", ""),
        "gpus": int(allocatable.get(NVIDIA_GPU) or allocatable.get(GPU_NUMBER) or 0),
        "pods": len(live),
        "notes": annotations_of(node).get(NODE_NOTES, "").splitlines(),
    }
