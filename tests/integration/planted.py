"""How well rehearsals see: faults planted in a copy of the sources, and the first seed that finds each.

    python -m tests.integration.planted 500
    python -m tests.integration.planted 50 gang

rehearses at most so many seeds for each planted fault, or for those with a word in their name. One that no seed finds
is a hole in the rehearsals. The sources themselves are not touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.integration.plantable import FAULTS, Planted

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Finding:
    seed: int
    problem: str


def first_finding(fault: Planted, first: int, last: int) -> Finding | None:
    """The first of these seeds that goes wrong with the fault planted, and the first thing it says."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        shutil.copytree(_ROOT / "src", sources)
        plant(fault, sources / "hekla")
        program = [sys.executable, "-m", "tests.integration.rehearsal", str(first), str(last), "--until-wrong"]
        environment = {**os.environ, "PYTHONPATH": str(sources)}
        done = subprocess.run(program, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if not any(" seeds, " in line for line in lines):
        raise RuntimeError(f"{fault.name}: {done.stderr[-2000:]}")
    return next((Finding(int(line.split()[1]), lines[at + 1]) for at, line in enumerate(lines) if _tells(line)), None)


def plant(fault: Planted, package: Path) -> None:
    file = package / fault.file
    text = file.read_text()
    assert text.count(fault.right) == 1, f"{fault.name}: {fault.file} has changed"
    file.write_text(text.replace(fault.right, fault.wrong))


def _tells(line: str) -> bool:
    return line.startswith("seed ")


def main(seeds: int, words: list[str]) -> int:
    chosen = [fault for fault in FAULTS if all(word in fault.name for word in words)]
    missed = 0
    for fault in chosen:
        finding = first_finding(fault, 0, seeds)
        missed += finding is None
        found = f"seed {finding.seed:3}" if finding is not None else "not found"
        print(f"{found:9}: {fault.name}{f' ({finding.problem})' if finding is not None else ''}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found within {seeds} seeds")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2:]))
