"""What is said of the name of a job that is not there."""

from __future__ import annotations

from hekla.cli.absent import meant
from tests import make

JOBS = [make.job("train"), make.job("evaluate")]


def test_a_pod_is_told_with_its_job() -> None:
    pod = make.pod("train-worker-0", labels={"volcano.sh/job-name": "train"})
    assert meant("train-worker-0", "default", [pod], JOBS) == ": that is a pod of job 'train'"


def test_a_job_of_another_namespace_is_told_with_it() -> None:
    assert meant("train", "research", [], JOBS) == ", but in default: say which with -n"


def test_a_misspelling_is_told_with_what_was_meant() -> None:
    assert meant("trian", "default", [], JOBS) == " (did you mean 'train'?)"
    assert meant("trian", "research", [], JOBS) == ""
    assert meant("whale", "default", [make.pod("whale")], JOBS) == ""


def test_what_makes_jobs_is_told_with_those_it_has_made() -> None:
    flow = {"kind": "JobFlow", "metadata": {"name": "nightly", "namespace": "default", "uid": "f"}}
    owner = {"kind": "JobFlow", "name": "nightly", "uid": "f", "controller": True}
    jobs = [*JOBS, *(make.job(f"nightly-{part}", meta={"ownerReferences": [owner]}) for part in "ba")]
    assert meant("nightly", "default", [flow], JOBS) == ": that is a JobFlow, which has no jobs now"
    assert meant("nightly", "default", [flow], jobs) == ": that is a JobFlow; its jobs are nightly-a, nightly-b"
    assert meant("nightly", "default", [flow], jobs[:-1]) == ": that is a JobFlow; its job is nightly-b"
    template = {"kind": "JobTemplate", "metadata": {"name": "step"}}
    assert meant("step", "default", [template], JOBS) == ": that is a JobTemplate, of which JobFlows make jobs"
