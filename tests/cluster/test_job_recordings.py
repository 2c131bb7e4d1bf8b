"""What upstream was seen to do with a Job on a real API server, we do on one, too, but for what is explained.

A selection in every run; `scripts/test-cluster -m every_recording` replays all of them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.cluster.components import start_components, start_webhook
from tests.cluster.control_plane import ControlPlane, start_kube_scheduler
from tests.parity.compare import Explanation, Verdict, read_explanations, unneeded
from tests.parity.replay import HERE, Case
from tests.parity.selection import cases_like, replay_on, unexplained

VOLUMES = Path(__file__).with_name("volumes.yaml")
SIZE = ("--node-memory", "128Gi", "--node-gpus", "8")
PRETENDED = ("--simulated-nodes", "3", "--node-cpu", "32", *SIZE)
# Those that recorded started and stopped containers without a word.
REAL = ("--node-cpu", "96", "--node-events", "warnings", *SIZE)

SELECTION = (
    "a-002-2-*", "b-env", "b-svc", "b-ssh-own-keys", "b-pytorch-wait", "b-svc-unknown-flag", "c-resources", "c-volumes",
    "d-job-*", "d-queue-*", "d-podgroup", "d-update-template", "f-job-run",
)  # fmt: skip
RUNNING = ("e-podfailed-restartjob", "e-restart-pod-plugins", "e-suspend", "e-scale-down", "e-events-list")


@contextmanager
def our_cluster(plane: ControlPlane, directory: Path, node: tuple[str, ...]) -> Iterator[None]:
    directory.mkdir()
    kubectl = [plane.kubectl, "--kubeconfig", plane.kubeconfig]
    for volume in yaml.safe_load(VOLUMES.read_text()):
        subprocess.run([*kubectl, "apply", "-f", "-"], input=json.dumps(volume), text=True, check=True)
    with (
        start_components(plane, directory, node=node),
        start_webhook(plane, directory),
        start_kube_scheduler(plane, directory),
    ):
        yield
    subprocess.run([*kubectl, "delete", "nodes", "--all"], check=True)


def replayed(
    plane: ControlPlane, directory: Path, node: tuple[str, ...], cases: list[Case], explanations: list[Explanation]
) -> list[Verdict]:
    with our_cluster(plane, directory, node):
        return replay_on(plane.kubeconfig, str(plane.kubectl), cases, explanations)


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_selection_of_the_recordings_comes_out_the_same(own_plane: ControlPlane, tmp_path: Path) -> None:
    explanations = read_explanations(HERE / "differences.yaml", "real")
    verdicts = replayed(own_plane, tmp_path / "pretended", PRETENDED, cases_like(*SELECTION), explanations)
    verdicts += replayed(own_plane, tmp_path / "real", REAL, cases_like(*RUNNING), explanations)
    assert unexplained(verdicts) == ""


@pytest.mark.every_recording
@pytest.mark.timeout(1200)
def test_every_recording_comes_out_the_same_and_every_explanation_is_needed(
    own_plane: ControlPlane, tmp_path: Path
) -> None:
    explanations = read_explanations(HERE / "differences.yaml", "real")
    pretended, running = cases_like("a-*", "b-*", "c-*", "d-*", "f-*"), cases_like("e-*")
    verdicts = replayed(own_plane, tmp_path / "pretended", PRETENDED, pretended, explanations)
    verdicts += replayed(own_plane, tmp_path / "real", REAL, running, explanations)
    assert unexplained(verdicts) == ""
    assert unneeded(explanations) == []
