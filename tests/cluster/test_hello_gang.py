"""The same job file on a real kube-apiserver, with our controllers, our scheduler and our node as its kubelet."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.components import HEKLA, start_components
from tests.cluster.control_plane import ControlPlane
from tests.eventually import eventually

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "hello-gang" / "job.yaml"
QUEUE = "spec:\n  queue: nowhere"


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with start_components(control_plane, tmp_path_factory.mktemp("hekla")):
        yield control_plane


def kubectl(cluster: ControlPlane, *arguments: str) -> str:
    done = subprocess.run(
        [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, *arguments], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_hekla_run_runs_the_gang_to_its_end(cluster: ControlPlane) -> None:
    done = subprocess.run(
        [HEKLA, "run", EXAMPLE, "--kubeconfig", cluster.kubeconfig], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the sum of our ranks is 3") == 3
    kubectl(cluster, "delete", "vcjob", "hello-gang", "--wait")


def test_a_run_in_a_queue_that_is_not_there_says_so_where_no_webhook_does(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(EXAMPLE.read_text().replace("name: hello-gang", "name: lost").replace("spec:", QUEUE, 1))
    run = [HEKLA, "run", "--detach", file, "--kubeconfig", cluster.kubeconfig]
    done = subprocess.run(run, capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout) == (0, "job.batch.volcano.sh/lost submitted\n")
    assert done.stderr == (
        "warning: QueueUnusable: queue nowhere does not exist: make it, or name another in a new job\n"
    )
    kubectl(cluster, "delete", "vcjob", "lost", "--wait")


def test_a_run_without_its_gang_says_so_where_no_webhook_fills_it_in(cluster: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(EXAMPLE.read_text().replace("  minAvailable: 3\n", ""))
    run = [HEKLA, "run", "--detach", file, "--kubeconfig", cluster.kubeconfig]
    done = subprocess.run(run, capture_output=True, text=True, timeout=180)
    untold = "spec.minAvailable is not set, and no webhook here fills it in"
    told = f"warning: {untold}: this is no gang, its pods start one by one\n"
    assert (done.returncode, done.stderr) == (0, told)
    kubectl(cluster, "delete", "vcjob", "hello-gang", "--wait")


def test_kubectl_sees_the_job_as_people_know_it(cluster: ControlPlane) -> None:
    kubectl(cluster, "apply", "-f", str(EXAMPLE))
    kubectl(cluster, "wait", "vcjob/hello-gang", "--for=jsonpath={.status.state.phase}=Completed", "--timeout=150s")
    assert "the sum of our ranks is 3" in kubectl(cluster, "logs", "hello-gang-worker-0")
    assert "Completed" in kubectl(cluster, "get", "vcjob", "hello-gang")
    assert "dependsOn" in kubectl(cluster, "explain", "vcjob.spec.tasks")
    kubectl(cluster, "delete", "vcjob", "hello-gang", "--wait")
    owned = ("pod", "podgroup", "configmap", "service", "networkpolicy")
    eventually(lambda: not [name for kind in owned for name in _names(cluster, kind) if "hello-gang" in name])


def _names(cluster: ControlPlane, kind: str) -> list[str]:
    items = json.loads(kubectl(cluster, "get", kind, "-o", "json"))["items"]
    return [item["metadata"]["name"] for item in items]
