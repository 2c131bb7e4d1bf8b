"""`kubectl top`: what pods and nodes use."""

from __future__ import annotations

import json

from hekla.api.quantity import parse
from tests.e2e.local_cluster import LocalCluster
from tests.eventually import eventually

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: top-busy, labels: {top: busy}}
spec:
  nodeName: local
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: any, command: [sh, -c, "while :; do :; done"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: top-large, labels: {top: large}}
spec:
  nodeName: local
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: any, command: [python3, -c, "import time; x = bytearray(100 << 20); time.sleep(600)"]}
    - {name: idle, image: any, command: [sleep, "600"]}
"""


ODD_NODE = """
apiVersion: v1
kind: Node
metadata: {name: top-odd}
"""


def test_top_tells_what_pods_and_nodes_use(cluster: LocalCluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=PODS)
    try:
        eventually(lambda: {"top-busy", "top-large"} <= used(cluster, "pods").keys())
        eventually(lambda: used(cluster, "pods")["top-busy"][0] > 0.05)
        eventually(lambda: used(cluster, "pods")["top-large"][1] > 100 << 20)
        assert used(cluster, "pods", "-l", "top=busy").keys() == {"top-busy"}
        assert used(cluster, "pod", "top-large").keys() == {"top-large"}
        containers = cluster.kubectl("top", "pod", "top-large", "--containers", "--no-headers").splitlines()
        assert sorted(line.split()[1] for line in containers) == ["idle", "main"]
        [line] = cluster.kubectl("top", "node", "--no-headers").splitlines()
        assert line.startswith("local ")
        assert 'pods.metrics.k8s.io "nobody" not found' in cluster.kubectl("top", "pod", "nobody", check=False)
    finally:
        cluster.kubectl("delete", "pod", "top-busy", "top-large", "--grace-period=0")


def test_who_may_look_at_pods_may_see_what_they_use(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "rolebinding", "top-viewer", "--clusterrole=view", "--user=top-viewer")
    try:
        for verb in ("get", "list"):
            may = cluster.kubectl("auth", "can-i", verb, "pods.metrics.k8s.io", "--as=top-viewer", check=False)
            assert may.strip() == "yes"
        # Nodes belong to no namespace.
        may = cluster.kubectl("auth", "can-i", "list", "nodes.metrics.k8s.io", "-A", "--as=top-viewer", check=False)
        assert may.strip().endswith("no")
    finally:
        cluster.kubectl("delete", "rolebinding", "top-viewer")


def test_a_node_with_an_odd_address_keeps_nobody_from_seeing_the_others(cluster: LocalCluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=ODD_NODE)
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    odd = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": 99999}}}
    patch = json.dumps({"status": odd})
    try:
        cluster.kubectl("patch", "node", "top-odd", "--subresource=status", "--type=merge", "-p", patch)
        answer = json.loads(cluster.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"))
        assert [item["metadata"]["name"] for item in answer["items"]] == ["local"]
    finally:
        cluster.kubectl("delete", "node", "top-odd")


def used(cluster: LocalCluster, *arguments: str) -> dict[str, tuple[float, float]]:
    """By name: cores and bytes."""
    lines = (line.split() for line in cluster.kubectl("top", *arguments, "--no-headers", check=False).splitlines())
    return {name: (float(parse(cpu)), float(parse(memory))) for name, cpu, memory in lines}
