from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hekla.api.meta import parse_timestamp, timestamp
from hekla.controllers.job.events import occurrences
from hekla.controllers.job.model import read_job, read_pods
from hekla.controllers.job.orders import Waiting, decide
from hekla.controllers.job.policy import Occurrence
from tests import make

NOW = parse_timestamp(make.CREATED)


def a_job(replicas: int = 3, *, version: int = 0, counted: dict[str, int] | None = None, **spec: Any) -> dict[str, Any]:
    obj = make.job("demo", make.task("worker", replicas), **spec)
    obj["status"] = {"state": {"phase": "Running"}, "version": version}
    if counted is not None:
        obj["status"]["taskStatusCount"] = {"worker": {"phase": counted}}
    return obj


def seen(job: dict[str, Any], *pods: dict[str, Any], group: str = "Running") -> list[Occurrence]:
    return occurrences(read_job(job), read_pods(pods), group)


def events(job: dict[str, Any], *pods: dict[str, Any], group: str = "Running") -> list[tuple[str, str]]:
    return [(one.event, one.pod) for one in seen(job, *pods, group=group)]


def test_a_failed_pod_is_an_event_with_its_exit_code() -> None:
    job = a_job(1, counted={"Running": 1})
    (one,) = seen(job, make.job_pod(job, phase="Failed", exit_code=7))
    assert (one.event, one.task, one.pod, one.exit_code) == ("PodFailed", "worker", "demo-worker-0", 7)


def test_the_pod_that_failed_first_is_answered_first() -> None:
    job = a_job(2, counted={"Running": 2})
    late = make.job_pod(job, index=0, phase="Failed", finished="2030-01-01T00:00:09Z")
    early = make.job_pod(job, index=1, phase="Failed", finished="2030-01-01T00:00:01Z")
    assert [name for _, name in events(job, late, early)] == ["demo-worker-1", "demo-worker-0"]


def test_a_pod_that_we_kill_raises_nothing() -> None:
    job = a_job(1, counted={"Running": 1})
    assert events(job, make.job_pod(job, phase="Failed", marked=True)) == []


def test_a_pod_of_an_earlier_incarnation_raises_nothing() -> None:
    job = a_job(1, version=2)
    assert events(job, make.job_pod(job, phase="Failed", version=1)) == []


def test_a_counted_pod_that_is_gone_was_evicted() -> None:
    job = a_job(3, counted={"Running": 3})
    assert events(job, make.job_pod(job, index=0), make.job_pod(job, index=2)) == [("PodEvicted", "demo-worker-1")]


def test_a_pod_that_was_never_counted_is_only_missing() -> None:
    job = a_job(3, counted={"Running": 2})
    assert events(job, make.job_pod(job, index=0), make.job_pod(job, index=1)) == []


def test_a_pod_somebody_else_deletes_is_evicted_when_it_is_gone_not_before() -> None:
    job = a_job(2, counted={"Running": 1, "Terminating": 1})
    leaving = make.job_pod(job, index=1, deleting=True)
    assert events(job, make.job_pod(job, index=0), leaving) == []
    assert events(job, make.job_pod(job, index=0)) == [("PodEvicted", "demo-worker-1")]


def test_an_eviction_is_noticed_while_we_kill_another_pod() -> None:
    job = a_job(3, counted={"Running": 2})
    ours = make.job_pod(job, index=0, marked=True, deleting=True)
    assert events(job, ours, make.job_pod(job, index=2)) == [("PodEvicted", "demo-worker-1")]


def test_what_a_restart_left_over_hides_no_eviction() -> None:
    job = a_job(3, version=1, counted={"Running": 2})
    old = make.job_pod(job, index=0, version=0, deleting=True)
    assert events(job, old, make.job_pod(job, index=2, version=1)) == [("PodEvicted", "demo-worker-1")]


def test_q03_pods_removed_by_a_scale_down_were_not_evicted() -> None:
    job = a_job(1, counted={"Running": 3})
    assert events(job, make.job_pod(job, index=0)) == []


def test_a_task_completes_with_its_last_pod() -> None:
    job = a_job(2, counted={"Running": 2})
    one, other = make.job_pod(job, index=0, phase="Succeeded"), make.job_pod(job, index=1, phase="Succeeded")
    assert events(job, one, make.job_pod(job, index=1)) == []
    assert events(job, one, other) == [("TaskCompleted", "demo-worker-1")]


def test_a_task_fails_when_its_containers_have_restarted_too_often() -> None:
    job = a_job(2, counted={"Running": 2})
    pods = [make.job_pod(job, index=0, restarts=1), make.job_pod(job, index=1, restarts=1)]
    assert events(job, *pods) == []
    pods[0] = make.job_pod(job, index=0, restarts=2)
    assert events(job, *pods) == [("TaskFailed", "demo-worker-0")]


def test_a_delayed_answer_to_a_failing_task_counts_from_when_it_began_to_fail() -> None:
    job = a_job(2, counted={"Running": 2}, policies=[make.policy("TaskFailed", "RestartJob", timeout="60s")])
    waiting = Waiting()

    def due(after: int, *restarts: int) -> tuple[str, float | None]:
        pods = [make.job_pod(job, index=index, restarts=count) for index, count in enumerate(restarts)]
        for pod in pods:
            # What ended long ago is not what fails.
            pod["status"]["initContainerStatuses"] = [make.container_status("Succeeded")]
        moment = NOW + timedelta(hours=1, seconds=after)
        found = decide(read_job(job), read_pods(pods), "Running", waiting, moment)
        return found.order.action, found.next_due

    assert due(0, 3, 2) == ("SyncJob", 60.0)
    # Another of its pods has restarted more often since.
    assert due(30, 3, 4) == ("SyncJob", 30.0)
    assert due(60, 5, 4) == ("RestartJob", None)


