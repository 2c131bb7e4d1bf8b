"""The newest unfinished line of all pods, standing below their lines on a terminal, and rewritten in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TextIO

_DRAW_SECONDS = 0.5


class DraftLine:
    """Whoever else writes to the terminal asks it to make way before."""

    def __init__(self, terminal: TextIO, columns: Callable[[], int]) -> None:
        self._terminal = terminal
        self._columns = columns
        self._pod = ""
        self._text = ""
        self._stands = False
        self._drawing: asyncio.TimerHandle | None = None

    def show(self, pod: str, text: str) -> None:
        """Before long: of the drafts of many pods, a few in a second are enough."""
        self._pod, self._text = pod, text
        self._draw_soon()

    def make_way(self, pod: str = "") -> None:
        """For a line; one of `pod` takes the place of its draft."""
        self._erase()
        if pod == self._pod:
            self._text = ""
        elif self._text:
            self._draw_soon()

    def leave(self) -> None:
        """What stands stays, and who comes next begins a line of their own."""
        if self._drawing is not None:
            self._drawing.cancel()
        if self._stands:
            print(file=self._terminal, flush=True)
            self._stands = False

    def _draw_soon(self) -> None:
        if self._drawing is None:
            self._drawing = asyncio.get_running_loop().call_later(_DRAW_SECONDS, self._draw)

    def _draw(self) -> None:
        from rich.cells import cell_len, set_cell_size

        self._drawing = None
        self._erase()
        if self._text:
            text = self._text.expandtabs()
            # Not into the last column, from which some terminals go on to the next line.
            fitting = set_cell_size(text, min(cell_len(text), self._columns() - 1))
            print(fitting, end="", file=self._terminal, flush=True)
            self._stands = True

    def _erase(self) -> None:
        if self._stands:
            print("\r\x1b[K", end="", file=self._terminal, flush=True)
            self._stands = False
