"""CronJobs: schedule, time zone and a name that leaves room for the minute."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hekla.api.duration import InvalidDuration, parse_duration
from hekla.api.kinds import Obj
from hekla.api.names import qualified_problems

_LONGEST_NAME = 52
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)


def validate_cron_job(cron_job: Obj) -> str:
    spec, name = cron_job.get("spec") or {}, cron_job["metadata"]["name"]
    faults = [_schedule_message(str(spec.get("schedule") or "")), *_zone_messages(spec.get("timeZone"))]
    messages = [" ".join(fault for fault in faults if fault)]
    if len(name) > _LONGEST_NAME:
        messages.append("cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)")
    elif problems := qualified_problems(name):
        messages.append(f'invalid cronJob name "{name}": [{" ".join(problems)}]')
    return "; ".join(message for message in messages if message)


def is_schedule(text: str) -> bool:
    """Five fields of cron, or a descriptor such as @hourly or @every 5m."""
    if text.startswith("@every "):
        try:
            return parse_duration(text.removeprefix("@every ")) > 0
        except InvalidDuration:
            return False
    if text.startswith("@"):
        return text in _DESCRIPTORS
    parts = text.split()
    return len(parts) == len(_FIELDS) and all(
        _is_field(part, *field) for part, field in zip(parts, _FIELDS, strict=True)
    )


def _schedule_message(schedule: str) -> str:
    if not schedule:
        return "schedule is required, but got empty"
    if "TZ" in schedule:
        return "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
    return "" if is_schedule(schedule) else "schedule is not a valid cron expression"


def _is_field(text: str, low: int, high: int, names: dict[str, int]) -> bool:
    return all(_is_range(part, low, high, names) for part in text.split(","))


def _is_range(text: str, low: int, high: int, names: dict[str, int]) -> bool:
    span, slash, step = text.partition("/")
    if slash and not (step.isdigit() and int(step) > 0):
        return False
    if span in ("*", "?"):
        return True
    first, dash, last = span.partition("-")
    numbers = [_number(part, names) for part in ([first, last] if dash else [first])]
    if any(number is None or not low <= number <= high for number in numbers):
        return False
    return not dash or (numbers[0] or 0) <= (numbers[1] or 0)


def _number(text: str, names: dict[str, int]) -> int | None:
    if text.isdigit():
        return int(text)
    return names.get(text.lower())


def _zone_messages(zone: str | None) -> list[str]:
    if zone is None:
        return []
    if not zone:
        return ["timeZone must be nil or non-empty string, got empty string"]
    messages = ["unknown timeZone" for part in zone.split("/") if not _is_zone_part(part)]
    if zone.lower() == "local":
        return [*messages, "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"]
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        messages.append("invalid timeZone")
    return messages


def _is_zone_part(part: str) -> bool:
    return part not in (".", "..") and not part.startswith("-") and bool(_ZONE_PART.fullmatch(part))
