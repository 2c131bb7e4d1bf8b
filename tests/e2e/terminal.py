"""A person at a terminal: a program run in one, what is typed into it, what is seen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Sequence


class Terminal:
    def __init__(self, process: int, descriptor: int) -> None:
        self._process = process
        self._descriptor = descriptor
        self.seen = b""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self._process, signal.SIGWINCH)

    def until(self, text: str, *, seconds: float = 60) -> None:
        """Return when the text has been seen."""
        deadline = time.monotonic() + seconds
        while text.encode() not in self.seen:
            assert self._read(deadline), f"{text!r} was not seen in {self.seen!r}"

    def exit_code(self, *, seconds: float = 60) -> int:
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        assert time.monotonic() < deadline, f"still there: {self.seen!r}"
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])

    def _read(self, deadline: float) -> bool:
        if not select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            return False  # the program has gone
        self.seen += data
        return bool(data)

    def close(self) -> None:
        os.close(self._descriptor)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


@contextlib.contextmanager
def in_a_terminal(command: Sequence[str]) -> Iterator[Terminal]:
    process, descriptor = pty.fork()
    if process == 0:
        os.execvp(command[0], command)
    terminal = Terminal(process, descriptor)
    try:
        yield terminal
    finally:
        terminal.close()
