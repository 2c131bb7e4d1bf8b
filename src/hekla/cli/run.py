"""`hekla run FILE`: submit, follow, exit with the outcome.

Without a running or named cluster a private one is started for this run and removed after it (`private_cluster.py`).
What ends the following early is in `run_attendant.py`, what is said at the end in `run_ending.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hekla.api.kinds import Obj
from hekla.api.meta import name_of
from hekla.cli.cluster import flags_too_late, given_flags, machine_options, size_options
from hekla.cli.connection import ClusterOptions, Connection, cluster_options
from hekla.cli.go_flags import GoCommand
from hekla.cli.image_tables import unused_table
from hekla.cli.main import EXIT_INTERRUPTED, silence_output
from hekla.cli.manifest import BadFile, Document, read_manifest
from hekla.cli.private_cluster import make_namespaces, private_cluster, refuse_second_of_name
from hekla.cli.run_attendant import Attendant
from hekla.cli.run_ending import Ending
from hekla.cli.run_wish import RunWish
from hekla.cli.submit import check_documents, only_job, submit_all
from hekla.clock import SystemClock
from hekla.errors import Misuse, UsageError, told_error
from hekla.local.layout import default_images
from hekla.local.running import inspect

if TYPE_CHECKING:
    from hekla.cli.display import Display
    from hekla.client.rest import Client
    from hekla.local.launch import LaunchedCluster

_PROGRAMS = frozenset({".py", ".sh", ".ipynb"})


@click.command(cls=GoCommand)
@cluster_options
@size_options
@machine_options
@click.argument("file")
@click.option("--no-logs", is_flag=True, help="Do not print the pods' logs.")
@click.option("--detach", is_flag=True, help="Submit and return; needs a running cluster.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: the outcome as one document; what happens meanwhile goes to standard error.",
)
def run(cluster: ClusterOptions, file: str, no_logs: bool, detach: bool, output: str, **size: Any) -> int:
    """Run the job in FILE and exit with its outcome. Where it does not fit on the whole of the local cluster, however
    empty, it cannot be placed; on one that stays it is left there, to start when there is more. Everything else on a
    cluster that stays is waited for.

    \b
    0 completed, 1 failed, 2 cannot be placed, 3 the file is wrong,
    64 the command line is wrong, 130 interrupted
    Example:  hekla run examples/hello-gang/job.yaml
    """
    # 1. What is wrong with the file or the command line is told before anything is started.
    documents = _read_documents(file)
    job = only_job(documents, "run").obj
    _check_wish(cluster, detach=detach, output=output)
    wish = RunWish(
        logs=not no_logs,
        detach=detach,
        json=output == "json",
        flags=cluster.flags(),
        own_files=_sees_own_files(cluster, size),
        keeps=cluster.data_dir is not None,
    )
    if wish.own_files and (told := unused_table(file, job)):
        click.echo(f"note: {told}", err=True)
    # 2. The cluster there is, or one for this run.
    with _cluster_for(cluster, size) as (connection, private):
        one = _Run(connection, documents, wish, private)
        try:
            # 3. Submit, follow, tell the outcome.
            return asyncio.run(one.run())
        except (BrokenPipeError, BaseExceptionGroup) as raised:
            if not isinstance(told_error(raised), BrokenPipeError):
                raise
            return one.lose_reader()


def _read_documents(file: str) -> list[Document]:
    if Path(file).suffix in _PROGRAMS:
        remedy = "write a Job whose `command` runs it, like examples/hello-gang/job.yaml, and run that"
        raise BadFile(f"{file} is a program, not a job file: {remedy}")
    documents = read_manifest(file)
    check_documents(documents)
    return documents


def _check_wish(options: ClusterOptions, *, detach: bool, output: str) -> None:
    if detach and output == "json":
        raise Misuse("--output json tells the outcome, which --detach does not wait for")
    if detach and not _is_there(options):
        where = f" --data-dir {shlex.quote(str(options.data_dir))}" if options.data_dir else ""
        raise UsageError(f"--detach needs a cluster that stays: start one with `hekla up --detach{where}`")


def _sees_own_files(options: ClusterOptions, size: dict[str, Any]) -> bool:
    """Whether images will be this machine's own files, and nobody said what they would have brought."""
    mapped = size["images"] or default_images(os.environ).is_file()
    return not (_is_there(options) or mapped or size["runtime"] != "machine")


def _is_there(options: ClusterOptions) -> bool:
    return options.names_a_cluster() or inspect(options.layout().root) is not None


