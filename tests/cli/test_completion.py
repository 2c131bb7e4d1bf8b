"""Completion, asked for as a real shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hekla.cli.completion import SHELLS
from hekla.cli.main import hekla, run_program

PROGRAMS = Path(sys.executable).parent


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_something_that_names_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(hekla, ["completion", shell]) == 0
    assert "_HEKLA_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        ("hekla re", ["render"]),
        ("hekla queue o", ["operate"]),
        ("hekla run --node-", ["--node-cpu", "--node-memory", "--node-gpus", "--node-gpu-memory"]),
    ],
)
def test_bash_completes_commands_and_flags(words: str, proposed: list[str]) -> None:
    script = f"""
        source <(hekla completion bash)
        COMP_WORDS=({words}) COMP_CWORD={len(words.split()) - 1}
        _hekla_completion hekla
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.split() == proposed, done.stderr
