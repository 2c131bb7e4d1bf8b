"""Where the programs `hekla` and `vcctl` begin: loading them takes a moment, and Ctrl-C must be quiet then, too.

Imports nothing but the standard library before somebody listens.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def hekla() -> None:
    _start("main")


def vcctl() -> None:
    _start("vcctl")


def _start(entry: str) -> None:
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGINT, _leave)
    from hekla.cli import main

    try:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        getattr(main, entry)()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        # Python's own leaving is short, and not to be interrupted with a traceback either.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Nothing has been done yet that would need an end."""
    os._exit(_INTERRUPTED)