@contextlib.contextmanager
def _cluster_for(options: ClusterOptions, size: dict[str, Any]) -> Iterator[tuple[Connection, LaunchedCluster | None]]:
    """The cluster the person means; or a private one, which goes with us and may not be complete yet."""
    if not _is_there(options):
        with private_cluster(options, size) as found:
            yield found
        return
    if given := given_flags(size):
        raise flags_too_late(options, given)
    connection = options.connection()
    if sys.stdout.isatty():
        click.echo(f"Using the cluster of {connection.access.source}", err=True)
    yield connection, None


class _Run:
    """One run from submit to outcome; the listener of its job."""

    def __init__(
        self, connection: Connection, documents: list[Document], wish: RunWish, private: LaunchedCluster | None
    ) -> None:
        self._connection = connection
        self._documents = documents
        self._wish = wish
        self._private = private
        self._started = time.monotonic()
        self._attendant = Attendant(connection, private)
        self._ending: Ending | None = None  # as soon as the job is there
        self._display: Display
        self._interrupted = False
        self._warnings: set[tuple[str, str]] = set()

    async def run(self) -> int:
        async with self._connection.client() as client:
            # 1. What a cluster for this run alone needs before it takes the file.
            if self._private:
                await make_namespaces(client, self._documents, self._connection.namespace)
                await refuse_second_of_name(client, self._documents, self._connection, flags=self._wish.flags)
            # 2. From here on there is a job, of which something is to be said however this ends.
            job = await submit_all(client, self._documents, self._connection.namespace, flags=self._wish.flags)
            if not self._private and self._connection.local_layout() is None:
                await _warn_without_webhook(client, job)
            private = self._private is not None
            self._ending = Ending(self._connection, self._wish, job, private=private, started=self._started)
            if self._wish.detach:
                click.echo(f"job.batch.volcano.sh/{name_of(job)} submitted")
                return 0
            # 3. The rest is told while it happens.
            return await self._follow(client, job, self._ending)

    async def _follow(self, client: Client, job: Obj, ending: Ending) -> int:
        from hekla.cli.follow import Follower, LogWish

        attendant = self._attendant
        self._display = _open_display(quiet=self._wish.json)
        follower = Follower(client, job, self, logs=LogWish() if self._wish.logs else None)
        following = asyncio.create_task(follower.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt, following)
        attending = asyncio.create_task(attendant.attend(following, client, job))
        try:
            final = await following
        except asyncio.CancelledError:
            self._display.close()
            if self._interrupted:
                return await ending.interrupted(client, job)
            if attendant.broken is not None:
                raise attendant.broken from None
            return await ending.give_up(client, job, follower, attendant.hopeless, attendant.missing)
        finally:
            attending.cancel()
            self._display.close()
        return ending.conclude(final, follower)

    def lose_reader(self) -> int:
        """Nobody reads on what we say."""
        silence_output()
        return self._ending.lose_reader() if self._ending else EXIT_INTERRUPTED

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None:
        self._display.changed(job, group, pods)
        self._attendant.hopeless.look(group, pods)

    def log_line(self, pod: str, line: str) -> None:
        self._display.log_line(pod, line)

    @property
    def draws_drafts(self) -> bool:
        return self._display.draws_drafts

    def log_draft(self, pod: str, draft: str) -> None:
        self._display.log_draft(pod, draft)

    def warned(self, reason: str, message: str) -> None:
        if (reason, message) not in self._warnings:
            self._warnings.add((reason, message))
            self._display.say(f"warning: {reason}: {message}")
            self._attendant.hopeless.hear(message)

    def say(self, text: str) -> None:
        self._display.say(text)

    def _interrupt(self, following: asyncio.Task[Obj]) -> None:
        self._interrupted = True
        following.cancel()


async def _warn_without_webhook(client: Client, job: Obj) -> None:
    """Where no webhook looks at a Job it is taken as it is; what that does to it nobody says later."""
    from hekla.cli.named import queue_names
    from hekla.cli.progress import queue_reason, told_reason

    code, sentence = queue_reason(job, await queue_names(client), [])
    if code:
        click.echo(f"warning: {told_reason(code, sentence)}", err=True)
    if not job["spec"].get("minAvailable"):
        untold = "spec.minAvailable is not set, and no webhook here fills it in"
        click.echo(f"warning: {untold}: this is no gang, its pods start one by one", err=True)


def _open_display(*, quiet: bool) -> Display:
    """`quiet`: standard output is for something else."""
    from hekla.cli.display import LiveDisplay, PlainDisplay

    if quiet:
        return PlainDisplay(sys.stderr)
    if not sys.stdout.isatty():
        return PlainDisplay()
    from rich.console import Console

    return LiveDisplay(Console(), SystemClock().now)
