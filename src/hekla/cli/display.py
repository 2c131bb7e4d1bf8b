"""How a followed job looks: a live table over merged logs on a terminal, plain lines anywhere else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TextIO

from hekla.api.batch import JobPhase
from hekla.api.kinds import Obj
from hekla.api.meta import name_of, parse_timestamp
from hekla.cli.output import duration, printable
from hekla.cli.progress import TaskRow, is_finished, phase_of, retries_of, task_rows, told_reason, waiting_reason

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.segment import Segments
    from rich.style import Style
    from rich.text import Text

_FLUSH_SECONDS = 0.05
_MOST_DRAFTS = 8  # shown, so that the table stays on the screen
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
_PHASE_COLOURS = {"Completed": "green", "Failed": "red", "Aborted": "red", "Terminated": "red", "Running": "cyan"}

_MAKING_PODS = frozenset({JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING})


class Display(Protocol):
    @property
    def draws_drafts(self) -> bool: ...

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None: ...

    def log_line(self, pod: str, line: str) -> None: ...

    def log_draft(self, pod: str, draft: str) -> None:
        """How far the pod has come with a line that has not ended."""

    def say(self, text: str) -> None:
        """A line of our own, between the job's."""

    def close(self) -> None:
        """Stop drawing; what stands on the screen stays."""


class PlainDisplay:
    """One line a change, no control characters: for files, pipes and CI logs."""

    draws_drafts = False

    def __init__(self, output: TextIO = sys.stdout) -> None:
        self._output = output
        self._last = ""

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None:
        rows = task_rows(job, pods)
        code, sentence = waiting_reason(group, pods)
        waiting = f" ({told_reason(code, sentence)})" if code and not is_finished(job) else ""
        retried = f" ({retries_of(job)})" if retries_of(job) else ""
        line = f"{name_of(job)}: {phase_of(job)}{retried}, {_counts(rows, phase_of(job))}{waiting}"
        if line != self._last:
            self._last = line
            self.say(line)

    def log_line(self, pod: str, line: str) -> None:
        self.say(f"{pod} | {printable(line)}")

    def log_draft(self, pod: str, draft: str) -> None:
        """Nothing is taken back where this is read: the line comes when it has ended."""

    def say(self, text: str) -> None:
        print(text, file=self._output, flush=True)

    def close(self) -> None:
        self._output.flush()


class LiveDisplay:
    """A table that redraws in place below the logs, which scroll by above it; between them, unfinished lines."""

    draws_drafts = True

    def __init__(self, console: Console, now: Callable[[], datetime]) -> None:
        from rich.live import Live

        self._waiting: list[tuple[str, str]] = []
        self._flush_due: asyncio.TimerHandle | None = None
        self._console = console
        self._now = now
        self._job: Obj | None = None
        self._group: Obj | None = None
        self._pods: list[Obj] = []
        self._styles: dict[str, Style] = {}
        self._drafts: dict[str, str] = {}
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=False)
        self._live.start()

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None:
        self._job, self._group, self._pods = job, group, pods
        self._live.refresh()

    def log_line(self, pod: str, line: str) -> None:
        self._drafts.pop(pod, None)
        self._waiting.append((pod, printable(line)))
        # Each print redraws the table: many lines go out together.
        if self._flush_due is None:
            self._flush_due = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._flush)

    def log_draft(self, pod: str, draft: str) -> None:
        """Seen when the table is redrawn next."""
        self._drafts[pod] = draft

    def say(self, text: str) -> None:
        self._flush()
        self._console.print(text, markup=False, highlight=False)

    def _flush(self) -> None:
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush_due = None
        if self._waiting:
            # Long lines are the terminal's to break: done here, one of a megabyte takes ten seconds.
            self._console.print(self._lines(), soft_wrap=True)
            self._waiting = []

    def _lines(self) -> Segments:
        from rich.segment import Segment, Segments

        parts = []
        for pod, line in self._waiting:
            parts += [Segment(f"{pod} │ ", self._style(pod)), Segment(f"{line}\n")]
        return Segments(parts)

    def _style(self, pod: str) -> Style:
        from rich.style import Style

        return self._styles.setdefault(pod, Style(color=_COLOURS[len(self._styles) % len(_COLOURS)]))

    def close(self) -> None:
        self._flush()
        self._live.refresh()
        self._live.stop()

    def _render(self) -> RenderableType:
        if self._job is None:
            return ""
        from rich import box
        from rich.console import Group
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        job, phase = self._job, phase_of(self._job)
        elapsed = self._now() - parse_timestamp(job["metadata"]["creationTimestamp"])
        title = Text.assemble(
            (name_of(job), "bold"),
            "  ",
            (phase, _PHASE_COLOURS.get(phase, "yellow")),
            f"  {duration(elapsed.total_seconds())}",
            (f"  {retries_of(job)}", "yellow"),
        )
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for header in ("TASK", "PENDING", "RUNNING", "DONE", "FAILED", "RESTARTS"):
            table.add_column(header, justify="left" if header == "TASK" else "right")
        rows = task_rows(job, self._pods)
        for row in rows:
            table.add_row(
                f"{row.name} ×{row.wanted}",
                *map(_or_dot, (row.pending, row.running, row.done, row.failed, row.restarts)),
            )
        code, sentence = waiting_reason(self._group, self._pods)
        reason = [Text(told_reason(code, sentence), style="yellow"), Text()] if code and not is_finished(job) else []
        # The cursor stays on the last line: an empty one, that the "^C" a terminal shows does not break.
        return Group(*self._draft_lines(), title, Text(), Padding(table, (0, 0, 0, 1)), Text(), *reason)

    def _draft_lines(self) -> list[Text]:
        from rich.text import Text

        # Copied at once: the table is redrawn by a thread of its own.
        drafts = sorted((pod, printable(draft)) for pod, draft in self._drafts.copy().items())
        lines = [Text.assemble((f"{pod} │ ", self._style(pod)), draft) for pod, draft in drafts[:_MOST_DRAFTS]]
        if len(drafts) > _MOST_DRAFTS:
            lines.append(Text(f"… and {len(drafts) - _MOST_DRAFTS} more"))
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return lines


def _counts(rows: list[TaskRow], phase: str) -> str:
    none = "no pods yet" if phase in _MAKING_PODS else "no pods left"
    words = []
    for row in rows:
        parts = [
            f"{count} {word}"
            for word, count in (
                ("pending", row.pending), ("running", row.running), ("done", row.done),
                ("failed", row.failed), ("restarts", row.restarts),
            )
            if count
        ]  # fmt: skip
        words.append(f"{row.name} {', '.join(parts) if parts else none}")
    return "; ".join(words)


def _or_dot(count: int) -> str:
    return str(count) if count else "·"
