"""What a followed job prints: its state a line at a time, and what is left of a container's line."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from hekla.cli.display import LiveDisplay, PlainDisplay, printable
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
