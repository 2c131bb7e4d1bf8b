"""The page about reasons has them all, and no others; so it is with what would help."""

from __future__ import annotations

import re
from pathlib import Path

from hekla.api.reasons import Reason
from hekla.cli.remedies import Help

PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"
HELP = "## What would help"


def first_column(text: str) -> list[str]:
    cells = re.findall(r"^\| (`[^|]*)\|", text, flags=re.MULTILINE)
    return sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell))


def test_every_code_is_explained() -> None:
    assert first_column(PAGE.read_text().partition(HELP)[0]) == sorted(Reason)


def test_everything_that_would_help_is_explained() -> None:
    assert first_column(PAGE.read_text().partition(HELP)[2]) == sorted(Help)
