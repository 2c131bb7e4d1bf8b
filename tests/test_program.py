from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("program", ["hekla", "vcctl"])
def test_ctrl_c_while_the_program_is_loaded_ends_it_without_a_traceback(program: str, tmp_path: Path) -> None:
    """What it loads first is replaced by something that interrupts it and would then go on."""
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('goes on')\n")
    done = subprocess.run(
        [Path(sys.executable).with_name(program), "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        # Where the tests run in the background of a shell, it has everybody ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
