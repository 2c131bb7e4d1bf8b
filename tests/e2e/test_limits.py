"""Quotas, limit ranges and disruption budgets on `hekla up`, as people use them with kubectl."""

from __future__ import annotations

from tests.e2e.local_cluster import LocalCluster
from tests.eventually import eventually

RANGE = """
apiVersion: v1
kind: LimitRange
metadata: {name: r}
spec: {limits: [{type: Container, defaultRequest: {cpu: 10m}, max: {cpu: "1"}}]}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {minAvailable: 1, selector: {matchLabels: {run: a}}}
"""
SLEEP = ("--image=any", "--restart=Never", "--command", "--", "sleep", "3600")


def test_a_quota_and_a_range_limit_a_namespace(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "namespace", "team")
    in_team = ("-n", "team")
    cluster.kubectl(*in_team, "create", "-f", "-", stdin=RANGE)
    cluster.kubectl(*in_team, "create", "quota", "q", "--hard=pods=1,requests.cpu=1")
    cluster.kubectl(*in_team, "run", "a", *SLEEP)
    eventually(lambda: "pods: 1/1, requests.cpu: 10m/1" in cluster.kubectl(*in_team, "get", "quota"), what="counted")
    refused = cluster.kubectl(*in_team, "run", "b", *SLEEP, check=False)
    assert 'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1' in refused
    cluster.kubectl(*in_team, "delete", "pod", "a", "--grace-period=1")
    cluster.kubectl(*in_team, "run", "b", *SLEEP)
    cluster.kubectl(*in_team, "delete", "pod", "b", "--grace-period=1")
    cluster.kubectl("delete", "namespace", "team")


def test_a_drain_waits_for_the_budget(cluster: LocalCluster) -> None:
    cluster.kubectl("run", "a", *SLEEP)
    cluster.kubectl("create", "-f", "-", stdin=BUDGET)
    eventually(lambda: cluster.get("pdb", "b")["status"].get("currentHealthy") == 1, what="the pod is well")
    (node,) = cluster.names("node")
    drain = ("drain", node, "--force", "--pod-selector=run=a", "--timeout=1s")
    try:
        told = cluster.kubectl(*drain, check=False)
        assert "Cannot evict pod as it would violate the pod's disruption budget." in told
        assert cluster.names("pod") == ["a"]
        cluster.kubectl("delete", "pdb", "b")
        cluster.kubectl(*drain[:-1], "--timeout=60s", "--grace-period=1")
        assert cluster.names("pod") == []
    finally:
        cluster.kubectl("uncordon", node)
