"""Ctrl-C while a job is followed that can go on without us: let it run, or cancel it?"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from enum import Enum, auto

import click

_LONGEST_LINE = 4096  # what a terminal gives at once
_ASKING = "d or c, then Enter: "


class Answer(Enum):
    DETACH = auto()
    CANCEL = auto()


def read_answer(line: str) -> Answer | None:
    """None for what is neither. Enter alone must not cost a night of training."""
    word = line.strip().lower()
    if "detach".startswith(word):
        return Answer.DETACH
    return Answer.CANCEL if "cancel".startswith(word) else None


async def ask_to_detach(name: str) -> Answer:
    """Asks on the terminal until there is an answer; Ctrl-C once more is one, too."""
    loop, question = asyncio.get_running_loop(), _Question()
    stdin = sys.stdin.fileno()
    # What was typed while nobody asked is no answer.
    termios.tcflush(stdin, termios.TCIFLUSH)
    loop.add_signal_handler(signal.SIGINT, question.answer, Answer.CANCEL)
    loop.add_reader(stdin, question.hear, stdin)
    try:
        click.echo(
            f"\n{name} is still there:\n"
            "  [d]etach and let it run (Enter alone does this)\n"
            "  [c]ancel it (Ctrl-C does this)\n"
            f"{_ASKING}",
            nl=False,
        )
        return await question.answered
    finally:
        loop.remove_reader(stdin)
        loop.remove_signal_handler(signal.SIGINT)


class _Question:
    def __init__(self) -> None:
        self.answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def answer(self, answer: Answer) -> None:
        if not self.answered.done():
            self.answered.set_result(answer)

    def hear(self, stdin: int) -> None:
        try:
            line = os.read(stdin, _LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError:
            line = b""  # the terminal is gone
        if answer := read_answer(line.decode(errors="replace")):
            self.answer(answer)
        else:
            click.echo(_ASKING, nl=False)
