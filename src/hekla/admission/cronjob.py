"""CronJobs: schedule, time zone and a name that leaves room for the minute."""

from __future__ import annotations

import re

from hekla.api.kinds import Obj
from hekla.api.names import qualified_problems
from hekla.api.schedule import InvalidSchedule, parse_schedule, zone_named

_LONGEST_NAME = 52
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def validate_cron_job(cron_job: Obj) -> str:
    spec, name = cron_job.get("spec") or {}, cron_job["metadata"]["name"]
    faults = [_schedule_message(str(spec.get("schedule") or "")), *_zone_messages(spec.get("timeZone"))]
    messages = [" ".join(fault for fault in faults if fault)]
    if len(name) > _LONGEST_NAME:
        messages.append("cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)")
    elif problems := qualified_problems(name):
        messages.append(f'invalid cronJob name "{name}": [{" ".join(problems)}]')
    return "; ".join(message for message in messages if message)


def _schedule_message(schedule: str) -> str:
    if not schedule:
        return "schedule is required, but got empty"
    if "TZ" in schedule:
        return "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
    try:
        parse_schedule(schedule)
    except InvalidSchedule:
        return "schedule is not a valid cron expression"
    return ""


def _zone_messages(zone: str | None) -> list[str]:
    if zone is None:
        return []
    if not zone:
        return ["timeZone must be nil or non-empty string, got empty string"]
    messages = ["unknown timeZone" for part in zone.split("/") if not _is_zone_part(part)]
    if zone.lower() == "local":
        return [*messages, "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"]
    if zone_named(zone) is None:
        messages.append("invalid timeZone")
    return messages


def _is_zone_part(part: str) -> bool:
    return part not in (".", "..") and not part.startswith("-") and bool(_ZONE_PART.fullmatch(part))
