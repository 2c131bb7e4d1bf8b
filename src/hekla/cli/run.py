"""`hekla run FILE`: submit, follow, exit with the outcome.

Without a running or named cluster a private one is started for this run and removed after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from hekla.api.batch import JobPhase
from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import JOB, NAMESPACE, POD, Obj, kind_of
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.api.reasons import Reason
from hekla.cli.cluster import flags_too_late, given_flags, machine_options, size_options
from hekla.cli.connection import ClusterOptions, Connection, cluster_options
from hekla.cli.hopeless import ABOUT_ROOM, Hopeless
from hekla.cli.image_tables import unused_images, unused_table
from hekla.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNPLACEABLE, silence_output
from hekla.cli.manifest import BadFile, Document, read_manifest
from hekla.cli.output import print_table, style
from hekla.cli.submit import check_documents, namespace_flag, only_job, require_kind, submit_all
from hekla.clock import SystemClock
from hekla.errors import AlreadyExists, Misuse, UsageError, told_error
from hekla.local.layout import data_dir_flag, default_images
from hekla.local.running import inspect

if TYPE_CHECKING:
    from hekla.cli.display import Display
    from hekla.cli.past_pods import PastPods
    from hekla.client.rest import Client
    from hekla.local.launch import LaunchedCluster

_MEASURE_SECONDS = 60.0  # until a cluster is looked at again that was large enough
_FLAGS_OF_ROOM = "--node-cpu, --node-memory, --node-gpus, --node-gpu-memory or --nodes"
_PROGRAMS = frozenset({".py", ".sh", ".ipynb"})


@click.command()
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
    0 completed, 1 failed, 2 cannot be placed, 3 the file is wrong, 64 the command line is wrong, 130 interrupted
    Example:  hekla run examples/hello-gang/job.yaml
    """
    if Path(file).suffix in _PROGRAMS:
        remedy = "write a Job whose `command` runs it, like examples/hello-gang/job.yaml, and run that"
        raise BadFile(f"{file} is a program, not a job file: {remedy}")
    documents = read_manifest(file)
    check_documents(documents)
    job = only_job(documents, "run")
    if detach and output == "json":
        raise Misuse("--output json tells the outcome, which --detach does not wait for")
    if detach and not _is_there(cluster):
        where = f" --data-dir {shlex.quote(str(cluster.data_dir))}" if cluster.data_dir else ""
        raise UsageError(f"--detach needs a cluster that stays: start one with `hekla up --detach{where}`")
    mapped = size["images"] or default_images(os.environ).is_file()
    own_files = not (_is_there(cluster) or mapped or size["runtime"] != "machine")
    if own_files:
        told = unused_table(file, job.obj)
        if told:
            click.echo(f"note: {told}", err=True)
    wish = _Wish(
        logs=not no_logs,
        detach=detach,
        json=output == "json",
        flags=cluster.flags(),
        own_files=own_files,
        keeps=cluster.data_dir is not None,
    )
    with _cluster_for(cluster, size) as (connection, private):
        one = _Run(connection, documents, wish, private)
        try:
            return asyncio.run(one.run())
        except (BrokenPipeError, BaseExceptionGroup) as raised:
            if not isinstance(told_error(raised), BrokenPipeError):
                raise
            return one.lose_reader()


def _is_there(options: ClusterOptions) -> bool:
    return options.names_a_cluster() or inspect(options.layout().root) is not None


@contextlib.contextmanager
def _cluster_for(options: ClusterOptions, size: dict[str, Any]) -> Iterator[tuple[Connection, LaunchedCluster | None]]:
    """The cluster the person means; or a private one, which goes with us and may not be complete yet."""
    if _is_there(options):
        if given := given_flags(size):
            raise flags_too_late(options, given)
        connection = options.connection()
        if sys.stdout.isatty():
            click.echo(f"Using the cluster of {connection.access.source}", err=True)
        yield connection, None
        return
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


@dataclass(frozen=True, slots=True)
class _Wish:
    """How a person wants to hear of a run. `flags`: what leads other commands to the same cluster; `own_files`: whether
    images are this machine's own files, and nobody said what they would have brought; `keeps`: whether the data dir
    stays when a cluster for this run goes."""

    logs: bool
    detach: bool
    json: bool
    flags: str
    own_files: bool = False
    keeps: bool = False


