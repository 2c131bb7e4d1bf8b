"""What is remembered is what would be worked out anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hekla.api.remembered import remembered


def counting() -> tuple[list[bytes], Callable[[bytes, int], int]]:
    asked: list[bytes] = []

    @remembered
    def length(encoded: bytes, plus: int) -> int:
        asked.append(encoded)
        if not encoded:
            raise ValueError("nothing")
        return len(encoded) + plus

    return asked, length


def test_the_same_is_worked_out_once_and_each_other_by_itself() -> None:
    asked, length = counting()
    assert [length(b"abc", 1), length(b"abc", 1), length(b"abc", 2), length(b"abcd", 1)] == [4, 4, 5, 5]
    assert asked == [b"abc", b"abc", b"abcd"]


def test_large_values_are_not_kept() -> None:
    asked, length = counting()
    large = b"x" * 20_000
    assert length(large, 0) == length(large, 0) == 20_000
    assert asked == [large, large]


def test_what_is_raised_is_raised_again() -> None:
    asked, length = counting()
    for _ in range(2):
        with pytest.raises(ValueError, match="nothing"):
            length(b"", 0)
    assert asked == [b"", b""]
