from __future__ import annotations

from datetime import timedelta
from typing import Any

from hekla.api.meta import parse_timestamp
from hekla.controllers.job.model import read_job, read_pods
from hekla.controllers.job.status import count_pods, differs, new_status, stamped
from tests import make

NOW = parse_timestamp(make.CREATED) + timedelta(minutes=3, seconds=41)


def a_job(**status: Any) -> dict[str, Any]:
    obj = make.job("demo", make.task("worker", 3))
    obj["status"] = status
    return obj


def test_a_phase_that_comes_again_moves_to_the_end_of_the_conditions() -> None:
    conditions = [{"status": phase, "lastTransitionTime": make.CREATED} for phase in ("Pending", "Running")]
    job = read_job(a_job(state={"phase": "Running", "lastTransitionTime": make.CREATED}, conditions=conditions))
    written = stamped(job, {"state": {"phase": "Pending"}}, NOW, moved=True, killed=False)
    assert [one["status"] for one in written["conditions"]] == ["Running", "Pending"]
    assert written["conditions"][-1]["lastTransitionTime"] == written["state"]["lastTransitionTime"]


def test_a_kill_notes_how_long_the_job_has_been_there_and_converging_forgets_it() -> None:
    job = read_job(a_job(state={"phase": "Running", "lastTransitionTime": make.CREATED}, runningDuration="1s"))
    assert stamped(job, {"state": {"phase": "Aborting"}}, NOW, moved=True, killed=True)["runningDuration"] == "3m41s"
    assert "runningDuration" not in stamped(job, {"state": {"phase": "Running"}}, NOW, moved=True, killed=False)


def test_pods_are_counted_by_phase_and_by_task() -> None:
    job = a_job(state={"phase": "Running"})
    phases = ("Running", "Succeeded", "Strange")
    pods = read_pods([make.job_pod(job, index=index, phase=phase) for index, phase in enumerate(phases)])
    counts = count_pods(read_job(job), pods)
    assert (counts.running, counts.succeeded, counts.unknown, counts.terminating) == (1, 1, 1, 0)
    assert counts.tasks == (("worker", (("Running", 1), ("Succeeded", 1), ("Unknown", 1))),)


def test_a_pod_somebody_deletes_is_terminating_and_stays_known_until_it_is_gone() -> None:
    job = a_job(state={"phase": "Running"})
    pods = read_pods([make.job_pod(job, index=0), make.job_pod(job, index=1, deleting=True)])
    counts = count_pods(read_job(job), pods)
    assert (counts.running, counts.terminating) == (1, 1)
    assert counts.tasks == (("worker", (("Running", 1), ("Terminating", 1))),)
    ours = count_pods(read_job(job), pods, killed=[pods[1].uid])
    assert ours.tasks == (("worker", (("Running", 1),)),)


def test_an_evicted_pod_that_is_still_to_be_answered_for_stays_known() -> None:
    job = a_job(state={"phase": "Running"})
    pods = read_pods([make.job_pod(job, index=0)])
    counts = count_pods(read_job(job), pods, awaited=["demo-worker-1"])
    assert counts.tasks == (("worker", (("Running", 1), ("Terminating", 1))),)
    assert counts.terminating == 0


def test_only_what_says_something_new_is_written() -> None:
    job = a_job(state={"phase": "Running", "lastTransitionTime": make.CREATED}, conditions=[{"status": "Running"}])
    status = new_status(read_job(job), count_pods(read_job(job), ()), "Running", {}, min_available=3)
    job["status"].update(minAvailable=3, version=0, pending=0)
    assert not differs(read_job(job), status)
    assert differs(read_job(job), {**status, "running": 1})
