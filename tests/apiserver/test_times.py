"""Times that Go would read are taken; of others is said what it says."""

from __future__ import annotations

import pytest

from hekla.apiserver.times import time_fault

LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    "text", ["2020-02-29T23:59:59Z", "2020-01-01T00:00:00.5Z", "2020-01-01T00:00:00+02:00", "0001-01-01T00:00:00Z"]
)
def test_a_time_is_taken(text: str) -> None:
    assert time_fault(text) == ""


def test_where_microseconds_are_kept_they_are_asked_for() -> None:
    assert time_fault("2020-01-01T00:00:00.000001Z", micro=True) == ""
    assert time_fault("2020-01-01T00:00:00Z", micro=True) == (
        'parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", f'parsing time "" as "{LAYOUT}": cannot parse "" as "2006"'),
        ("soon", f'parsing time "soon" as "{LAYOUT}": cannot parse "soon" as "2006"'),
        ("2020-01-01", f'parsing time "2020-01-01" as "{LAYOUT}": cannot parse "" as "T"'),
        ("2020-01-01T00:00:00", f'parsing time "2020-01-01T00:00:00" as "{LAYOUT}": cannot parse "" as "Z07:00"'),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2021-02-29T00:00:00Z", 'parsing time "2021-02-29T00:00:00Z": day out of range'),
        ("2020-01-01T24:00:00Z", 'parsing time "2020-01-01T24:00:00Z": hour out of range'),
        ("2020-01-01T00:00:00+25:00", 'parsing time "2020-01-01T00:00:00+25:00": time zone offset hour out of range'),
        ("2020-01-01T00:00:00Zz", 'parsing time "2020-01-01T00:00:00Zz": extra text: "z"'),
    ],
)
def test_what_is_no_time_is_told_in_gos_words(text: str, fault: str) -> None:
    assert time_fault(text) == fault
