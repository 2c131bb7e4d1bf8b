"""Loads one job plugin and tells its flags: `python -m hekla.admission.flag_reader NAME MODULE:CLASS`.

For `plugin_flags.py`, which is not to run what anybody may have written.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from importlib.metadata import EntryPoint

import msgspec

from hekla.api.job_plugins import GROUP, Flag, UnloadablePlugin, load_flags

# Where whoever asked was killed, nobody else ends a plugin that hangs.
_LONGEST_SECONDS = 60


class Answer(msgspec.Struct, frozen=True):
    """What is told on standard output, as JSON."""

    flags: tuple[Flag, ...] | None = None
    problem: str = ""


def main(name: str, value: str) -> None:
    signal.alarm(_LONGEST_SECONDS)
    # What the plugin prints is no answer.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        output.write(_answer(EntryPoint(name, value, GROUP)))
    # With whatever it has started; and not what it wants done when the process ends.
    with contextlib.suppress(ProcessLookupError):  # one that leads no group of its own
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _answer(point: EntryPoint) -> bytes:
    try:
        flags = load_flags(point)
        return msgspec.json.encode(Answer(None if flags is None else tuple(flags)))
    except (UnloadablePlugin, msgspec.MsgspecError, TypeError) as error:
        return msgspec.json.encode(Answer(problem=str(error)))


if __name__ == "__main__":
    main(*sys.argv[1:])
