"""What people get wrong: the pod shows a reason a kubelet would give, `hekla why` names it, and nothing hangs."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.local_cluster import HEKLA, LocalCluster, clean_environment, start_cluster
from tests.eventually import eventually


@dataclass(frozen=True)
class Mistake:
    """A container, the volumes it refers to, and what is to be read: in the pod's status, and from `hekla why`."""

    name: str
    reason: str
    message: str
    container: dict[str, Any]
    volumes: list[dict[str, Any]] = field(default_factory=list)

    def job(self) -> dict[str, Any]:
        container = {"name": "main", "image": "any", "command": ["true"], **self.container}
        spec = {"restartPolicy": "Never", "containers": [container], "volumes": self.volumes}
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": self.name},
            "spec": {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": spec}}]},
        }


def _reference(name: str, key: str) -> dict[str, Any]:
    return {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}]}


_AT_V = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
_MISTAKES = [
    Mistake("no-command", "ErrImageNeverPull", 'image "nginx" is not mapped', {"image": "nginx", "command": []}),
    Mistake("broken-image", "ErrImageNeverPull", "/no/such/folder", {"image": "broken:1"}),
    Mistake("no-program", "StartError", 'exec: "no-such-program"', {"command": ["no-such-program"]}),
    Mistake("no-folder", "StartError", "/proc/nowhere", {"workingDir": "/proc/nowhere"}),
    Mistake("no-map", "CreateContainerConfigError", 'configmap "nothing" not found', _reference("nothing", "a")),
    Mistake("no-key", "CreateContainerConfigError", "find key absent", _reference("settings", "absent")),
    Mistake(
        "no-volume",
        "ContainerCreating",
        'configmap "nothing" not found',
        _AT_V,
        [{"name": "v", "configMap": {"name": "nothing"}}],
    ),
    Mistake(
        "dots-in-mount",
        "CreateContainerConfigError",
        "is not allowed",
        {"volumeMounts": [{"name": "v", "mountPath": "/v/../../x"}]},
        [{"name": "v", "emptyDir": {}}],
    ),
    Mistake(
        "runs-as-root",
        "CreateContainerConfigError",
        "runAsNonRoot",
        {"securityContext": {"runAsNonRoot": True}},
    ),
]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """All mistakes made at once, in one cluster."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "images.yaml").write_text("broken:1: {root: /no/such/folder}\n")
    with start_cluster(folder / "data", f"--images={folder}/images.yaml", "--node-cpu=64") as cluster:
        cluster.kubectl("create", "configmap", "settings", "--from-literal=a=1")
        for mistake in _MISTAKES:
            cluster.kubectl("apply", "-f", "-", stdin=json.dumps(mistake.job()))
        yield cluster


@pytest.mark.parametrize("mistake", _MISTAKES, ids=lambda mistake: mistake.name)
def test_the_pod_and_why_say_what_is_wrong(wrong: LocalCluster, mistake: Mistake) -> None:
    def shown() -> bool:
        state = wrong.get("pod", f"{mistake.name}-t-0")["status"]["containerStatuses"][0]["state"]
        told = next(iter(state.values()))
        assert told.get("reason") == mistake.reason, state
        assert mistake.message in told.get("message", ""), state
        said = wrong.hekla("why", mistake.name).stdout
        assert mistake.reason in said
        assert mistake.message in said, said
        return True

    eventually(shown, what=f"{mistake.name} is explained")


@pytest.mark.parametrize(
    ("mount", "volume", "field"),
    [
        ({"subPath": "../x"}, {"emptyDir": {}}, "subPath"),
        ({}, {"configMap": {"name": "settings", "items": [{"key": "a", "path": "../../x"}]}}, "items[0].path"),
    ],
)
def test_what_can_never_be_is_refused_at_once(
    wrong: LocalCluster, mount: dict[str, Any], volume: dict[str, Any], field: str
) -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v", **mount}]}
    job = Mistake("dots", "", "", mounts, [{"name": "v", **volume}]).job()
    said = wrong.kubectl("apply", "-f", "-", stdin=json.dumps(job), check=False)
    assert field in said
    assert "must not contain '..'" in said


def test_a_wish_that_is_not_granted_is_told(wrong: LocalCluster) -> None:
    container = {"command": ["sleep", "600"], "ports": [{"containerPort": 80, "hostPort": 80}]}
    wrong.kubectl("apply", "-f", "-", stdin=json.dumps(Mistake("wish", "", "", container).job()))
    eventually(lambda: "hostPort" in wrong.kubectl("describe", "pod", "wish-t-0"), what="the wish is answered")


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [HEKLA, "up", "--data-dir", tmp_path / "data", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert done.returncode != 0
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_two_containers_of_a_pod_that_want_one_port(wrong: LocalCluster) -> None:
    """It is the program's own failure, and the pod shows it like any other."""
    serve = "import socket, time; held = socket.create_server(('', 9000)); time.sleep(600)"
    job = Mistake("port", "", "", {"command": ["python3", "-c", serve]}).job()
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    spec["containers"].append({**spec["containers"][0], "name": "second"})
    wrong.kubectl("apply", "-f", "-", stdin=json.dumps(job))

    def shown() -> bool:
        logs = [wrong.kubectl("logs", "port-t-0", "-c", name, check=False) for name in ("main", "second")]
        assert any("Address already in use" in log for log in logs), logs
        return True

    eventually(shown, what="one of them says so")
