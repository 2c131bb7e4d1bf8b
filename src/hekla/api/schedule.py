"""When something is due: the five fields of cron, `@hourly` and the like, and `@every 90s`.

Fields are read as most cron implementations read them: lists, ranges, steps and names; where both the day of the month
and the day of the week are given, either will do. Clock times that a change of clocks skips do not happen, and those it
repeats happen twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hekla.api.duration import InvalidDuration, parse_duration

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MOST_DIGITS = 18
_MINUTE = timedelta(minutes=1)
# What does not come within five years is taken to come never: the 30th of February.
_HORIZON = timedelta(days=5 * 366)


class InvalidSchedule(ValueError):
    """The text is no schedule."""


class Schedule(Protocol):
    def after(self, moment: datetime) -> datetime | None:
        """The first time after a moment; None when there is none."""

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        """The last time after `since` and not after `now`; None when there is none."""


def parse_schedule(text: str, zone: tzinfo = UTC) -> Schedule:
    """Raises InvalidSchedule."""
    if text.startswith("@every "):
        try:
            return Interval(timedelta(seconds=max(1, int(parse_duration(text.removeprefix("@every "))))))
        except InvalidDuration as error:
            raise InvalidSchedule(str(error)) from None
    parts = _DESCRIPTORS.get(text, text).split()
    if len(parts) != 5:
        raise InvalidSchedule(f"expected exactly 5 fields, found {len(parts)}: {text!r}")
    minutes, hours, days, months, weekdays = parts
    return Calendar(
        minutes=_values(minutes, range(60)),
        hours=_values(hours, range(24)),
        days=_values(days, range(1, 32)),
        months=_values(months, range(1, 13), _MONTHS),
        weekdays=_values(weekdays, range(7), _DAYS),
        any_day=_is_any(days) or _is_any(weekdays),
        zone=zone,
    )


def zone_named(name: str) -> tzinfo | None:
    """A zone of the time zone database, UTC for the empty name; None when there is none of that name."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so often, counted from the last time."""

    length: timedelta

    def after(self, moment: datetime) -> datetime:
        return moment.replace(microsecond=0) + self.length

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        first = self.after(since)
        return None if first > now else first + self.length * ((now - first) // self.length)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Minutes of a calendar. Weekdays count from Sunday; with `any_day`, a day has to suit both of its fields."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    zone: tzinfo

    def after(self, moment: datetime) -> datetime | None:
        found = moment.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
        end = found + _HORIZON
        while found < end:
            local = found.astimezone(self.zone)
            if local.month not in self.months or not self._suits(local):
                found = self._next_day(local)
            elif local.hour not in self.hours:
                found += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minutes:
                found += _MINUTE
            else:
                return found
        return None

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        found = self.after(since)
        if found is None or found > now:
            return None
        # From ever further back, so that years that nobody looked are not walked through minute by minute.
        back = _MINUTE
        while now - back > since and (self.after(now - back) or now) > now:
            back *= 2
        found = self.after(max(since, now - back))
        while found is not None and (following := self.after(found)) is not None and following <= now:
            found = following
        return found

    def _suits(self, local: datetime) -> bool:
        in_month, in_week = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return (in_month and in_week) if self.any_day else (in_month or in_week)

    def _next_day(self, local: datetime) -> datetime:
        midnight = datetime.combine(local.date() + timedelta(days=1), time(), self.zone).astimezone(UTC)
        # Where clocks are changed at midnight the day begins later.
        while midnight.astimezone(self.zone).date() <= local.date():
            midnight += _MINUTE
        return midnight


def _values(text: str, bounds: range, names: tuple[str, ...] = ()) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _range(part, bounds, names))


def _range(text: str, bounds: range, names: tuple[str, ...]) -> range:
    span, slash, every = text.partition("/")
    step = _number(every, bounds) if slash else 1
    if not step:
        raise InvalidSchedule(f"{text!r} has no step")
    first, dash, last = span.partition("-")
    if span in ("*", "?"):
        low, high = bounds[0], bounds[-1]
    else:
        low = _number(first, bounds, names)
        # A step from one number goes on to the end.
        high = _number(last, bounds, names) if dash else bounds[-1] if slash else low
    if low not in bounds or high not in bounds or low > high:
        raise InvalidSchedule(f"{text!r} is not between {bounds[0]} and {bounds[-1]}")
    return range(low, high + 1, step)


def _number(text: str, bounds: range, names: tuple[str, ...] = ()) -> int:
    if text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    if text.lower() in names:
        return names.index(text.lower()) + bounds[0]
    raise InvalidSchedule(f"{text!r} is no number")


def _is_any(text: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in text.split(","))
