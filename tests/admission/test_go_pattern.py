from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.admission.go_pattern import pattern_fault

PIECES = [
    *"ab1,:.-^|()[]{}*+?>\\",
    *("(?", "(?i", "(?P<", "[:", ":]", "{2}", "{2,", "61"),
    *(r"\p", r"\pL", r"\p{", r"\x", r"\x{", r"\Q", r"\E", r"\d", r"\1", r"\0"),
]


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (r"[a-\pL]", r"invalid escape sequence: `\p`"),
        (r"[\pL-a]\PL[\p{Greek}]", ""),
        (r"\p{", r"invalid character class range: `\p{`"),
        ("a{1\N{ARABIC-INDIC DIGIT ONE}}", ""),
    ],
)
def test_what_a_class_of_unicode_and_a_count_may_be(pattern: str, fault: str) -> None:
    assert pattern_fault(pattern) == fault


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_every_text_is_a_pattern_or_is_told_why_not(pattern: str) -> None:
    fault = pattern_fault(pattern)
    assert fault == "" or fault.endswith("`")
