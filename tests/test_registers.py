"""Every entry of the registers that we mean to do better has a test that carries its id in its name."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

HERE = Path(__file__).parent


def ids_with_a_test() -> set[str]:
    names = [
        name for path in HERE.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    ]
    return {one for name in names for one in re.findall(r"(?<=_)[qb]\d\d(?=_)", name)}


def test_every_entry_has_its_test_and_every_such_test_its_entry() -> None:
    assert ids_with_a_test() == set(yaml.safe_load((HERE / "registers.yaml").read_text()))