def test_a_pod_that_was_lost_with_its_node_did_not_fail_when_its_preparation_ended() -> None:
    job = a_job(1, counted={"Running": 1}, policies=[make.policy("PodFailed", "RestartJob", timeout="60s")])
    lost = make.job_pod(job, phase="Running")
    lost["status"] |= {"phase": "Failed", "initContainerStatuses": [make.container_status("Succeeded")]}
    found = decide(read_job(job), read_pods([lost]), "Running", Waiting(), NOW + timedelta(hours=1))
    assert (found.order.action, found.next_due) == ("SyncJob", 60.0)


def test_q07_an_unknown_group_is_an_event_of_the_current_version() -> None:
    job = a_job(1, version=4, counted={"Running": 1})
    (one,) = seen(job, make.job_pod(job, version=4), group="Unknown")
    assert (one.event, one.version, one.pod) == ("Unknown", 4, "")


def test_a_gang_that_is_lost_before_it_has_pods_is_an_event() -> None:
    assert events(a_job(), group="Unknown") == [("Unknown", "")]


def test_a_job_that_has_no_pods_and_had_none_has_no_events() -> None:
    assert not events(a_job(counted={}), group="Inqueue")


def test_q08_a_running_pod_is_not_pending_whenever_it_is_first_seen() -> None:
    job = a_job(1, counted={"Running": 1}, policies=[{"event": "PodPending", "action": "AbortJob", "timeout": "1m"}])
    assert events(job, make.job_pod(job, phase="Running")) == []
    assert events(job, make.job_pod(job, phase="Pending")) == [("PodPending", "demo-worker-0")]


def test_pods_that_wait_are_told_of_only_where_a_policy_has_an_answer_to_it() -> None:
    job = a_job(1, counted={"Running": 1}, policies=[{"event": "*", "action": "AbortJob"}])
    assert events(job, make.job_pod(job, phase="Pending")) == []


def test_a_delay_counts_from_what_the_pod_says_so_a_restarted_controller_goes_on_waiting() -> None:
    job = a_job(1, counted={"Pending": 1}, policies=[make.policy("PodPending", "RestartJob", timeout="60s")])
    pods = read_pods([make.job_pod(job, phase="Pending")])
    early = decide(read_job(job), pods, "Inqueue", Waiting(), NOW + timedelta(seconds=20))
    assert (early.order.action, early.next_due) == ("SyncJob", 40.0)
    assert [reply.delay_text for reply in early.announce] == ["1m0s"]
    late = decide(read_job(job), pods, "Inqueue", Waiting(), NOW + timedelta(seconds=60))
    assert late.order.action == "RestartJob"


@pytest.mark.parametrize("action", ["AbortJob", "ResumeJob"])
def test_a_delayed_answer_that_is_due_when_it_is_first_seen_is_announced_once_all_the_same(action: str) -> None:
    job = a_job(1, counted={"Running": 1}, policies=[make.policy("PodFailed", action, timeout="1s")])
    pods, waiting = read_pods([make.job_pod(job, phase="Failed", exit_code=1)]), Waiting()
    first = decide(read_job(job), pods, "Running", waiting, NOW + timedelta(seconds=1))
    assert [reply.delay_text for reply in first.announce] == ["1s"]
    assert (first.order.action, first.order.announced) == (action, True)
    assert decide(read_job(job), pods, "Running", waiting, NOW + timedelta(seconds=2)).announce == ()


def test_a_delayed_answer_to_an_eviction_is_called_off_when_the_pod_runs_again() -> None:
    job = a_job(2, counted={"Running": 2}, policies=[make.policy("PodEvicted", "RestartJob", timeout="60s")])
    waiting = Waiting()
    first = decide(read_job(job), read_pods([make.job_pod(job, index=0)]), "Running", waiting, NOW)
    assert (first.next_due, first.evicted) == (60.0, {"demo-worker-1": NOW})
    replacement = {"index": 1, "evicted": timestamp(NOW)}
    again = read_pods([make.job_pod(job, index=0), make.job_pod(job, phase="Pending", **replacement)])
    later = decide(read_job(job), again, "Running", waiting, NOW + timedelta(seconds=30))
    assert (later.next_due, later.announce) == (30.0, ())
    running = read_pods([make.job_pod(job, index=0), make.job_pod(job, **replacement)])
    assert decide(read_job(job), running, "Running", waiting, NOW + timedelta(seconds=61)).order.action == "SyncJob"


def test_a_delayed_answer_to_an_eviction_is_due_for_a_controller_that_did_not_see_it() -> None:
    job = a_job(2, counted={"Running": 2}, policies=[make.policy("PodEvicted", "RestartJob", timeout="60s")])
    pods = [make.job_pod(job, index=0), make.job_pod(job, index=1, phase="Pending", evicted=timestamp(NOW))]
    early = decide(read_job(job), read_pods(pods), "Running", Waiting(), NOW + timedelta(seconds=20))
    assert (early.order.action, early.next_due) == ("SyncJob", 40.0)
    late = decide(read_job(job), read_pods(pods), "Running", Waiting(), NOW + timedelta(seconds=60))
    assert late.order.action == "RestartJob"
