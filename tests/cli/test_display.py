"""What a followed job prints: its state a line at a time, and what is left of a container's line."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from hekla.cli.display import LiveDisplay, PlainDisplay
from hekla.cli.output import printable
from tests import make


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plain\tüñ", "plain\tüñ"),
        ("\x1b[31mred\x1b[0m\x1b[2J", "red"),
        ("\x1b]0;title\x07rest", "rest"),
        ("10%\r20%\r30%", "30%"),
        ("windows\r", "windows"),
        ("bell\x07 zero\x00", "bell� zero�"),
    ],
)
def test_nothing_drives_the_terminal_and_what_it_would_show_stays(line: str, expected: str) -> None:
    assert printable(line) == expected


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("Pending", "no pods yet"),
        ("Running", "no pods yet"),
        ("Completing", "no pods left"),
        ("Failed", "no pods left"),
    ],
)
def test_pods_that_were_there_are_not_still_to_come(phase: str, said: str) -> None:
    output = io.StringIO()
    job = {**make.job("j", make.task("ps")), "status": {"state": {"phase": phase}}}
    PlainDisplay(output).changed(job, None, [])
    assert output.getvalue() == f"j: {phase}, ps {said}\n"


def test_on_a_terminal_a_line_stays_whole_however_long_it_is() -> None:
    said = [("a-0", "x" * 1_000_000), ("b-0", ""), ("a-0", "last")]
    assert shown(said).splitlines() == [f"{pod} │ {line}" for pod, line in said]


def shown(said: list[tuple[str, str]]) -> str:
    output = io.StringIO()
    asyncio.run(_show(said, Console(file=output, width=40, force_terminal=False)))
    return output.getvalue()


async def _show(said: list[tuple[str, str]], console: Console) -> None:
    display = LiveDisplay(console, lambda: datetime.now(UTC))
    for pod, line in said:
        display.log_line(pod, line)
    display.close()


def test_on_a_terminal_lines_that_have_not_ended_stand_above_the_table() -> None:
    output = io.StringIO()
    console = Console(file=output, width=40, force_terminal=True, color_system=None)
    asyncio.run(_draw(console))
    drawn = output.getvalue()
    assert "a-0 │ 20%\n" in drawn.replace("\r", "").replace(" \n", "\n")
    assert "10%" not in drawn
    assert "\x1b[31m" not in drawn
    assert "… and 2 more" in drawn
    # In the last picture the line that has ended is no draft any more.
    assert "20%" not in drawn[: drawn.rindex("b-0 │")].splitlines()[-1]
    assert drawn.count("a-0 │ 100%") == 1


async def _draw(console: Console) -> None:
    display = LiveDisplay(console, lambda: datetime.now(UTC))
    job = {**make.job("j", make.task("t")), "status": {"state": {"phase": "Running"}}}
    display.log_draft("a-0", "\x1b[31m10%\r20%")
    for number in range(9):
        display.log_draft(f"b-{number}", f"{'x' * 100}")
    display.changed(job, None, [])
    display.log_line("a-0", "10%\r20%\r100%")
    display.close()


def test_elsewhere_a_line_is_told_when_it_has_ended() -> None:
    output = io.StringIO()
    display = PlainDisplay(output)
    display.log_draft("a-0", "10%")
    display.log_line("a-0", "10%\r100%")
    assert output.getvalue() == "a-0 | 100%\n"


@pytest.mark.parametrize("waiting", [False, True])
def test_the_cursor_waits_on_a_line_with_room_for_what_the_terminal_echoes(waiting: bool) -> None:
    """A "^C" that broke the last line of the table would have it redrawn one row too low."""
    output = io.StringIO()
    console = Console(file=output, width=40, force_terminal=True, color_system=None)
    display = LiveDisplay(console, lambda: datetime.now(UTC))
    group = make.pod_group("g")
    if waiting:
        group["metadata"]["annotations"] = {"hekla.dev/waiting-reason": "NoNodeMatches"}
    display.changed({**make.job("j", make.task("t")), "status": {"state": {"phase": "Pending"}}}, group, [])
    drawn = output.getvalue()
    display.close()
    assert ("NoNodeMatches" in drawn) is waiting
    rows = drawn[drawn.rindex("j  Pending") :].split("\n")
    assert rows[-1] == ""
    assert rows[1].strip() == ""
    assert rows[2].startswith(" TASK")
