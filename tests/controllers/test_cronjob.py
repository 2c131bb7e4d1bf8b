from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hekla.api.kinds import CRON_JOB, EVENT, JOB
from hekla.api.meta import name_of, parse_timestamp, timestamp, uid_of
from hekla.api.schedule import parse_schedule
from hekla.apiserver.app import build_app
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.controllers.cronjob.decision import SCHEDULED_AT, build_job, decide, job_name, reference_to
from tests import make
from tests.controllers.bench import Bench, on_bench

NOW = parse_timestamp("2025-01-01T00:00:10Z")
EVERY_MINUTE = parse_schedule("* * * * *")


def cron_job(schedule: str = "* * * * *", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"tasks": [make.task("a")]}}, **spec},
    }


def known(schedule: str = "* * * * *", status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    obj = cron_job(schedule, **{"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1, **spec})
    obj["metadata"] |= {"uid": "u", "creationTimestamp": "2024-12-31T23:59:30Z"}
    return {**obj, "status": status or {}}


def job(name: str, phase: str, ended: str = "2024-12-31T23:00:00Z") -> dict[str, Any]:
    obj = make.job(name)
    obj["metadata"]["annotations"] = {SCHEDULED_AT: "2024-12-31T22:00:00Z"}
    obj["status"] = {"state": {"phase": phase, "lastTransitionTime": ended}}
    return obj


def decided(obj: dict[str, Any], *jobs: dict[str, Any], now: Any = NOW) -> Any:
    return decide(obj, list(jobs), {name_of(one): one for one in jobs}.get, EVERY_MINUTE, now)


def reasons(decision: Any) -> list[str]:
    return [reason for _, reason, _ in decision.events]


def test_the_name_of_a_job_tells_its_minute() -> None:
    due = parse_timestamp("2025-01-01T00:00:00Z")
    assert job_name(known(), due) == "demo-28928160"


def test_a_job_carries_what_its_template_says_and_its_time_in_the_zone() -> None:
    obj = known()
    obj["spec"]["jobTemplate"]["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    zone = parse_timestamp("2025-01-01T00:00:00+02:00").tzinfo
    assert zone is not None
    made = build_job(obj, parse_timestamp("2025-01-01T00:00:00Z"), zone)
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {
        "c": "d",
        "volcano.sh/cronjob-scheduled-timestamp": "2025-01-01T02:00:00+02:00",
    }
    assert made["metadata"]["ownerReferences"][0]["kind"] == "CronJob"


def test_only_the_last_time_that_was_missed_is_served() -> None:
    found = decided(known(), now=NOW + timedelta(minutes=5))
    assert (found.create, reasons(found)) == (parse_timestamp("2025-01-01T00:05:00Z"), [])
    assert reasons(decided(known(), now=NOW + timedelta(hours=2))) == ["TooManyMissedTimes"]


def test_a_time_is_served_once_and_not_after_its_deadline() -> None:
    assert decided(known(status={"lastScheduleTime": "2025-01-01T00:00:00Z"})).create is None
    assert decided(known(startingDeadlineSeconds=5)).create is None
    assert decided(known(startingDeadlineSeconds=20)).create is not None
    assert decided(known(startingDeadlineSeconds=2**63 - 1)).create is not None
    assert decided(known(suspend=True)).create is None


@pytest.mark.parametrize("text", ["soon", "2025-01-01T00:00:00", "a\nb", ""])
def test_what_is_no_time_in_a_status_is_passed_over(text: str) -> None:
    ended = job("demo-1", "Completed", "2024-12-31T23:01:00Z")
    found = decided(known(status={"lastScheduleTime": text, "lastSuccessfulTime": text}), ended)
    assert found.create is not None
    assert found.status["lastSuccessfulTime"] == "2024-12-31T23:01:00Z"
    assert "lastSuccessfulTime" not in decided(known(), job("demo-1", "Completed", text or "never")).status


def test_a_job_whose_making_was_not_written_down_is_taken_in() -> None:
    running = job("demo-28928160", "Running")
    found = decided(known(), running)
    assert (found.create, found.events, found.status["active"]) == (None, [], [reference_to(running)])
    assert found.status["lastScheduleTime"] == "2025-01-01T00:00:00Z"
    ended = decided(known(successfulJobsHistoryLimit=0), job("demo-28928160", "Completed"))
    assert (ended.create, len(ended.old), ended.status["lastScheduleTime"]) == (None, 1, "2025-01-01T00:00:00Z")


def test_a_job_made_by_a_controller_that_was_away_for_long_still_forbids_another() -> None:
    running = job("demo-28928155", "Running")
    found = decided(known(concurrencyPolicy="Forbid"), running)
    assert (found.create, reasons(found), found.status["active"]) == (
        None,
        ["ForbidConcurrent"],
        [reference_to(running)],
    )


def test_what_has_ended_is_active_no_more_and_too_many_old_ones_go() -> None:
    jobs = [job(f"demo-{number}", "Completed", f"2024-12-31T23:0{number}:00Z") for number in range(1, 6)]
    jobs += [job("demo-7", "Failed"), job("demo-8", "Failed"), job("demo-9", "Terminated")]
    status = {"active": [reference_to(jobs[0]), reference_to(jobs[-1])]}
    found = decided(known(status=status, suspend=True), *jobs)
    assert found.status["active"] == []
    assert found.status["lastSuccessfulTime"] == "2024-12-31T23:05:00Z"
    assert [name_of(one) for one in found.old] == ["demo-1", "demo-2", "demo-7"]
    assert [message for _, _, message in found.events] == [
        "Saw completed job: demo-1 in active, remove",
        "Saw completed job: demo-9 in active, remove",
    ]


def test_what_is_not_there_is_not_active_and_what_nobody_knows_is_told() -> None:
    gone, stray = job("demo-1", "Running"), job("demo-2", "Running")
    del stray["metadata"]["annotations"]
    found = decided(known(status={"active": [reference_to(gone)]}, suspend=True), stray)
    assert (found.status["active"], reasons(found)) == ([], ["OrphanedJob", "StaleReference"])


def test_concurrency() -> None:
    running = job("demo-1", "Running")
    status = {"active": [reference_to(running)]}
    allowed = decided(known(status=status, concurrencyPolicy="Allow"), running)
    assert (allowed.create is None, allowed.replace, allowed.events) == (False, [], [])
    forbidden = decided(known(status=status, concurrencyPolicy="Forbid"), running)
    assert (forbidden.create, reasons(forbidden)) == (None, ["ForbidConcurrent"])
    replaced = decided(known(status=status, concurrencyPolicy="Replace"), running)
    assert (replaced.create is None, replaced.replace, reasons(replaced)) == (False, [running], ["ReplaceConcurrent"])


async def told(bench: Bench) -> set[str]:
    about = [event for event in await bench.client.find_all(EVENT) if event["involvedObject"]["kind"] == "CronJob"]
    return {f"{event['type']} {event['reason']}: {event['message']}" for event in about}


async def minutes(count: float) -> None:
    """Virtual ones; a little longer, as what is due at the full minute takes its time."""
    await asyncio.sleep(60 * count + 2)


def jobs_of(bench: Bench) -> list[str]:
    return sorted(name_of(one) for one in bench.store.objects(JOB))


def test_a_job_is_made_every_minute_and_the_oldest_go() -> None:
    async def script(bench: Bench) -> None:
        made = await bench.client.create(CRON_JOB, cron_job(successfulJobsHistoryLimit=1))
        assert made["spec"]["concurrencyPolicy"] == "Allow"
        for _ in range(3):
            await minutes(1)
            (running,) = [one for one in bench.store.objects(JOB) if one["status"]["state"]["phase"] == "Running"]
            status = (await bench.client.get(CRON_JOB, "demo", "default"))["status"]
            assert [one["uid"] for one in status["active"]] == [uid_of(running)]
            await bench.end(f"{name_of(running)}-a-0")
        await minutes(0.5)
        status = (await bench.client.get(CRON_JOB, "demo", "default"))["status"]
        (left,) = bench.store.objects(JOB)
        last = left["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"]
        assert status == {
            "lastScheduleTime": last,
            "lastSuccessfulTime": left["status"]["state"]["lastTransitionTime"],
        }
        said = await told(bench)
        assert f"Normal SuccessfulCreate: Created job {name_of(left)} for CronJob default/demo" in said
        assert f"Normal SawCompletedJob: Saw completed job: {name_of(left)} in active, remove" in said
        assert len([one for one in said if one.startswith("Normal SuccessfulDelete")]) == 2

    on_bench(script)


def test_a_suspended_one_rests_and_a_changed_schedule_begins_with_its_next_time() -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(CRON_JOB, cron_job("0 0 1 1 *", suspend=True))
        await minutes(90)
        assert jobs_of(bench) == []
        await bench.client.patch(CRON_JOB, "demo", {"spec": {"schedule": "0 * * * *", "suspend": False}}, "default")
        await minutes(20)
        assert jobs_of(bench) == []
        await minutes(60)
        (made,) = bench.store.objects(JOB)
        scheduled = made["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"]
        assert scheduled == timestamp(parse_timestamp(scheduled).replace(minute=0))

    on_bench(script)


def test_one_that_says_nothing_disturbs_no_other() -> None:
    """Where nobody checks what is created: a cluster without our webhook."""

    async def script(bench: Bench) -> None:
        empty = cron_job()
        empty["metadata"]["name"] = "empty"
        del empty["spec"]
        app = build_app(bench.store, clock=bench.clock, rng=bench.rng)
        unchecked = Client(InProcessTransport(app), user_agent="test")
        await unchecked.create(CRON_JOB, empty)
        await bench.client.create(CRON_JOB, cron_job())
        for label in ("first", "second"):
            await unchecked.patch(CRON_JOB, "empty", {"metadata": {"labels": {"is": label}}}, "default")
            await minutes(1)
        assert len(jobs_of(bench)) == 2

    on_bench(script)


def test_a_running_job_is_replaced_when_it_is_to_be_so() -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(CRON_JOB, cron_job(concurrencyPolicy="Replace"))
        await minutes(1)
        first = jobs_of(bench)
        await minutes(1)
        second = jobs_of(bench)
        assert (len(first), len(second), first != second) == (1, 1, True)
        assert "Warning ReplaceConcurrent: Replacing active job for CronJob" in await told(bench)

    on_bench(script)


def test_a_job_that_is_refused_is_tried_again_and_told() -> None:
    async def script(bench: Bench) -> None:
        obj = cron_job()
        obj["spec"]["jobTemplate"]["spec"]["queue"] = "nowhere"
        await bench.client.create(CRON_JOB, obj)
        await minutes(1)
        (failure,) = [one for one in await told(bench) if one.startswith("Warning FailedCreate")]
        assert 'queue.scheduling.volcano.sh "nowhere" not found' in failure
        assert "status" not in await bench.client.get(CRON_JOB, "demo", "default")

    on_bench(script)


def test_another_ones_job_of_that_name_is_left_alone() -> None:
    async def script(bench: Bench) -> None:
        made = await bench.client.create(CRON_JOB, cron_job())
        due = EVERY_MINUTE.after(parse_timestamp(made["metadata"]["creationTimestamp"]))
        assert due is not None
        await bench.create(make.new_job(job_name(made, due)))
        await minutes(1)
        why = f"Job {job_name(made, due)} exists but is not owned by this CronJob (current owner: none)"
        assert f"Warning ForeignJob: {why}" in await told(bench)

    on_bench(script)


def test_every_time_is_served_once_whenever_the_controller_dies() -> None:
    async def script(bench: Bench) -> list[str]:
        await bench.client.create(CRON_JOB, cron_job(successfulJobsHistoryLimit=0))
        made: list[str] = []
        bench.watch(JOB, lambda update: made.append(uid_of(update.obj)) if update.old is None else None)
        await minutes(1)
        for one in bench.store.objects(JOB):
            await bench.end(f"{name_of(one)}-a-0")
        await minutes(0.5)
        assert bench.store.objects(JOB) == []
        assert (await bench.client.get(CRON_JOB, "demo", "default"))["status"].get("active") is None
        return made

    whole, writes = on_bench(script)
    assert len(whole) == 1
    for number in range(1, writes + 1):
        for before in (True, False):
            assert len(on_bench(script, break_at=number, before=before)[0]) == 1, (number, before)
