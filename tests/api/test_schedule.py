from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hekla.api.schedule import InvalidSchedule, parse_schedule

BERLIN = ZoneInfo("Europe/Berlin")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NEXT = [
    ("* * * * *", "2030-01-01 00:00:00", "2030-01-01 00:01"),
    ("* * * * *", "2030-01-01 00:00:59.9", "2030-01-01 00:01"),
    ("*/15 * * * *", "2030-01-01 00:46", "2030-01-01 01:00"),
    ("5/20 * * * *", "2030-01-01 00:26", "2030-01-01 00:45"),
    ("30 6-16/4 * * 1-5", "2030-01-04 14:30", "2030-01-07 06:30"),
    ("0 12 * jan-mar mon,wed", "2030-03-27 12:00", "2031-01-01 12:00"),
    # The 13th, and every Friday; but with one of them left open, only the other counts.
    ("0 0 13 * 5", "2030-01-01 00:00", "2030-01-04 00:00"),
    ("0 0 13 * 5", "2030-01-11 00:00", "2030-01-13 00:00"),
    ("0 0 13 * *", "2030-01-01 00:00", "2030-01-13 00:00"),
    ("0 0 */2 * 5", "2030-01-01 00:00", "2030-01-03 00:00"),
    ("0 0 29 2 *", "2030-01-01 00:00", "2032-02-29 00:00"),
    ("@yearly", "2030-01-01 00:00", "2031-01-01 00:00"),
    ("@weekly", "2030-01-01 00:00", "2030-01-06 00:00"),
    ("@every 90s", "2030-01-01 00:00:00.5", "2030-01-01 00:01:30"),
    ("@every 0s", "2030-01-01 00:00", "2030-01-01 00:00:01"),
]


@pytest.mark.parametrize(("text", "now", "expected"), NEXT)
def test_the_next_time(text: str, now: str, expected: str) -> None:
    assert parse_schedule(text).after(moment(now)) == moment(expected)


@pytest.mark.parametrize("text", [5000 * "9" + " * * * *", "*/" + 5000 * "9" + " * * * *", "@every 9999999999h"])
def test_numbers_without_measure_are_no_schedule(text: str) -> None:
    with pytest.raises(InvalidSchedule):
        parse_schedule(text)


def test_what_never_comes_is_never() -> None:
    never = parse_schedule("59 23 31 2 *")
    assert never.after(moment("2030-01-01")) is None
    assert never.latest(moment("2000-01-01"), moment("2030-01-01")) is None


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "*/0 * * * *",
     "5-1 * * * *", "x * * * *", "1- * * * *", "@noon", "@every", "@every soon", "² * * * *"],
)  # fmt: skip
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(InvalidSchedule):
        parse_schedule(text)


def test_the_clocks_of_a_zone_count() -> None:
    daily = parse_schedule("30 2 * * *", BERLIN)
    assert daily.after(moment("2030-01-01 00:00")) == moment("2030-01-01 01:30")
    # 2:30 does not happen on the last Sunday in March, and happens twice on the last in October.
    assert daily.after(moment("2030-03-30 02:00")) == moment("2030-04-01 00:30")
    first = daily.after(moment("2030-10-26 12:00"))
    assert first == moment("2030-10-27 00:30")
    assert daily.after(moment("2030-10-27 00:30")) == moment("2030-10-27 01:30")


@pytest.mark.parametrize("text", ["* * * * *", "*/7 3 * * *", "0 0 1 * *", "@every 37s", "@every 5m"])
@pytest.mark.parametrize("gap", [timedelta(), timedelta(seconds=30), timedelta(hours=5), timedelta(days=40)])
def test_the_latest_time_is_the_last_of_all_next_ones(text: str, gap: timedelta) -> None:
    schedule, since = parse_schedule(text), moment("2030-01-01 02:59:30")
    now, expected = since + gap, None
    found = schedule.after(since)
    while found is not None and found <= now:
        expected, found = found, schedule.after(found)
    assert schedule.latest(since, now) == expected


def test_years_that_nobody_looked_are_not_walked_through() -> None:
    every_minute = parse_schedule("* * * * *")
    assert every_minute.latest(moment("1990-01-01"), moment("2030-01-01 12:34:56")) == moment("2030-01-01 12:34")
