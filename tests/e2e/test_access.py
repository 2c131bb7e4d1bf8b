"""Access on a local cluster: everybody has their rights, the components included, and no more."""

from __future__ import annotations

import json
import re

from tests.e2e.local_cluster import HELLO_GANG, LocalCluster
from tests.kubectl import needs_newer_kubectl


def refusals(cluster: LocalCluster) -> list[str]:
    """How often the API server has answered with 401 or 403 so far, by what was asked."""
    lines = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    return [line for line in lines if re.match(r"apiserver_request_total\{.*code=\"40[13]\"", line)]


def test_the_components_need_no_more_than_their_roles_give_them(cluster: LocalCluster) -> None:
    before = refusals(cluster)
    cluster.hekla("run", HELLO_GANG)
    cluster.hekla("queue", "create", "-N", "extra")
    cluster.hekla("queue", "delete", "-N", "extra")
    cluster.kubectl("create", "namespace", "brief")
    cluster.kubectl("delete", "vcjob", "hello-gang")
    cluster.kubectl("delete", "namespace", "brief")
    assert refusals(cluster) == before


@needs_newer_kubectl
def test_kubectl_knows_who_it_is_and_what_others_may(cluster: LocalCluster) -> None:
    assert "system:masters" in cluster.kubectl("auth", "whoami")
    asked = ("auth", "can-i", "create", "jobs.batch.volcano.sh", "--as", "ann")
    assert cluster.kubectl(*asked, check=False).startswith("no")
    cluster.kubectl("create", "rolebinding", "ann-edits", "--clusterrole=edit", "--user=ann")
    assert cluster.kubectl(*asked) == "yes\n"
    assert "jobs.batch.volcano.sh" in cluster.kubectl("auth", "can-i", "--list", "--as", "ann")
    assert cluster.kubectl("auth", "can-i", "create", "queues", "--as", "ann", check=False).startswith("no")


@needs_newer_kubectl
def test_a_service_account_s_token_opens_what_was_granted(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "serviceaccount", "reader")
    cluster.kubectl("create", "role", "reads-pods", "--verb=get,list", "--resource=pods")
    cluster.kubectl("create", "rolebinding", "reader", "--role=reads-pods", "--serviceaccount=default:reader")
    token = cluster.kubectl("create", "token", "reader").strip()
    whoami = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", f"--token={token}")
    assert whoami == "system:serviceaccount:default:reader"
    cluster.kubectl("get", "pods", "-n", "default", f"--token={token}")
    refused = cluster.kubectl("get", "secrets", f"--token={token}", check=False)
    assert 'User "system:serviceaccount:default:reader" cannot list resource "secrets"' in refused


CALLS = """
import json, ssl, urllib.error, urllib.request
own = "/var/run/secrets/kubernetes.io/serviceaccount/"
context = ssl.create_default_context(cafile=own + "ca.crt")
bearer = {"Authorization": "Bearer " + open(own + "token").read(), "Content-Type": "application/json"}
space = "/api/v1/namespaces/default/"
pod = {"metadata": {"name": "more"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
role = {"metadata": {"name": "x"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
rbac = "/apis/rbac.authorization.k8s.io/v1/"
calls = [
    ("GET", space + "pods"), ("GET", space + "pods/caller"), ("GET", space + "configmaps/settings"),
    ("GET", "/version"), ("GET", "/api"), ("GET", "/apis"),
    ("GET", "/api/v1/pods"), ("GET", "/api/v1/namespaces/kube-system/pods"), ("GET", space + "pods/caller/log"),
    ("GET", space + "pods?watch=1"), ("GET", space + "configmaps"), ("GET", space + "configmaps/kube-root-ca.crt"),
    ("GET", space + "secrets"), ("GET", space + "serviceaccounts/default"), ("GET", "/api/v1/nodes"),
    ("GET", "/api/v1/namespaces"), ("GET", "/metrics"), ("GET", rbac + "clusterroles"), ("GET", "/nothing"),
    ("GET", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"), ("GET", space + "events"),
    ("POST", space + "pods", pod), ("POST", space + "serviceaccounts/default/token", {"spec": {}}),
    ("POST", space + "pods/caller/binding", {}), ("POST", rbac + "clusterroles", role), ("DELETE", space + "pods"),
    ("DELETE", space + "pods/caller"), ("PATCH", space + "pods/caller/status", {}),
    ("DELETE", "/api/v1/namespaces/default"),
    ("POST", "/apis/hekla.dev/v1/bindingbatches", {"items": [{"metadata": {}, "target": {"name": "n"}}]}),
    ("GET", space + "pods", None, {"Impersonate-User": "hekla-admin", "Impersonate-Group": "system:masters"}),
    ("GET", space + "pods", None, {"Authorization": "Bearer x"}), ("GET", space + "pods", None, {"Authorization": ""}),
]
answers = []
for method, path, *rest in calls:
    body = json.dumps(rest[0]).encode() if rest and rest[0] is not None else None
    headers = {**bearer, **(rest[1] if len(rest) > 1 else {})}
    request = urllib.request.Request("https://kubernetes.default.svc" + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            answers.append(answer.status)
    except urllib.error.HTTPError as error:
        answers.append(error.code)
print(json.dumps(answers))
"""


def test_a_pod_reaches_the_api_with_its_own_rights_and_no_others(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "serviceaccount", "caller")
    cluster.kubectl("create", "configmap", "settings", "--from-literal=a=b")
    cluster.kubectl("create", "role", "calls", "--verb=get,list", "--resource=pods")
    cluster.kubectl("create", "role", "knows", "--verb=get", "--resource=configmaps", "--resource-name=settings")
    for role in ("calls", "knows"):
        cluster.kubectl("create", "rolebinding", role, f"--role={role}", "--serviceaccount=default:caller")
    container = {"name": "main", "image": "local", "command": ["python3", "-c", CALLS]}
    spec = {"serviceAccountName": "caller", "restartPolicy": "Never", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "caller"}, "spec": spec}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    cluster.wait_for("pod/caller", ".status.phase", "Succeeded")
    answers = json.loads(cluster.kubectl("logs", "caller"))
    assert len(answers) == 33
    assert answers[:6] == [200] * 6
    assert answers[6:31] == [403] * 25
    assert answers[31:] == [401] * 2


def test_a_pod_does_not_see_what_the_components_hold(cluster: LocalCluster) -> None:
    """Neither the folder of the cluster's keys nor its socket is there, from a pod's side."""
    look = f"ls -A {cluster.data_dir} | wc -l; cat {cluster.data_dir}/kubeconfig {cluster.data_dir}/pki/token | wc -c"
    container = {"name": "main", "image": "local", "command": ["sh", "-c", f"({look}) 2>/dev/null"]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "looker"}, "spec": spec}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    cluster.wait_for("pod/looker", ".status.phase", "Succeeded")
    assert cluster.kubectl("logs", "looker").split() == ["0", "0"]
