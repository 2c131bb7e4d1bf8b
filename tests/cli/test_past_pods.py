from __future__ import annotations

from typing import Any

from hekla.api.kinds import JOB
from hekla.api.meta import owner_reference
from hekla.cli.past_pods import PastPods
from hekla.client.informer import Update
from tests import make

JOB_OBJ = {**make.job("pol", make.task("w", 2)), "status": {"state": {"phase": "Failed"}, "retryCount": 3}}


def pod(index: int, phase: str, uid: str, **fields: Any) -> dict[str, Any]:
    made = make.job_pod(JOB_OBJ, "w", index, phase, **fields)
    made["metadata"] |= {"uid": uid, "ownerReferences": [owner_reference(JOB_OBJ, JOB)]}
    return made


def heard(*updates: Update) -> PastPods:
    past = PastPods(JOB_OBJ)
    for update in updates:
        past.hear(update)
    return past


def now(obj: dict[str, Any]) -> Update:
    return Update(None, obj)


def gone(obj: dict[str, Any]) -> Update:
    return Update(obj, None)


def test_a_pod_that_failed_and_was_deleted_for_it_is_remembered() -> None:
    past = heard(
        now(pod(1, "Running", "a")),
        now(pod(1, "Failed", "a", exit_code=3)),
        gone(pod(1, "Failed", "a", exit_code=3, deleting=True)),
    )
    assert past.failures(JOB_OBJ) == ["pol-w-1: Error, exit code 3, after 3 of 3 attempts"]


def test_what_a_deleted_pod_ended_with_is_no_failure() -> None:
    ending = pod(0, "Failed", "a", exit_code=143, deleting=True)
    past = heard(now(pod(0, "Running", "a")), now(ending), gone(ending))
    assert past.failures(JOB_OBJ) == []
    assert past.all() == [ending]


def test_of_pods_of_one_name_the_last_counts() -> None:
    first, second = pod(0, "Failed", "a", exit_code=3), pod(0, "Running", "b")
    assert heard(now(first), gone(first), now(second), gone(second)).failures(JOB_OBJ) == []
    # The second one was never seen before it was told to end.
    second["metadata"]["deletionTimestamp"] = make.CREATED
    assert heard(now(first), gone(first), now(second)).failures(JOB_OBJ) == []


def test_what_an_earlier_pod_used_is_known_until_the_next_one_has_ended() -> None:
    used = {"type": "hekla.dev/Used", "message": '{"main": {"cpuSeconds": 1, "seconds": 2}}'}
    first, second = pod(0, "Failed", "a", exit_code=3), pod(0, "Running", "b")
    first["status"]["conditions"] = [used]
    past = heard(now(first), gone(first), now(second))
    assert past.all() == [first]
    past.hear(now(ended := {**second, "status": {**second["status"], "conditions": [used]}}))
    assert past.all() == [ended]


def test_pods_are_told_in_the_order_of_their_indexes() -> None:
    past = heard(*(now(pod(index, "Failed", f"u{index}", exit_code=1)) for index in (10, 2)))
    assert [line.partition(":")[0] for line in past.failures(JOB_OBJ)] == ["pol-w-2", "pol-w-10"]


def test_pods_of_an_earlier_job_are_not_the_jobs() -> None:
    foreign = pod(0, "Failed", "a", exit_code=3)
    foreign["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert heard(now(foreign), gone(foreign)).all() == []
