"""Every folder of `examples`: what its README says to type works, and shows what it says it shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from _pytest.mark import ParameterSet

from tests.e2e.local_cluster import HEKLA, ROOT, clean_environment
from tests.kubectl import needs_newer_kubectl

EXAMPLES = sorted(folder for folder in (ROOT / "examples").iterdir() if folder.is_dir())


def steps(readme: Path) -> Iterator[tuple[str, list[str]]]:
    """Commands and the lines shown below each."""
    for block in re.findall(r"```console\n(.*?)```", readme.read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield command, shown


def to_be_typed(folder: Path) -> ParameterSet:
    waits_for_a_field = "--for=jsonpath" in (folder / "README.md").read_text()
    return pytest.param(folder, marks=[needs_newer_kubectl] if waits_for_a_field else [])


@pytest.mark.parametrize("folder", [*map(to_be_typed, EXAMPLES)], ids=lambda folder: folder.name)
def test_an_example_does_what_its_readme_says(folder: Path, tmp_path: Path) -> None:
    """All its commands in one shell, so that one can build upon another."""
    written = list(steps(folder / "README.md"))
    assert written
    marker = "--- this was one command ---"
    script = "".join(f"{command}\necho {shlex.quote(marker)}\n" for command, _ in written)
    # A copy: building a package leaves things beside it.
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = an_environment(tmp_path)
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            capture_output=True, text=True, timeout=270, env=environment, cwd=tmp_path,
        )  # fmt: skip
    finally:
        subprocess.run([HEKLA, "down"], capture_output=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    for (command, shown), output in zip(written, done.stdout.split(marker), strict=False):
        said = [" ".join(line.split()) for line in output.splitlines()]
        for line in shown:
            assert any(each.endswith(line) for each in said), f"{command} does not show {line!r} but:\n{output}"


def an_environment(home: Path) -> dict[str, str]:
    """A person's, with clusters and packages of its own; packages are built with what is here."""
    packages = str(home / "packages")
    return {
        **clean_environment(),
        "PATH": f"{HEKLA.parent}:{os.environ['PATH']}",
        "PIP_NO_BUILD_ISOLATION": "false",  # pip's way of saying yes to that
        "PIP_NO_DEPS": "true",
        "PIP_TARGET": packages,
        "PYTHONPATH": packages,
        "TMPDIR": str(home),
        "XDG_STATE_HOME": str(home),
    }


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_has_a_job_and_few_words(folder: Path) -> None:
    documents = [each for each in yaml.safe_load_all((folder / "job.yaml").read_text()) if each]
    assert any(each["kind"] == "Job" for each in documents)
    assert len((folder / "README.md").read_text().splitlines()) < 40
