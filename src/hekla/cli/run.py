"""`hekla run FILE`: submit, follow, exit with the outcome.

Without a running or named cluster a private one is started for this run and removed after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hekla.api.batch import JobPhase
from hekla.api.kinds import JOB, Obj, kind_of
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.cli.cluster import size_options
from hekla.cli.connection import ClusterOptions, Connection, cluster_options
from hekla.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNPLACEABLE
from hekla.cli.manifest import BadFile, Document, read_manifest
from hekla.cli.submit import check_documents, create_document
from hekla.clock import SystemClock

# How long nothing may fit on a cluster that has nothing else to do before we say that it never will.
_UNPLACEABLE_SECONDS = 1.0


@click.command()
@cluster_options
@size_options
@click.argument("file")
@click.option("--no-logs", is_flag=True, help="Do not print the pods' logs.")
@click.option("--detach", is_flag=True, help="Submit and return; needs a running cluster.")
def run(cluster: ClusterOptions, file: str, no_logs: bool, detach: bool, **size: Any) -> int:
    """Run the job in FILE and exit with its outcome.

    \b
    0 completed, 1 failed, 2 cannot be placed, 3 the file is wrong, 130 interrupted
    Example:  hekla run examples/hello-gang/job.yaml
    """
    documents = read_manifest(file)
    jobs = [document for document in documents if kind_of(document.obj) is JOB]
    if len(jobs) != 1:
        raise BadFile(f"{file}: `hekla run` needs exactly one batch.volcano.sh Job in the file, found {len(jobs)}")
    check_documents(documents, cluster.namespace or "default")
    with _cluster_for(cluster, size, file) as (connection, private):
        if cluster.namespace or connection.namespace != "default":
            check_documents(documents, cluster.namespace or connection.namespace)
        one = _Run(connection, documents, private=private, logs=not no_logs, detach=detach, flags=cluster.flags())
        return asyncio.run(one.run())


@contextlib.contextmanager
def _cluster_for(options: ClusterOptions, size: dict[str, Any], file: str) -> Iterator[tuple[Connection, bool]]:
    from hekla.local.cluster import inspect

    if options.names_a_cluster() or inspect(options.layout().root) is not None:
        yield options.connection(), False
        return
    from hekla.local.components import ClusterSettings
    from hekla.local.launch import launch_cluster

    directory = options.data_dir or Path(tempfile.mkdtemp(prefix="hekla-run-"))
    launched = launch_cluster(ClusterSettings(data_dir=directory, **size), outlives_us=False)
    if sys.stdout.isatty():
        click.echo("Starting a cluster for this run …")
    try:
        # While the cluster starts, this process loads what it needs to talk to it.
        import rich.live  # noqa: F401

        from hekla.client.transport import load_http_library

        load_http_library()
        launched.wait_until_ready()
        yield ClusterOptions(directory / "kubeconfig", None, "", options.namespace).connection(), True
    finally:
        launched.stop()
        if options.data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)


class _Run:
    """One run from submit to outcome."""

    def __init__(
        self, connection: Connection, documents: list[Document], *, private: bool, logs: bool, detach: bool, flags: str
    ) -> None:
        from hekla.cli.display import Display

        self._connection = connection
        self._documents = documents
        self._private = private
        self._logs = logs
        self._detach = detach
        self._flags = flags
        self._started = time.monotonic()
        self._display: Display
        self._interrupts = 0
        self._unplaceable_since: float | None = None
        self._unplaceable = ""

    async def run(self) -> int:
        from hekla.cli.follow import Follower

        client = self._connection.client()
        try:
            job = await self._submit(client)
            if self._detach:
                click.echo(f"job.batch.volcano.sh/{name_of(job)} submitted")
                return 0
            self._display = _open_display()
            follower = Follower(client, job, self, logs=self._logs)
            following = asyncio.create_task(follower.run())
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt, following)
            give_up = asyncio.create_task(self._give_up(following))
            try:
                final = await following
            except asyncio.CancelledError:
                self._display.close()
                return await self._after_interrupt(client, job)
            finally:
                give_up.cancel()
            self._display.close()
            return self._conclude(final, follower.pods(), deleted=follower.deleted)
        finally:
            await client.close()

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None:
        from hekla.cli.progress import waiting_reason

        self._display.changed(job, group, pods)
        code, sentence = waiting_reason(group, [])
        placed = any((pod.get("spec") or {}).get("nodeName") for pod in pods)
        if code and not placed:
            self._unplaceable = sentence
            self._unplaceable_since = self._unplaceable_since or time.monotonic()
        else:
            self._unplaceable_since = None

    def log_line(self, pod: str, line: str) -> None:
        self._display.log_line(pod, line)

    async def _submit(self, client: Any) -> Obj:
        job: Obj = {}
        # What the job needs (queues, config maps) first, whatever their order in the file.
        for document in sorted(self._documents, key=lambda document: kind_of(document.obj) is JOB):
            created = await create_document(client, document)
            if kind_of(document.obj) is JOB:
                job = created
        return job

    async def _give_up(self, following: asyncio.Task[Obj]) -> None:
        """On a private cluster nothing will ever make room: say so instead of waiting for ever."""
        while self._private:
            await asyncio.sleep(0.25)
            since = self._unplaceable_since
            if since is not None and time.monotonic() - since >= _UNPLACEABLE_SECONDS:
                following.cancel()
                return

    def _interrupt(self, following: asyncio.Task[Obj]) -> None:
        self._interrupts += 1
        following.cancel()

    async def _after_interrupt(self, client: Any, job: Obj) -> int:
        name = name_of(job)
        if not self._interrupts:
            click.echo(f"\n{name} cannot be placed: {self._unplaceable}", err=True)
            click.echo(
                "Ask for less, or declare more with --node-cpu, --node-memory, --node-gpus or --nodes.", err=True
            )
            return EXIT_UNPLACEABLE
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGINT)
        if not self._private and sys.stdin.isatty() and await asyncio.to_thread(_wants_to_detach, name):
            click.echo(f"\n{name} goes on. Follow it with:  hekla logs -f {name}{self._flags}")
            return EXIT_INTERRUPTED
        await client.delete(JOB, name, namespace_of(job), uid=uid_of(job), propagation="Background")
        click.echo(f"\n{name} cancelled.", err=True)
        return EXIT_INTERRUPTED

    def _conclude(self, job: Obj, pods: list[Obj], *, deleted: bool) -> int:
        from hekla.cli.progress import failures, phase_of

        name, phase = name_of(job), phase_of(job)
        took = f"{time.monotonic() - self._started:.1f} s"
        if deleted:
            click.echo(f"✘ {name} was deleted by somebody else", err=True)
            return EXIT_FAILED
        if phase == JobPhase.COMPLETED:
            click.echo(click.style(f"✔ {name} completed in {took}", fg="green"))
        else:
            for line in failures(pods):
                click.echo(f"  {line}", err=True)
            click.echo(click.style(f"✘ {name} {phase.lower()} after {took}", fg="red"), err=True)
        self._suggest(name)
        return 0 if phase == JobPhase.COMPLETED else EXIT_FAILED

    def _suggest(self, name: str) -> None:
        if self._private:
            click.echo(
                "\nThe cluster was started for this run and is gone. To keep one, for kubectl too:\n\n  hekla up"
            )
            return
        click.echo("\nNext:")
        for verb in ("logs", "job view", "job delete"):
            click.echo(f"  hekla {verb} {name}{self._flags}")


def _open_display() -> Any:
    from hekla.cli.display import LiveDisplay, PlainDisplay

    if not sys.stdout.isatty():
        return PlainDisplay()
    from rich.console import Console

    return LiveDisplay(Console(), SystemClock().now)


def _wants_to_detach(name: str) -> bool:
    try:
        answer = click.prompt(
            f"\n{name} is still there: [d]etach and let it run, or [c]ancel it (Ctrl-C cancels)",
            type=click.Choice(["d", "c"]),
            show_choices=False,
        )
    except (click.Abort, KeyboardInterrupt):
        return False
    return bool(answer == "d")
