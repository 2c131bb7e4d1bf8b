from __future__ import annotations

from copy import deepcopy

import pytest

from hekla.api.kinds import Obj
from hekla.controllers.job.model import read_job, read_pod
from tests import make


def a_job(generation: int | None = 1) -> Obj:
    job = make.job("demo", make.task("worker", 3))
    job["metadata"]["generation"] = generation
    return job


def scaled(job: Obj, **metadata: object) -> Obj:
    """The same Job with other replicas and another phase."""
    after = deepcopy(job)
    after["metadata"].update(metadata)
    after["spec"]["tasks"][0]["replicas"] = 5
    after["status"] = {"state": {"phase": "Running"}}
    return after


@pytest.mark.parametrize(
    ("version", "ours"), [("0", True), ("12", True), ("", False), ("-1", False), ("\u00b2", False), ("9" * 5000, False)]
)
def test_a_pod_whose_version_is_no_number_is_none_of_ours(version: str, ours: bool) -> None:
    pod = make.job_pod(a_job())
    pod["metadata"]["annotations"]["volcano.sh/job-version"] = version
    assert (read_pod(pod) is not None) is ours


@pytest.mark.parametrize(
    ("generation", "metadata"), [(1, {"generation": 2}), (1, {"uid": "another"}), (None, {}), (1, {"generation": None})]
)
def test_what_the_user_wrote_is_read_again_when_it_may_have_changed(
    generation: int | None, metadata: dict[str, object]
) -> None:
    job = a_job(generation)
    assert read_job(scaled(job, **metadata), read_job(job)).replicas == 5


def test_what_the_user_wrote_is_read_once_a_generation_and_the_status_every_time() -> None:
    before = read_job(a_job())
    after = read_job(scaled(a_job()), before)
    assert (after.tasks is before.tasks, after.phase) == (True, "Running")
