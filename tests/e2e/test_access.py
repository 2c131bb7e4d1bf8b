"""Access on a local cluster: everybody has their rights, the components included, and no more."""

from __future__ import annotations

import re

from tests.e2e.local_cluster import HELLO_GANG, LocalCluster


def refusals(cluster: LocalCluster) -> list[str]:
    """What the API server has answered with 401 or 403 so far."""
    lines = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    return [line for line in lines if re.match(r"apiserver_request_total\{.*code=\"40[13]\"", line)]


def test_the_components_need_no_more_than_their_roles_give_them(cluster: LocalCluster) -> None:
    cluster.hekla("run", HELLO_GANG)
    cluster.hekla("queue", "create", "-N", "extra")
    cluster.hekla("queue", "delete", "-N", "extra")
    cluster.kubectl("create", "namespace", "brief")
    cluster.kubectl("delete", "vcjob", "hello-gang")
    cluster.kubectl("delete", "namespace", "brief")
    assert refusals(cluster) == []


def test_kubectl_knows_who_it_is_and_what_others_may(cluster: LocalCluster) -> None:
    assert "system:masters" in cluster.kubectl("auth", "whoami")
    asked = ("auth", "can-i", "create", "jobs.batch.volcano.sh", "--as", "ann")
    assert cluster.kubectl(*asked, check=False).startswith("no")
    cluster.kubectl("create", "rolebinding", "ann-edits", "--clusterrole=edit", "--user=ann")
    assert cluster.kubectl(*asked) == "yes\n"
    assert "jobs.batch.volcano.sh" in cluster.kubectl("auth", "can-i", "--list", "--as", "ann")
    assert cluster.kubectl("auth", "can-i", "create", "queues", "--as", "ann", check=False).startswith("no")


def test_a_service_account_s_token_opens_what_was_granted(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "serviceaccount", "reader")
    cluster.kubectl("create", "role", "reads-pods", "--verb=get,list", "--resource=pods")
    cluster.kubectl("create", "rolebinding", "reader", "--role=reads-pods", "--serviceaccount=default:reader")
    token = cluster.kubectl("create", "token", "reader").strip()
    whoami = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", f"--token={token}")
    assert whoami == "system:serviceaccount:default:reader"
    assert "No resources" in cluster.kubectl("get", "pods", "-n", "default", f"--token={token}", check=False)
    refused = cluster.kubectl("get", "secrets", f"--token={token}", check=False)
    assert 'User "system:serviceaccount:default:reader" cannot list resource "secrets"' in refused
