"""Lines that are written over before they end: the progress bars of people who train.

A carriage return ends a draft of a line. A terminal would be left with the newest one; nothing else of an unfinished
line is kept here, however long it is drawn.
"""

from __future__ import annotations

_SHOWN_BYTES = 2000  # more than a terminal is wide


class Drafts:
    """Cuts what comes into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, chunk: bytes) -> list[bytes]:
        """The lines that have ended now, without their newline."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = _newest(rest)
        return lines

    @property
    def rest(self) -> bytes:
        """What no newline has come for."""
        return self._rest

    @property
    def shown(self) -> str:
        """The same, as far as a screen has room for it; a character that is half there is left out."""
        return self._rest[:_SHOWN_BYTES].decode(errors="ignore")


def _newest(line: bytes) -> bytes:
    """The newest draft. A carriage return at its end stays: a newline may follow that makes it the end of a line."""
    return line[line.rstrip(b"\r").rfind(b"\r") + 1 :]
