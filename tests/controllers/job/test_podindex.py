"""What is news about a Job's pods, and what the index then holds."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from hekla.api import kinds
from hekla.api.meta import owner_reference, uid_of
from hekla.client.informer import Update
from hekla.controllers.job.model import read_pod
from hekla.controllers.job.podindex import PodIndex
from tests import make

JOB = make.job("demo", make.task("worker", 3))


def a_pod(index: int = 0, **options: Any) -> dict[str, Any]:
    pod = make.job_pod(JOB, index=index, **options)
    pod["metadata"]["ownerReferences"] = [owner_reference(JOB, kinds.JOB)]
    return pod


def names(index: PodIndex) -> list[str]:
    return [pod.name for pod in index.of("default", uid_of(JOB))]


def test_a_new_pod_a_changed_one_and_one_that_goes_are_news() -> None:
    index = PodIndex()
    pending, running = a_pod(phase="Pending"), a_pod(phase="Running")
    assert index.update(Update(None, pending))
    assert index.update(Update(pending, running))
    assert [pod.phase for pod in index.of("default", uid_of(JOB))] == ["Running"]
    assert index.update(Update(running, None))
    assert names(index) == []


def test_being_bound_is_no_news() -> None:
    index = PodIndex()
    pending = a_pod(phase="Pending")
    index.update(Update(None, pending))
    bound = deepcopy(pending)
    bound["spec"]["nodeName"] = "n1"
    bound["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    assert not index.update(Update(pending, bound))


def test_what_the_answer_to_a_creation_told_is_no_news_when_it_comes() -> None:
    index = PodIndex()
    pending = a_pod(phase="Pending")
    record = read_pod(pending)
    assert record is not None
    index.expect("default", uid_of(JOB), record)
    assert names(index) == []
    assert not index.update(Update(None, pending))
    assert names(index) == ["demo-worker-0"]


def test_a_created_pod_that_comes_otherwise_is_news() -> None:
    index = PodIndex()
    record = read_pod(a_pod(phase="Pending"))
    assert record is not None
    index.expect("default", uid_of(JOB), record)
    assert index.update(Update(None, a_pod(phase="Running")))


def test_pods_are_in_order_of_task_and_index() -> None:
    index = PodIndex()
    for number in (10, 2, 0):
        index.update(Update(None, a_pod(number)))
    assert names(index) == ["demo-worker-0", "demo-worker-2", "demo-worker-10"]
    index.update(Update(None, a_pod(1)))
    assert names(index) == ["demo-worker-0", "demo-worker-1", "demo-worker-2", "demo-worker-10"]


def test_a_pod_that_loses_its_owner_leaves_the_job() -> None:
    index = PodIndex()
    pod = a_pod()
    index.update(Update(None, pod))
    orphan = deepcopy(pod)
    del orphan["metadata"]["ownerReferences"]
    assert index.update(Update(pod, orphan))
    assert names(index) == []


def test_a_pod_of_another_namespace_is_no_pod_of_the_job_whatever_it_says() -> None:
    index = PodIndex()
    index.update(Update(None, a_pod()))
    foreign = a_pod(phase="Failed")
    foreign["metadata"] |= {"namespace": "other", "uid": "another"}
    for update in (Update(None, foreign), Update(foreign, None)):
        index.update(update)
        assert [pod.phase for pod in index.of("default", uid_of(JOB))] == ["Running"]


def test_pods_of_others_and_pods_without_our_marks_are_no_news() -> None:
    index = PodIndex()
    assert not index.update(Update(None, {"metadata": {"name": "bare", "uid": "u"}, "spec": {}}))
    unmarked = a_pod()
    unmarked["metadata"]["annotations"] = {}
    assert not index.update(Update(None, unmarked))
    assert names(index) == []


@pytest.mark.parametrize("kept", [{}, {"volcano.sh/job-name": "demo", "volcano.sh/task-spec": "worker"}])
def test_nothing_that_a_pods_marks_told_is_forgotten_when_they_are_taken_off(kept: dict[str, str]) -> None:
    index = PodIndex()
    pod = a_pod(phase="Pending")
    pod["metadata"]["annotations"] |= {
        "volcano.sh/job-retry-count": "2",
        "volcano.sh/controller-out-of-sync": "true",
        "hekla.dev/evicted-at": "2026-01-01T00:00:01Z",
        "hekla.dev/waiting-since": "2026-01-01T00:00:02Z",
    }
    index.update(Update(None, pod))
    (known,) = index.of("default", uid_of(JOB))
    assert (known.marked, known.attempt, bool(known.evicted), bool(known.waiting_since)) == (True, 2, True, True)
    bare = deepcopy(pod)
    bare["metadata"]["annotations"] = kept
    running = {**bare, "status": {**bare["status"], "phase": "Running"}}
    assert index.update(Update(pod, bare))
    assert index.of("default", uid_of(JOB)) == [replace(known, bare=True)]
    assert index.update(Update(bare, running))
    assert index.of("default", uid_of(JOB)) == [replace(known, bare=True, phase="Running")]
    assert index.update(Update(running, pod))
    assert index.of("default", uid_of(JOB)) == [known]


def test_another_pod_of_the_same_name_has_only_its_own_marks() -> None:
    index = PodIndex()
    killed = a_pod()
    killed["metadata"]["annotations"]["volcano.sh/controller-out-of-sync"] = "true"
    index.update(Update(None, killed))
    new = a_pod()
    new["metadata"]["uid"] = "another"
    index.update(Update(killed, new))
    (record,) = index.of("default", uid_of(JOB))
    assert (record.marked, record.bare) == (False, False)
