"""The page about reasons has them all, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from hekla.api.reasons import Reason

PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"


def test_every_code_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), flags=re.MULTILINE)
    assert sorted(rows) == sorted(Reason)
