"""`hekla events`: of what happens within one second, causes come before what they bring about."""

from __future__ import annotations

from typing import Any

from hekla.cli.events import about_of, story
from tests import make

AT, BEFORE = "2030-01-01T00:00:01Z", "2030-01-01T00:00:00Z"


def job(*phases: str, at: str = AT) -> dict[str, Any]:
    conditions = [{"status": phase, "lastTransitionTime": at} for phase in phases]
    return {**make.job("pol", make.task("w", 2)), "status": {"conditions": conditions}}


def events(*told: tuple[str, str, str], at: str = AT) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {"resourceVersion": str(number)},
            "involvedObject": {"kind": "Pod", "name": pod, "uid": uid},
            "reason": reason,
            "message": f"{uid} {reason}",
            "firstTimestamp": at,
            "lastTimestamp": at,
        }
        for number, (pod, uid, reason) in enumerate(told, 1)
    ]


def order(job: dict[str, Any], told: list[dict[str, Any]]) -> list[str]:
    return [
        f"{one['involvedObject'].get('uid', '')} {one['reason']}".removeprefix("uid-") for one in story(job, [], told)
    ]


def test_a_group_is_told_without_most_of_the_uid_in_its_name() -> None:
    about = {"kind": "PodGroup", "name": "hello-gang-914281da-a600-49dd-b044-aea800bca8ed"}
    assert about_of({"involvedObject": about}) == "podgroup/hello-gang-914281da…"
    assert about_of({"involvedObject": {"kind": "Pod", "name": "hello-gang-worker-0"}}) == "pod/hello-gang-worker-0"


def test_a_restart_comes_before_the_pods_it_makes() -> None:
    told = events(("pol-w-0", "old", "Error"), ("pol-w-1", "old1", "Killing"), ("pol-w-0", "new", "Started"))
    assert order(job("Restarting"), told) == ["old Error", "old1 Killing", "pol Restarting", "new Started"]


def test_each_of_several_restarts_comes_before_its_own_pods() -> None:
    lives = [("pol-w-0", life, reason) for life in ("one", "two", "three") for reason in ("Started", "Error")]
    assert order(job("Restarting", "Restarting", "Failed"), events(*lives)) == [
        "one Started", "one Error", "pol Restarting", "two Started", "two Error",
        "pol Restarting", "three Started", "three Error", "pol Failed",
    ]  # fmt: skip


def test_pods_that_are_made_later_leave_a_restart_where_it_is() -> None:
    told = [*events(("pol-w-0", "old", "Error"), at=BEFORE), *events(("pol-w-0", "new", "Started"))]
    assert order(job("Restarting", at=BEFORE), told) == ["old Error", "pol Restarting", "new Started"]


def test_how_a_job_ended_comes_after_its_pods_of_the_same_second() -> None:
    told = events(("pol-w-0", "one", "Started"), ("pol-w-1", "other", "Started"))
    assert order(job("Completed"), told) == ["one Started", "other Started", "pol Completed"]
