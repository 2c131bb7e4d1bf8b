"""What is said of the name of a job that is not there."""

from __future__ import annotations

from hekla.cli.absent import meant
from tests import make

JOBS = [make.job("train"), make.job("evaluate")]


def test_a_pod_is_told_with_its_job() -> None:
    pod = make.pod("train-worker-0", labels={"volcano.sh/job-name": "train"})
    assert meant("train-worker-0", "default", pod, JOBS) == ": that is a pod of job 'train'"


def test_a_job_of_another_namespace_is_told_with_it() -> None:
    assert meant("train", "research", None, JOBS) == ", but in default: say which with -n"


def test_a_misspelling_is_told_with_what_was_meant() -> None:
    assert meant("trian", "default", None, JOBS) == " (did you mean 'train'?)"
    assert meant("trian", "research", None, JOBS) == ""
    assert meant("whale", "default", make.pod("whale"), JOBS) == ""
