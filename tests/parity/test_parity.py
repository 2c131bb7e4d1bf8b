"""What upstream was seen to do with a case, our cluster does too, but for what `differences.yaml` explains."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster, start_cluster
from tests.parity.compare import Explanation, Verdict, read_explanations, unneeded
from tests.parity.replay import HERE, Case
from tests.parity.selection import cases_like, replay_on, unexplained

SIZE = ("--node-cpu", "32", "--node-memory", "128Gi", "--node-gpus", "8")
PRETENDED = ("--nodes", "0", "--simulated-nodes", "3", *SIZE)
# Those that recorded started and stopped containers without a word.
REAL = ("--nodes", "3", "--node-events", "warnings", *SIZE)

SELECTION = (
    "d-*", "a-002-1-*", "a-002-2-*", "a-002-8-*", "b-env*", "b-mpi", "b-pytorch-wait", "b-ssh-own-keys", "b-svc",
    "b-svc-hostnetwork", "b-tensorflow-single", "b-hcclrank", "c-depends-on", "c-partitions*", "c-resources",
    "c-volumes",
)  # fmt: skip


def replayed(cluster: LocalCluster, cases: list[Case], explanations: list[Explanation]) -> list[Verdict]:
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    return replay_on(cluster.kubeconfig, kubectl, cases, explanations)


def test_a_selection_of_the_recordings_comes_out_the_same(tmp_path: Path) -> None:
    explanations = read_explanations(HERE / "differences.yaml", "local")
    with start_cluster(tmp_path / "data", *PRETENDED) as cluster:
        verdicts = replayed(cluster, cases_like(*SELECTION), explanations)
    assert unexplained(verdicts) == ""


@pytest.mark.parity
@pytest.mark.timeout(1200)
def test_every_recording_comes_out_the_same_and_every_explanation_is_needed(tmp_path: Path) -> None:
    explanations = read_explanations(HERE / "differences.yaml", "local")
    with start_cluster(tmp_path / "pretended", *PRETENDED) as cluster:
        verdicts = replayed(cluster, cases_like("a-*", "b-*", "c-*", "d-*", "f-*"), explanations)
    with start_cluster(tmp_path / "real", *REAL) as cluster:
        verdicts += replayed(cluster, cases_like("e-*"), explanations)
    assert unexplained(verdicts) == ""
    assert unneeded(explanations) == []
