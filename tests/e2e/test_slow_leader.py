"""A scheduler with a plugin that takes longer than its Lease lasts keeps the Lease, and schedules."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.local_cluster import HEKLA, LocalCluster, clean_environment, start_cluster
from tests.eventually import eventually

PLUGIN = """
import time

from hekla.scheduler.extension import GroupOrder, SchedulerPlugin


class Thoughtful(SchedulerPlugin, GroupOrder):
    def __init__(self, arguments, session):
        super().__init__(arguments, session)
        if session.active:
            time.sleep(6)

    def group_key(self, state):
        return 0.0
"""
CONF = """
actions: "enqueue, allocate"
tiers: [{plugins: [{name: gang}, {name: predicates}, {name: thoughtful}]}]
"""
# The plugin thinks longer than the Lease lasts, and no longer than it may.
TIMES = ("--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: patient, annotations: {scheduling.k8s.io/group-name: patient}}
spec:
  schedulerName: slow
  containers: [{name: main, image: busybox, resources: {requests: {cpu: 100m}}}]
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: patient}
spec: {minMember: 1}
"""


def lease(cluster: LocalCluster) -> tuple[str, int]:
    """Who holds it, and how often it has changed hands."""
    spec = cluster.get("lease", "slow", "-n", "default")["spec"]
    return spec.get("holderIdentity", ""), spec.get("leaseTransitions", 0)


def test_a_slow_plugin_does_not_cost_the_lease(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/thoughtful.py").write_text(PLUGIN)
    (tmp_path / "scheduler.conf").write_text(CONF)
    flags = ("--scheduler-name=slow", "--leader-elect=true", "--leader-elect-resource-namespace=default", *TIMES)
    with start_cluster(tmp_path / "data", "--nodes=0", "--simulated-nodes=1") as cluster:
        command = [HEKLA, "scheduler", "--data-dir", cluster.data_dir, "--plugin-budget=30s", *flags]
        command += ["--scheduler-conf", tmp_path / "scheduler.conf"]
        log = tmp_path / "slow.log"
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=clean_environment())
        try:
            eventually(lambda: "scheduler ready" in log.read_text(), what="it is ready")
            first = lease(cluster)
            cluster.kubectl("apply", "-f", "-", stdin=POD)
            eventually(lambda: cluster.get("pod", "patient")["spec"].get("nodeName"), what="the pod is bound")
            assert process.poll() is None, log.read_text()
            assert lease(cluster) == first
        finally:
            process.terminate()
            process.wait(60)
    assert "lease lost" not in log.read_text()
    assert "its calls took" not in log.read_text()
