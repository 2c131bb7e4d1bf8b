"""What upstream was seen to do with a case, our cluster does too, but for what `differences.yaml` explains."""

from __future__ import annotations

import asyncio
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster, start_cluster
from tests.parity.compare import Explanation, Verdict, judge, read_explanations
from tests.parity.replay import HERE, Case, record_all, recorded_cases, watch_cluster

SIZE = ("--node-cpu", "32", "--node-memory", "128Gi", "--node-gpus", "8")
PRETENDED = ("--nodes", "0", "--simulated-nodes", "3", *SIZE)
REAL = ("--nodes", "3", *SIZE)

# Waits for a controller or a scheduler plugin that is still to be written.
NOT_YET = ("e-cronjob", "c-partitions", "c-partitions-plain")

SELECTION = (
    "d-*", "a-002-1-*", "a-002-2-*", "a-002-8-*", "b-env*", "b-mpi", "b-pytorch-wait", "b-ssh-own-keys", "b-svc",
    "b-svc-hostnetwork", "b-tensorflow-single", "b-hcclrank", "c-depends-on", "c-resources", "c-volumes",
)  # fmt: skip


def cases_like(*patterns: str) -> list[Case]:
    found = recorded_cases()
    return [
        case
        for name, case in found.items()
        if name not in NOT_YET and any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def replayed(cluster: LocalCluster, cases: list[Case], explanations: list[Explanation]) -> list[Verdict]:
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    programs = {"kubectl": kubectl, "vcctl": str(Path(sys.executable).with_name("vcctl"))}

    async def replay() -> list[Verdict]:
        async with watch_cluster(cluster.kubeconfig, programs) as target:
            found = await record_all(target, cases, at_once=10)
        return [judge(case.name, case.recorded, found[case.name], explanations) for case in cases]

    return asyncio.run(replay())


def unexplained(verdicts: list[Verdict]) -> str:
    return "\n".join(str(verdict) for verdict in verdicts if verdict.unexplained)


def test_a_selection_of_the_recordings_comes_out_the_same(tmp_path: Path) -> None:
    explanations = read_explanations(HERE / "differences.yaml")
    with start_cluster(tmp_path / "data", *PRETENDED) as cluster:
        verdicts = replayed(cluster, cases_like(*SELECTION), explanations)
    assert unexplained(verdicts) == ""


@pytest.mark.parity
@pytest.mark.timeout(1200)
def test_every_recording_comes_out_the_same_and_every_explanation_is_needed(tmp_path: Path) -> None:
    explanations = read_explanations(HERE / "differences.yaml")
    with start_cluster(tmp_path / "pretended", *PRETENDED) as cluster:
        verdicts = replayed(cluster, cases_like("a-*", "b-*", "c-*", "d-*", "f-*"), explanations)
    with start_cluster(tmp_path / "real", *REAL) as cluster:
        verdicts += replayed(cluster, cases_like("e-*"), explanations)
    assert unexplained(verdicts) == ""
    assert [one.reason for one in explanations if not one.used] == []
