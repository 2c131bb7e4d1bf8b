"""How a `hekla run` ends: what is said then, what becomes of the job, and the exit status."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING

import click

from hekla.api.batch import JobPhase
from hekla.api.kinds import JOB, Obj
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.cli.alike import told_together
from hekla.cli.connection import Connection
from hekla.cli.hopeless import ABOUT_ROOM, Hopeless
from hekla.cli.image_tables import unused_images
from hekla.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNPLACEABLE
from hekla.cli.output import print_table, printable_lines, style
from hekla.cli.progress import phase_of, retries_of
from hekla.cli.run_wish import RunWish
from hekla.cli.submit import namespace_flag
from hekla.cli.unseen_files import unseen_files
from hekla.local.running import inspect

if TYPE_CHECKING:
    from hekla.cli.follow import Follower
    from hekla.cli.past_pods import PastPods
    from hekla.client.rest import Client

_FLAGS_OF_ROOM = "--node-cpu, --node-memory, --node-gpus, --node-gpu-memory or --nodes"


class Ending:
    """Each way to end is a method that returns the exit status. Made when the job is there; `started` is by the
    monotonic clock."""

    def __init__(self, connection: Connection, wish: RunWish, job: Obj, *, private: bool, started: float) -> None:
        self._connection = connection
        self._wish = wish
        self._private = private
        self._started = started
        self._name = name_of(job)
        self._flags = wish.flags + namespace_flag(job, connection.namespace)  # lead other commands to the job
        self._status: int | None = None  # once the job has ended

    def conclude(self, job: Obj, follower: Follower) -> int:
        """The job has ended, or is gone."""
        name, phase, deleted = self._name, phase_of(job), follower.deleted
        status = self._status = 0 if phase == JobPhase.COMPLETED and not deleted else EXIT_FAILED
        if self._wish.json:
            return self._report(job, follower, status, message="deleted by somebody else" if deleted else "")
        took = f"{time.monotonic() - self._started:.1f} s"
        if deleted:
            click.echo(f"✘ {name} was deleted by somebody else", err=True)
            return EXIT_FAILED
        if phase == JobPhase.COMPLETED:
            click.echo(style(f"✔ {name} completed in {took}", "green"))
        else:
            for line in told_together(follower.past.failures(job)):
                click.echo(printable_lines(f"  {line}"), err=True)
            click.echo(style(f"✘ {name} {phase.lower()} after {took}", "red"), err=True)
            if self._wish.own_files and (told := unused_images(follower.pods())):
                click.echo(f"note: {told}", err=True)
            if (self._private or self._connection.local_layout()) and (unseen := unseen_files(follower.pods())):
                click.echo(printable_lines(f"note: {unseen}"), err=True)
        _tell_usage(job, follower.past)
        self._suggest(retried=bool(retries_of(job)))
        return status

    async def give_up(self, client: Client, job: Obj, follower: Follower, hopeless: Hopeless, missing: str) -> int:
        """There is nothing to wait for; `missing`: because the whole of the cluster lacks this."""
        if missing:
            click.echo(
                printable_lines(f"\n{self._name} cannot be placed on the whole of this cluster: {missing}"), err=True
            )
            click.echo(self._ways_to_more_room(), err=True)
            return self._report(job, follower, EXIT_UNPLACEABLE, reason=hopeless.code, message=missing)
        if hopeless.placed or not hopeless.code:
            click.echo(printable_lines(f"\n{self._name} cannot start: {hopeless.sentence}"), err=True)
            return self._report(job, follower, EXIT_FAILED, reason=hopeless.code, message=hopeless.sentence)
        sentence = await self._why_not_placed(client, job) or hopeless.sentence
        click.echo(printable_lines(f"\n{self._name} cannot be placed: {sentence}"), err=True)
        if hopeless.code in ABOUT_ROOM:
            click.echo(f"Ask for less, or declare more with {_FLAGS_OF_ROOM}.", err=True)
        return self._report(job, follower, EXIT_UNPLACEABLE, reason=hopeless.code, message=sentence)

    async def interrupted(self, client: Client, job: Obj) -> int:
        """Ctrl-C: a job that can go on without us does, if that is what is wanted."""
        from hekla.cli.interruption import Answer, ask_to_detach

        if not self._private and sys.stdin.isatty() and await ask_to_detach(self._name) is Answer.DETACH:
            click.echo(f"\n{self._name} goes on. Follow it with:  hekla logs -f {self._name}{self._flags}")
            return EXIT_INTERRUPTED
        await client.delete(JOB, self._name, namespace_of(job), uid=uid_of(job), propagation="Background")
        click.echo(f"\n{self._name} cancelled.", err=True)
        return EXIT_INTERRUPTED

    def lose_reader(self) -> int:
        """Nobody reads on (`hekla run … | head`), which says nothing about the job: say what becomes of it."""
        if self._status is not None:
            return self._status
        if not self._private:
            told = f"goes on; to see it: `hekla logs -f {self._name}{self._flags}`"
        elif self._wish.keeps:
            up = f"hekla up --detach{self._connection.data_dir_flag()}"
            told = f"is stopped with its cluster; to see it: `{up}`, then `hekla job view {self._name}{self._flags}`"
        else:
            told = "is taken away with its cluster; to have it stay: `hekla up --detach`, then this run again"
        with contextlib.suppress(BrokenPipeError):
            click.echo(f"nobody reads on: {self._name} {told}", err=True)
        return EXIT_INTERRUPTED

    async def _why_not_placed(self, client: Client, job: Obj) -> str:
        """Worked out anew: what stands on the PodGroup is upstream's sentence, which leaves out the arithmetic."""
        from hekla.cli.rehearse import recorded_config
        from hekla.cli.why import explain_job

        config = recorded_config(self._connection.local_layout())
        answer = await explain_job(client, namespace_of(job), self._name, config)
        return str(answer["message"] or "")

    def _ways_to_more_room(self) -> str:
        where = self._connection.data_dir_flag()
        more = f"`hekla down{where}`, then `hekla up{where}` with more by {_FLAGS_OF_ROOM}"
        less = f"`hekla job delete {self._name}{self._flags}` takes it away, to ask for less"
        return f"It stays, and starts when there is room: {more}. Or {less}."

    def _suggest(self, *, retried: bool) -> None:
        if self._private and self._wish.keeps:
            click.echo(
                "\nThe cluster was started for this run and is gone; the job and its logs are kept. To have it again:"
            )
            up = f"hekla up --detach{self._connection.data_dir_flag()}"
            click.echo(f"\n  {up}\n  hekla logs {self._name}{self._flags}")
            return
        if self._private:
            click.echo(
                "\nThe cluster was started for this run and is gone. To keep one, for kubectl too:\n\n  hekla up"
            )
            return
        click.echo("\nNext:")
        # Only nodes of ours keep what pods said that were made anew.
        local = self._connection.local_layout()
        earlier = ["logs -p"] if retried and local and inspect(local.root) else []
        for verb in ("logs", *earlier, "job view", "job delete"):
            click.echo(f"  hekla {verb} {self._name}{self._flags}")

    def _report(self, job: Obj, follower: Follower, status: int, *, reason: str = "", message: str = "") -> int:
        """The outcome as a document, where one is wanted; the exit status."""
        if self._wish.json:
            from hekla.cli.run_report import run_document

            pods, seconds = follower.pods(), time.monotonic() - self._started
            document = run_document(
                job, pods, follower.past, exit_status=status, seconds=seconds, reason=reason, message=message
            )
            click.echo(json.dumps(document, indent=2))
        return status


def _tell_usage(job: Obj, past: PastPods) -> None:
    from hekla.cli.left_files import left_files
    from hekla.cli.usage import HEADERS, usage_by_task

    pods = past.all()
    usage = usage_by_task(job, pods)
    if usage:
        click.echo()
        print_table(HEADERS, [one.cells() for one in usage])
    for line in left_files(pods):
        click.echo(f"\nnote: {line}", err=True)
