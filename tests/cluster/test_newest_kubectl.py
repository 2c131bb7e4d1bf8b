"""The kubectl built from the same release as the real API server, against `hekla up`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import find_binaries
from tests.e2e.local_cluster import HELLO_GANG, LocalCluster, start_cluster
from tests.e2e.test_attach import LISTENER, start
from tests.e2e.test_port_forward import POD, forwarded, say

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    binaries = find_binaries()
    kubectl = str(binaries / "kubectl") if binaries else "kubectl"
    with start_cluster(tmp_path_factory.mktemp("newest") / "data", kubectl=kubectl) as running:
        yield running


def test_a_job_from_apply_to_delete(cluster: LocalCluster) -> None:
    cluster.kubectl("apply", "-f", HELLO_GANG)
    cluster.kubectl("wait", "vcjob/hello-gang", "--for=jsonpath={.status.state.phase}=Completed", "--timeout=150s")
    assert "hello-gang-worker-2" in cluster.kubectl("get", "vcjob,podgroup,pod", "-o", "wide")
    assert "the sum of our ranks is 3" in cluster.kubectl("logs", "-f", "hello-gang-worker-1")
    assert "Completed" in cluster.kubectl("describe", "vcjob", "hello-gang")
    cluster.kubectl("delete", "-f", HELLO_GANG)


def test_server_side_apply_and_diff(cluster: LocalCluster) -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n"
    assert "serverside-applied" in cluster.kubectl("apply", "--server-side", "-f", "-", stdin=config)
    assert cluster.kubectl("diff", "-f", "-", stdin=config, check=False) == ""
    changed = cluster.kubectl("diff", "-f", "-", stdin=config.replace("'1'", "'2'"), check=False)
    assert '+  a: "2"' in changed
    cluster.kubectl("delete", "configmap", "settings")


def test_explain_and_api_resources(cluster: LocalCluster) -> None:
    assert "dependsOn" in cluster.kubectl("explain", "vcjob.spec.tasks")
    assert "vcjob,vj" in cluster.kubectl("api-resources", "--api-group=batch.volcano.sh")


def test_streams_go_in_and_out(cluster: LocalCluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=POD)
    start(cluster, "listener", LISTENER)
    cluster.kubectl("wait", "pod/echo", "--for=condition=Ready", "--timeout=150s")
    assert cluster.kubectl("exec", "-i", "echo", "--", "cat", stdin="hello\n") == "hello\n"
    assert cluster.kubectl("attach", "-i", "listener", stdin="to whom it may concern\n") == "to whom it may concern\n"
    with forwarded(cluster, "service/front", 80) as port:
        assert say(port, b"through the newest protocol") == b"through the newest protocol"
    cluster.kubectl("delete", "pod", "--all")
