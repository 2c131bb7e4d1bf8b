"""What is left of a container's line before it is printed."""

from __future__ import annotations

import pytest

from hekla.cli.display import printable


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plain\tüñ", "plain\tüñ"),
        ("\x1b[31mred\x1b[0m\x1b[2J", "red"),
        ("\x1b]0;title\x07rest", "rest"),
        ("10%\r20%\r30%", "30%"),
        ("windows\r", "windows"),
        ("bell\x07 zero\x00", "bell� zero�"),
    ],
)
def test_nothing_drives_the_terminal_and_what_it_would_show_stays(line: str, expected: str) -> None:
    assert printable(line) == expected
