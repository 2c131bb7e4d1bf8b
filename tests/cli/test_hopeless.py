from __future__ import annotations

from typing import Any

import pytest

from hekla.cli.hopeless import Hopeless


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def pod(phase: str = "Pending", *, node: str = "", waiting: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": waiting, "message": "says so"}} if waiting else {}
    statuses = [{"name": "main", "state": state}] if state else []
    return {
        "metadata": {"name": "p"},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


def group(code: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"hekla.dev/waiting-reason": code, "hekla.dev/waiting-message": "is so"}}}


def seconds_until_given_up(hopeless: Hopeless, clock: Clock) -> int | None:
    """How long nothing changes before it is hopeless; None: more than an hour."""
    for second in range(3600):
        clock.now = float(second)
        if hopeless.for_long():
            return second
    return None


@pytest.mark.parametrize(
    ("code", "seconds"),
    [
        ("NotEnoughResources", 1),
        ("QueueOverQuota", 1),
        ("NoNodeMatches", 5),
        ("QueueNotOpen", 5),
        ("WaitingForRoom", 60),
    ],
)
def test_what_may_pass_by_itself_is_given_a_minute(code: str, seconds: int) -> None:
    clock = Clock()
    hopeless = Hopeless(clock)
    hopeless.look(group(code), [pod()])
    assert seconds_until_given_up(hopeless, clock) == seconds
    assert not hopeless.placed


@pytest.mark.parametrize(
    ("waiting", "seconds"), [("CreateContainerConfigError", 5), ("ErrImagePull", 60), ("ImagePullBackOff", 60)]
)
def test_a_pull_that_failed_is_tried_again_and_a_missing_file_is_not(waiting: str, seconds: int) -> None:
    clock = Clock()
    hopeless = Hopeless(clock)
    hopeless.look(None, [pod(node="n", waiting=waiting)])
    assert seconds_until_given_up(hopeless, clock) == seconds
    assert hopeless.placed


def test_as_long_as_something_of_the_job_runs_there_is_hope() -> None:
    clock = Clock()
    hopeless = Hopeless(clock)
    hopeless.look(None, [pod("Running", node="n"), pod(node="n", waiting="CreateContainerConfigError")])
    assert seconds_until_given_up(hopeless, clock) is None


def test_pods_whose_command_cannot_be_started_are_not_what_anybody_hopes_for() -> None:
    clock = Clock()
    hopeless = Hopeless(clock)
    failing = pod("Running", node="n", waiting="CrashLoopBackOff")
    failing["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"reason": "StartError", "message": "no such program"}
    }
    hopeless.look(None, [failing, pod("Running", node="n")])
    assert seconds_until_given_up(hopeless, clock) is None
    clock.now = 0.0
    hopeless.look(None, [failing])
    assert seconds_until_given_up(hopeless, clock) == 5
    assert (hopeless.placed, hopeless.sentence) == (True, "p: no such program")


def test_a_complaint_of_a_controller_without_any_pod_is_heard_for_a_while() -> None:
    clock = Clock()
    hopeless = Hopeless(clock)
    hopeless.hear("the plugin does not know what to do")
    assert seconds_until_given_up(hopeless, clock) == 15


def test_another_reason_begins_anew() -> None:
    clock = Clock()
    hopeless = Hopeless(clock)
    hopeless.look(group("NoNodeMatches"), [pod()])
    clock.now = 4.0
    changed = group("NoNodeMatches")
    changed["metadata"]["annotations"]["hekla.dev/waiting-message"] = "is otherwise"
    hopeless.look(changed, [pod()])
    clock.now = 8.0
    assert not hopeless.for_long()
