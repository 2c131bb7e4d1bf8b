from __future__ import annotations

from typing import Any

import pytest

from hekla.api.kinds import JOB
from hekla.api.meta import owner_reference
from hekla.cli.events import story
from hekla.cli.gone_pods import gone_failures, pod_events
from tests import make

EARLIER, LATER = "2029-12-31T23:59:59Z", "2030-01-01T00:00:30Z"
ENDED = "Container main ended with exit code 3"


def failed_job(*, retries: int = 3) -> dict[str, Any]:
    job = make.job("pol", make.task("w", 2), make.task("a.b"))
    return {**job, "status": {"state": {"phase": "Failed"}, "retryCount": retries}}


def event(pod: str, uid: str, reason: str, message: str = "", at: str = LATER, **fields: Any) -> dict[str, Any]:
    event.number += 1  # type: ignore[attr-defined]
    return {
        "metadata": {"name": f"{pod}.{reason}", "resourceVersion": str(event.number)},  # type: ignore[attr-defined]
        "involvedObject": {"kind": "Pod", "name": pod, "uid": uid},
        "reason": reason,
        "message": message,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "type": "Normal",
        **fields,
    }


event.number = 0  # type: ignore[attr-defined]


def ended(pod: str, uid: str, message: str = ENDED, **fields: Any) -> dict[str, Any]:
    return event(pod, uid, "Error", message, action="EndedBadly", **fields)


def own_pod(job: dict[str, Any], index: int) -> dict[str, Any]:
    pod = make.job_pod(job, "w", index, "Failed", exit_code=3)
    pod["metadata"]["ownerReferences"] = [owner_reference(job, JOB)]
    return pod


def uids(events: list[dict[str, Any]]) -> list[str]:
    return [one["involvedObject"]["uid"] for one in events]


def test_events_of_pods_that_are_gone_are_the_jobs_by_name_and_time() -> None:
    job = failed_job()
    events = [
        event("pol-w-1", "first", "Started"),
        event("pol-w-17", "scaled-down", "Started"),
        event("pol-a.b-0", "other-task", "Started"),
        event("pol-axb-0", "no-task-of-ours", "Started"),
        event("pol-w-x-1", "no-index", "Started"),
        event("pol-w-1", "predecessor", "Started", at=EARLIER),
        event("pol-w-1", "predecessor", "Killing"),
    ]
    assert uids(pod_events(job, [], events)) == ["first", "scaled-down", "other-task"]


def test_events_of_pods_that_are_there_go_by_uid_alone() -> None:
    job = failed_job()
    mine, strange = own_pod(job, 0), make.pod("pol-w-1")
    events = [event("pol-w-0", "uid-pol-w-0", "Started", at=EARLIER), event("pol-w-1", "uid-pol-w-1", "Started")]
    assert uids(pod_events(job, [mine, strange], events)) == ["uid-pol-w-0"]


def test_a_time_with_parts_of_a_second_is_not_before_that_second() -> None:
    exact = event("pol-w-1", "u", "Scheduled", firstTimestamp=None, eventTime="2030-01-01T00:00:00.250000Z")
    assert pod_events(failed_job(), [], [exact]) == [exact]


def test_the_last_pod_of_each_name_says_how_it_ended() -> None:
    events = [
        event("pol-w-1", "one", "Started"),
        ended("pol-w-1", "one"),
        event("pol-w-1", "two", "Started"),
        ended("pol-w-1", "two", f"{ENDED}: no such\nfile"),
        # This one failed only once; the last time it was ended together with the other.
        ended("pol-w-0", "zero"),
        event("pol-w-0", "zero-again", "Started"),
        event("pol-w-0", "zero-again", "Killing"),
    ]
    assert gone_failures(failed_job(), [], events) == [
        "pol-w-1: Error, exit code 3, after 3 of 3 attempts: no such\nfile"
    ]
    assert gone_failures(failed_job(retries=1), [], events) == ["pol-w-1: Error, exit code 3: no such\nfile"]


def test_whom_somebody_else_ended_is_told_with_the_reason() -> None:
    evicted = event("pol-w-0", "u", "Evict", "Pod is evicted, because of preempt", type="Warning")
    assert gone_failures(failed_job(), [], [evicted]) == ["pol-w-0: Evict: Pod is evicted, because of preempt"]


def test_a_pod_that_is_there_speaks_for_itself() -> None:
    job, events = failed_job(), [ended("pol-w-0", "gone")]
    assert gone_failures(job, [own_pod(job, 0)], events) == []


@pytest.mark.parametrize("text", ["Container main", "Container main ended with exit code x", "", "anything"])
def test_what_only_looks_like_an_end_is_passed_over(text: str) -> None:
    assert gone_failures(failed_job(), [], [ended("pol-w-0", "gone", text)]) == []


def test_an_end_is_told_once_whether_by_an_event_or_by_the_pod() -> None:
    job = failed_job()
    pods = [own_pod(job, 0), own_pod(job, 1)]
    told = story(job, pods, [ended("pol-w-1", "uid-pol-w-1"), ended("pol-w-1", "before")])
    ends = [(one["involvedObject"]["name"], one["type"]) for one in told if one["message"] == ENDED]
    assert sorted(ends) == [("pol-w-0", "Warning"), ("pol-w-1", "Normal"), ("pol-w-1", "Normal")]
