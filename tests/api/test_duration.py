from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.duration import InvalidDuration, canonical_duration, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("5m", 300),
        ("1h30m", 5400),
        ("3m41.5s", 221.5),
        ("250ms", 0.25),
        ("-2s", -2),
        (".5s", 0.5),
        ("2562047h", 9223369200),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1d", "1h30", "--1s", "1.2.3s", "2562048h", "-9223372037s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.25, "250ms"), (1.5, "1.5s"), (180, "3m0s"), (3605, "1h0m5s"), (-2, "-2s")]
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("90s", "1m30s"),
        ("0", "0s"),
        ("0.4us", "400ns"),
        ("1500us", "1.5ms"),
        ("1.0000005s", "1.0000005s"),
        ("-0.5ms", "-500µs"),
        ("0.1ns", "0s"),
        ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
    ],
)
def test_durations_are_written_back_as_they_were_read(given: str, text: str) -> None:
    assert canonical_duration(given) == text
    assert canonical_duration(text) == text


@given(st.integers(min_value=-10_000_000, max_value=10_000_000))
def test_what_is_written_reads_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000
