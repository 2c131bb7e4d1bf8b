"""The cluster that `hekla run` starts for one run alone, and what only such a one needs for its job.

It goes when the run does, however that ends; with its files, unless a data dir was named to keep them.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from hekla.api.kinds import JOB, NAMESPACE
from hekla.api.meta import name_of, namespace_of
from hekla.cli.connection import ClusterOptions, Connection
from hekla.cli.manifest import Document
from hekla.cli.progress import phase_of
from hekla.cli.submit import namespace_flag, only_job, require_kind
from hekla.errors import AlreadyExists, UsageError

if TYPE_CHECKING:
    from hekla.client.rest import Client
    from hekla.local.launch import LaunchedCluster


@contextlib.contextmanager
def private_cluster(options: ClusterOptions, size: dict[str, Any]) -> Iterator[tuple[Connection, LaunchedCluster]]:
    """One that takes jobs, but may not be complete yet (`completion`)."""
    signal.signal(signal.SIGINT, _interrupt_once)
    with contextlib.ExitStack() as leaving:
        temporary = options.data_dir is None
        directory = Path(tempfile.mkdtemp(prefix="hekla-run-")) if temporary else options.layout().root
        if temporary:
            leaving.callback(shutil.rmtree, directory, ignore_errors=True)
        launched = _launch(directory, temporary, size)
        leaving.callback(launched.stop)
        # Following the job has a handler of its own; what comes after it must not be disturbed either.
        leaving.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)
        _wait_until_it_takes_jobs(launched)
        yield ClusterOptions(directory / "kubeconfig", None, "", options.namespace).connection(), launched


async def completion(private: LaunchedCluster) -> None:
    """Return when every part of the cluster is there; UsageError when one cannot be."""
    from hekla.local.launch import Stage

    loop, said = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(private.stages, said.set)
    try:
        while not private.has_reached(Stage.READY):
            await said.wait()
            said.clear()
            private.listen()
    finally:
        loop.remove_reader(private.stages)


async def make_namespaces(client: Client, documents: list[Document], default: str) -> None:
    """Those the file means to be in: nobody else could have made them."""
    namespaced = [document.obj for document in documents if require_kind(document).namespaced]
    for name in sorted({namespace_of(obj) or default for obj in namespaced} - {"default"}):
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def refuse_second_of_name(
    client: Client, documents: list[Document], connection: Connection, *, flags: str
) -> None:
    """Raises UsageError where a run of before has left its job in the data dir: nobody can be told to delete it there
    without a cluster. `flags` lead other commands to the same data dir."""
    job = only_job(documents, "run").obj
    name, namespace = name_of(job), namespace_of(job) or connection.namespace
    local = connection.local_layout()
    if not name or local is None or not (found := await client.find(JOB, name, namespace)):
        return
    where = connection.data_dir_flag()
    delete = f"hekla job delete {name}{flags}{namespace_flag(job, connection.namespace)}"
    raise UsageError(
        f"Job {name!r} exists already on {local.root}, where an earlier run left it "
        f"with its logs: {phase_of(found)}\n"
        f"To delete it:  hekla up --detach{where} && {delete} && hekla down{where}\n"
        "Or rename yours, use metadata.generateName, or name another --data-dir."
    )


def _interrupt_once(_number: int, _frame: FrameType | None) -> None:
    """The first Ctrl-C ends the run; a second one does not keep us from leaving nothing behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _launch(directory: Path, temporary: bool, size: dict[str, Any]) -> LaunchedCluster:
    from hekla.local.components import ClusterSettings
    from hekla.local.launch import launch_cluster

    return launch_cluster(ClusterSettings(data_dir=directory, temporary=temporary, **size), outlives_us=False)


def _wait_until_it_takes_jobs(launched: LaunchedCluster) -> None:
    from hekla.local.launch import Stage

    # Meanwhile this process loads what it needs to follow the job.
    if sys.stdout.isatty():
        click.echo("Starting a cluster for this run …", err=True)
        import rich.live  # noqa: F401
    import hekla.cli.follow  # noqa: F401

    launched.wait_until(Stage.TAKES_JOBS)
