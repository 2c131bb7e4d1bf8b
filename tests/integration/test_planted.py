"""Rehearsals see what they are for: faults planted in a copy of the sources are found. `python -m
tests.integration.planted 500` plants all of them and looks for as long as it takes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.plantable import FAULTS
from tests.integration.planted import first_finding, plant

SOURCES = Path(__file__).parents[2] / "src" / "hekla"

# Of each part one that is found soon, whatever else changes.
CHOSEN = (
    "a restart counts two retries",
    "what plugins made is left when a job ends",
    "a queue does not open with its parent",
    "a binding that was refused is remembered as made",
    "a key that comes while it is worked on is lost",
)
SOON = 20


def test_every_fault_can_be_planted(tmp_path: Path) -> None:
    for fault in FAULTS:
        file = tmp_path / fault.file
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCES / fault.file, file)
        plant(fault, tmp_path)
        compile(file.read_text(), fault.file, "exec")


@pytest.mark.parametrize("name", CHOSEN)
def test_a_planted_fault_is_found(name: str) -> None:
    (fault,) = [fault for fault in FAULTS if fault.name == name]
    assert first_finding(fault, 0, SOON) is not None