class _Run:
    """One run from submit to outcome; the listener of its job."""

    def __init__(
        self, connection: Connection, documents: list[Document], wish: _Wish, private: LaunchedCluster | None
    ) -> None:
        self._connection = connection
        self._documents = documents
        self._wish = wish
        self._private = private
        self._name = ""  # the job's, as soon as it is there
        self._status: int | None = None  # once it has ended
        self._flags = wish.flags  # what leads other commands to the job
        self._started = time.monotonic()
        self._display: Display
        self._past: PastPods
        self._interrupted = False
        self._broken: UsageError | None = None
        self._missing = ""  # what the whole of a cluster lacks for the job
        self._warnings: set[tuple[str, str]] = set()
        self._hopeless = Hopeless(time.monotonic)

    async def run(self) -> int:
        from hekla.cli.follow import Follower, LogWish

        async with self._connection.client() as client:
            if self._private:
                await _make_namespaces(client, self._documents, self._connection.namespace)
                await self._look_for_earlier(client)
            job = await submit_all(client, self._documents, self._connection.namespace, flags=self._wish.flags)
            self._flags += namespace_flag(job, self._connection.namespace)
            self._name = name_of(job)
            if self._wish.detach:
                click.echo(f"job.batch.volcano.sh/{name_of(job)} submitted")
                return 0
            self._display = _open_display(quiet=self._wish.json)
            follower = Follower(client, job, self, logs=LogWish() if self._wish.logs else None)
            self._past = follower.past
            following = asyncio.create_task(follower.run())
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt, following)
            attending = asyncio.create_task(self._attend(following, client, job))
            try:
                final = await following
            except asyncio.CancelledError:
                self._display.close()
                if self._interrupted:
                    return await self._after_interrupt(client, job)
                if self._broken is not None:
                    raise self._broken from None
                return await self._despair(client, job, follower.pods())
            finally:
                attending.cancel()
                self._display.close()
            return self._conclude(final, follower.pods(), deleted=follower.deleted)

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None:
        self._display.changed(job, group, pods)
        self._hopeless.look(group, pods)

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
            self._hopeless.hear(message)

    def say(self, text: str) -> None:
        self._display.say(text)

    async def _attend(self, following: asyncio.Task[Obj], client: Client, job: Obj) -> None:
        """End the following when there is nothing to wait for."""
        if self._private:
            await self._attend_private(following, self._private, client)
        elif inspect(root := self._connection.data_dir()):
            await self._measure(following, client, job, root)

    async def _measure(self, following: asyncio.Task[Obj], client: Client, job: Obj, root: Path) -> None:
        """On a local cluster that stays others make room, but never more than it has: then say so."""
        while True:
            await asyncio.sleep(0.25)
            if self._hopeless.for_long() and self._hopeless.code == Reason.NOT_ENOUGH_RESOURCES:
                # Brings the scheduler with it, which few runs need.
                from hekla.cli.room import missing_room

                self._missing = await missing_room(client, job, root)
                if self._missing:
                    following.cancel()
                    return
                await asyncio.sleep(_MEASURE_SECONDS)

    async def _attend_private(self, following: asyncio.Task[Obj], private: LaunchedCluster, client: Client) -> None:
        """See a private cluster through its start. After that nobody will make room on it or bring what is missing: say
        so instead of waiting for ever."""
        try:
            await _completion(private)
        except UsageError as error:
            self._broken = error
            following.cancel()
            return
        self._hopeless.count_from_now()
        others_run = False
        while True:
            await asyncio.sleep(0.25)
            if not self._hopeless.for_long():
                continue
            ran_before, others_run = others_run, await _others_run(client)
            if not others_run and not ran_before:
                following.cancel()
                return
            # Other pods of the file will make room, or have just made it.
            self._hopeless.count_from_now()

    async def _look_for_earlier(self, client: Client) -> None:
        """Raises UsageError where a run of before has left its job in the data dir: nobody can be told to delete it
        there without a cluster."""
        from hekla.cli.progress import phase_of

        job = next(document.obj for document in self._documents if kind_of(document.obj) is JOB)
        namespace = namespace_of(job) or self._connection.namespace
        if not name_of(job) or not (found := await client.find(JOB, name_of(job), namespace)):
            return
        where, flags = data_dir_flag(self._connection.data_dir(), os.environ), self._wish.flags
        delete = f"hekla job delete {name_of(job)}{flags}{namespace_flag(job, self._connection.namespace)}"
        raise UsageError(
            f"Job {name_of(job)!r} exists already on {self._connection.data_dir()}, where an earlier run left it "
            f"with its logs: {phase_of(found)}\n"
            f"To delete it:  hekla up --detach{where} && {delete} && hekla down{where}\n"
            "Or rename yours, use metadata.generateName, or name another --data-dir."
        )

    def _interrupt(self, following: asyncio.Task[Obj]) -> None:
        self._interrupted = True
        following.cancel()

    async def _despair(self, client: Client, job: Obj, pods: list[Obj]) -> int:
        from hekla.cli.rehearse import recorded_config
        from hekla.cli.why import explain_job
        from hekla.local.layout import Layout

        name, hopeless = name_of(job), self._hopeless
        if self._missing:
            click.echo(f"\n{name} cannot be placed on the whole of this cluster: {self._missing}", err=True)
            click.echo(self._ways_to_more_room(name), err=True)
            return self._report(job, pods, EXIT_UNPLACEABLE, reason=hopeless.code, message=self._missing)
        if hopeless.placed or not hopeless.code:
            click.echo(f"\n{name} cannot start: {hopeless.sentence}", err=True)
            return self._report(job, pods, EXIT_FAILED, reason=hopeless.code, message=hopeless.sentence)
        # Worked out anew: what stands on the PodGroup is upstream's sentence, which leaves out the arithmetic.
        config = recorded_config(Layout(self._connection.data_dir()))
        answer = await explain_job(client, namespace_of(job), name, config)
        sentence = str(answer["message"] or hopeless.sentence)
        click.echo(f"\n{name} cannot be placed: {sentence}", err=True)
        if hopeless.code in ABOUT_ROOM:
            click.echo(f"Ask for less, or declare more with {_FLAGS_OF_ROOM}.", err=True)
        return self._report(job, pods, EXIT_UNPLACEABLE, reason=hopeless.code, message=sentence)

    def _ways_to_more_room(self, name: str) -> str:
        where = data_dir_flag(self._connection.data_dir(), os.environ)
        more = f"`hekla down{where}`, then `hekla up{where}` with more by {_FLAGS_OF_ROOM}"
        less = f"`hekla job delete {name}{self._flags}` takes it away, to ask for less"
        return f"It stays, and starts when there is room: {more}. Or {less}."

    def lose_reader(self) -> int:
        """Nobody reads on (`hekla run … | head`), which says nothing about the job: say what becomes of it."""
        silence_output()
        if self._status is not None or not self._name:
            return EXIT_INTERRUPTED if self._status is None else self._status
        name, up = self._name, f"hekla up --detach{data_dir_flag(self._connection.data_dir(), os.environ)}"
        if not self._private:
            told = f"goes on; to see it: `hekla logs -f {name}{self._flags}`"
        elif self._wish.keeps:
            told = f"is stopped with its cluster; to see it: `{up}`, then `hekla job view {name}{self._flags}`"
        else:
            told = "is taken away with its cluster; to have it stay: `hekla up --detach`, then this run again"
        with contextlib.suppress(BrokenPipeError):
            click.echo(f"nobody reads on: {name} {told}", err=True)
        return EXIT_INTERRUPTED

    async def _after_interrupt(self, client: Client, job: Obj) -> int:
        from hekla.cli.interruption import Answer, ask_to_detach

        name = name_of(job)
        if not self._private and sys.stdin.isatty() and await ask_to_detach(name) is Answer.DETACH:
            click.echo(f"\n{name} goes on. Follow it with:  hekla logs -f {name}{self._flags}")
            return EXIT_INTERRUPTED
        await client.delete(JOB, name, namespace_of(job), uid=uid_of(job), propagation="Background")
        click.echo(f"\n{name} cancelled.", err=True)
        return EXIT_INTERRUPTED

    def _conclude(self, job: Obj, pods: list[Obj], *, deleted: bool) -> int:
        from hekla.cli.progress import phase_of, retries_of

        name, phase = name_of(job), phase_of(job)
        status = self._status = 0 if phase == JobPhase.COMPLETED and not deleted else EXIT_FAILED
        if self._wish.json:
            return self._report(job, pods, status, message="deleted by somebody else" if deleted else "")
        took = f"{time.monotonic() - self._started:.1f} s"
        if deleted:
            click.echo(f"✘ {name} was deleted by somebody else", err=True)
            return EXIT_FAILED
        if phase == JobPhase.COMPLETED:
            click.echo(style(f"✔ {name} completed in {took}", "green"))
        else:
            for line in self._past.failures(job):
                click.echo(f"  {line}", err=True)
            click.echo(style(f"✘ {name} {phase.lower()} after {took}", "red"), err=True)
            if self._wish.own_files and (told := unused_images(pods)):
                click.echo(f"note: {told}", err=True)
        self._tell_usage(job, self._past.all())
        self._suggest(name, retried=bool(retries_of(job)))
        return status

    def _report(self, job: Obj, pods: list[Obj], status: int, *, reason: str = "", message: str = "") -> int:
        """The outcome as a document, where one is wanted; the exit status."""
        if self._wish.json:
            from hekla.cli.run_report import run_document

            seconds = time.monotonic() - self._started
            document = run_document(
                job, pods, self._past, exit_status=status, seconds=seconds, reason=reason, message=message
            )
            click.echo(json.dumps(document, indent=2))
        return status

    def _tell_usage(self, job: Obj, pods: list[Obj]) -> None:
        from hekla.cli.left_files import left_files
        from hekla.cli.usage import HEADERS, usage_by_task

        usage = usage_by_task(job, pods)
        if usage:
            click.echo()
            print_table(HEADERS, [one.cells() for one in usage])
        for line in left_files(pods):
            click.echo(f"\nnote: {line}", err=True)

    def _suggest(self, name: str, *, retried: bool) -> None:
        if self._private and self._wish.keeps:
            where = data_dir_flag(self._connection.data_dir(), os.environ)
            click.echo(
                "\nThe cluster was started for this run and is gone; the job and its logs are kept. To have it again:"
            )
            click.echo(f"\n  hekla up --detach{where}\n  hekla logs {name}{self._flags}")
            return
        if self._private:
            click.echo(
                "\nThe cluster was started for this run and is gone. To keep one, for kubectl too:\n\n  hekla up"
            )
            return
        click.echo("\nNext:")
        # Only nodes of ours keep what pods said that were made anew.
        earlier = ["logs -p"] if retried and inspect(self._connection.data_dir()) else []
        for verb in ("logs", *earlier, "job view", "job delete"):
            click.echo(f"  hekla {verb} {name}{self._flags}")


async def _others_run(client: Client) -> bool:
    """Whether anything runs, or is about to. Asked when nothing of our job does."""
    from hekla.cli.progress import stuck_reason, unstartable_reason

    pods = [pod for pod in (await client.list(POD)).items if (pod.get("spec") or {}).get("nodeName")]
    alive = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in FINISHED_POD_PHASES]
    return any(not stuck_reason([pod])[0] and not unstartable_reason(pod)[0] for pod in alive)


async def _make_namespaces(client: Client, documents: list[Document], default: str) -> None:
    """Those the file means to be in: nobody else could have made them on a cluster for this run alone."""
    namespaced = [document.obj for document in documents if require_kind(document).namespaced]
    for name in sorted({namespace_of(obj) or default for obj in namespaced} - {"default"}):
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def _completion(private: LaunchedCluster) -> None:
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


def _open_display(*, quiet: bool) -> Display:
    """`quiet`: standard output is for something else."""
    from hekla.cli.display import LiveDisplay, PlainDisplay

    if quiet:
        return PlainDisplay(sys.stderr)
    if not sys.stdout.isatty():
        return PlainDisplay()
    from rich.console import Console

    return LiveDisplay(Console(), SystemClock().now)
