"""Who may do what: the same questions to a real kube-apiserver and to ours, asked as the same people.

What may differ is explained in `test_parity.EXPLAINED` and in `EXPLAINED_HERE`; anything else is a failure.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.client.transport import Request
from tests.apiserver.live import LiveServer
from tests.cluster.control_plane import ControlPlane
from tests.cluster.test_parity import compare
from tests.eventually import until

pytestmark = pytest.mark.cluster

SPACE = "identity"
CORE = f"/api/v1/namespaces/{SPACE}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OWN_RBAC = f"{RBAC}/namespaces/{SPACE}"
AUTHENTICATION, AUTHORIZATION = "/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
ROBOT = f"system:serviceaccount:{SPACE}:robot"
ADMIN = ""

Question = tuple[str, str, str, Any]  # who, method, path, body


def role(name: str, *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **fields}


def rule(verbs: str, resources: str, groups: str = "core", names: str = "") -> dict[str, Any]:
    named = ["" if group == "core" else group for group in groups.split()]
    found = {"verbs": verbs.split(), "apiGroups": named, "resources": resources.split()}
    return {**found, "resourceNames": names.split()} if names else found


def binding(name: str, kind: str, role_name: str, *subjects: dict[str, Any]) -> dict[str, Any]:
    reference = {"apiGroup": GROUP, "kind": kind, "name": role_name}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": list(subjects)}


def user(name: str) -> dict[str, Any]:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def account(name: str, namespace: str = SPACE) -> dict[str, Any]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def questions() -> Iterator[Question]:
    yield from setting()
    yield from accounts()
    yield from requests()
    yield from reviews()
    yield from grants()


def setting() -> Iterator[Question]:
    yield ADMIN, "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "robot"}}
    some = rule("get list watch", "pods pods/log")
    yield ADMIN, "POST", f"{OWN_RBAC}/roles", role("reader", some, rule("get update", "configmaps", names="one two"))
    yield ADMIN, "POST", f"{OWN_RBAC}/rolebindings", binding("read", "Role", "reader", user("alice"), account("robot"))
    yield ADMIN, "POST", f"{OWN_RBAC}/rolebindings", binding("broken", "Role", "nowhere", user("broken"))
    yield ADMIN, "POST", f"{OWN_RBAC}/rolebindings", binding("edit", "ClusterRole", "edit", user("edith"))
    yield ADMIN, "POST", f"{OWN_RBAC}/rolebindings", binding("admin", "ClusterRole", "admin", user("adam"))
    wide = [rule("list", "nodes"), rule("*", "*/status", "*"), {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}]
    yield ADMIN, "POST", f"{RBAC}/clusterroles", role("wide", *wide)
    yield ADMIN, "POST", f"{RBAC}/clusterrolebindings", binding("wide", "ClusterRole", "wide", user("walt"))
    lend = [rule("bind", "clusterroles", GROUP, "view"), rule("*", "rolebindings roles", GROUP)]
    lend += [rule("impersonate", "users", names="alice"), rule("impersonate", "groups", names="friends")]
    yield ADMIN, "POST", f"{RBAC}/clusterroles", role("lender", *lend)
    yield ADMIN, "POST", f"{RBAC}/clusterrolebindings", binding("lender", "ClusterRole", "lender", user("lena"))
    for name in ("cluster-admin", "system:discovery", "system:basic-user", "system:public-info-viewer"):
        yield ADMIN, "GET", f"{RBAC}/clusterroles/{name}", None
        yield ADMIN, "GET", f"{RBAC}/clusterrolebindings/{name}", None
    for name in ("admin", "edit", "view"):
        yield ADMIN, "GET", f"{RBAC}/clusterroles/system:aggregate-to-{name}", None
        yield ADMIN, "GET", f"{RBAC}/clusterroles/{name}", None


def accounts() -> Iterator[Question]:
    """What admission makes of a pod's account, and tokens."""
    pods = f"{CORE}/pods"
    yield ADMIN, "POST", pods, pod("a", serviceAccountName="nobody")
    yield ADMIN, "POST", pods, pod("a", serviceAccount="nobody")
    yield ADMIN, "POST", pods, pod("a", serviceAccountName="robot", initContainers=[{"name": "i", "image": "x:1"}])
    yield ADMIN, "POST", pods, pod("b", automountServiceAccountToken=False)
    yield ADMIN, "POST", pods, pod("c", volumes=[{"name": "kube-api-access-mine1", "emptyDir": {}}])
    silent = {"metadata": {"name": "silent"}, "automountServiceAccountToken": False}
    yield ADMIN, "POST", f"{CORE}/serviceaccounts", {**silent, "imagePullSecrets": [{"name": "s1"}]}
    yield ADMIN, "POST", pods, pod("d", serviceAccountName="silent")
    yield ADMIN, "POST", pods, pod("e", serviceAccountName="silent", automountServiceAccountToken=True)
    taken = [{"name": "c", "image": "x:1", "volumeMounts": [{"name": "v", "mountPath": PATH}]}]
    yield ADMIN, "POST", pods, pod("f", containers=taken, volumes=[{"name": "v", "emptyDir": {}}])
    mirror = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}}
    yield ADMIN, "POST", pods, {**pod("m", serviceAccountName="robot", nodeName="n"), "metadata": mirror}
    kept = {"metadata": {"name": "kept"}, "type": "kubernetes.io/service-account-token"}
    yield ADMIN, "POST", f"{CORE}/secrets", kept
    token = f"{CORE}/serviceaccounts/robot/token"
    for spec in (
        {}, {"expirationSeconds": 5}, {"expirationSeconds": 5_000_000_000}, {"audiences": ["vault"]},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a"}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "b"}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "zz"}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a", "uid": "x"}},
        {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "zz"}},
        {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "zz"}},
        {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}},
        {"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "a"}},
    ):  # fmt: skip
        yield ADMIN, "POST", token, {"spec": spec}
    yield ADMIN, "POST", token, {"metadata": {"name": "other"}, "spec": {}}
    yield ADMIN, "POST", f"{CORE}/serviceaccounts/zz/token", {"spec": {}}
    yield ADMIN, "GET", token, None
    yield ADMIN, "POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": "nonsense"}}
    yield ADMIN, "POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {}}


def requests() -> Iterator[Question]:
    """Everything that may be wanted, by people who may and people who may not."""
    config = f"{CORE}/configmaps"
    for who in ("alice", ROBOT, "broken", "edith", "walt", "nobody"):
        for method, path in (
            ("GET", f"{CORE}/pods"), ("GET", f"{CORE}/pods/zz"), ("GET", f"{CORE}/pods/zz/log"),
            ("GET", "/api/v1/pods"),
            ("GET", "/api/v1/namespaces/default/pods"), ("GET", f"{config}/one"), ("GET", config), ("DELETE", config),
            ("GET", f"{config}?fieldSelector=metadata.name%3Dtwo"),
            ("GET", f"{config}?fieldSelector=metadata.name!%3Dtwo"),
            ("GET", f"{config}?watch=1&timeoutSeconds=1"), ("GET", f"{config}/three"), ("DELETE", f"{config}/one"),
            ("GET", "/api/v1/nodes"), ("GET", "/api/v1/nodes/zz"), ("GET", f"{CORE}/secrets"), ("GET", CORE),
            ("GET", "/api/v1/namespaces"), ("GET", f"{CORE}/nothings"), ("GET", "/apis/none.example/v1/things"),
            ("GET", "/apis/apps/v1/deployments"), ("GET", "/logs/x"), ("GET", "/logs"), ("GET", "/nothing"),
            ("GET", "/metrics"), ("GET", f"{CORE}/pods/zz/exec?command=ls"),
            ("GET", f"{CORE}/pods/zz/status"), ("GET", f"{RBAC}/clusterroles"), ("GET", f"{OWN_RBAC}/roles/zz"),
        ):  # fmt: skip
            yield who, method, path, None
        yield who, "POST", f"{CORE}/pods", {}
        yield who, "POST", f"{CORE}/pods/zz/binding", {}
        yield who, "POST", f"{CORE}/serviceaccounts/robot/token", {"spec": {"expirationSeconds": 5}}
        yield who, "PUT", f"{config}/one", {"metadata": {"name": "one"}}
        yield who, "PUT", f"{OWN_RBAC}/roles/new", role("new")


def reviews() -> Iterator[Question]:
    wanted = [
        {"verb": "list", "resource": "pods", "namespace": SPACE}, {"verb": "list", "resource": "pods"},
        {"verb": "get", "resource": "configmaps", "name": "one", "namespace": SPACE},
        {"verb": "get", "resource": "pods", "subresource": "log", "namespace": SPACE},
        {"verb": "patch", "resource": "jobs", "subresource": "status", "group": "batch", "namespace": SPACE},
        {"verb": "*", "resource": "*", "group": "*"}, {"verb": "create", "resource": "pods", "namespace": SPACE},
    ]  # fmt: skip
    for attributes in wanted:
        for who in ("alice", ROBOT, "walt", "edith", "broken", ADMIN):
            body = {"spec": {"resourceAttributes": attributes}}
            yield who, "POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", body
        about = {"spec": {"resourceAttributes": attributes, "user": "alice", "groups": ["friends"]}}
        yield ADMIN, "POST", f"{AUTHORIZATION}/subjectaccessreviews", about
        yield ADMIN, "POST", f"{AUTHORIZATION}/namespaces/{SPACE}/localsubjectaccessreviews", about
        yield "alice", "POST", f"{AUTHORIZATION}/subjectaccessreviews", about
    for spec in (
        {}, {"nonResourceAttributes": {"path": "/logs/x", "verb": "get"}, "user": "walt"},
        {"nonResourceAttributes": {"path": "/apis", "verb": "get"}, "groups": ["system:authenticated"]},
        {"resourceAttributes": wanted[0], "nonResourceAttributes": {"path": "/", "verb": "get"}, "user": "x"},
        {"resourceAttributes": wanted[0]},
    ):  # fmt: skip
        yield ADMIN, "POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec}
        yield "alice", "POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": spec}
    for who in ("alice", "walt", "broken", "nobody"):
        yield who, "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": SPACE}}
    yield "alice", "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}}
    yield "alice", "POST", f"{AUTHENTICATION}/selfsubjectreviews", {}
    yield ROBOT, "POST", f"{AUTHENTICATION}/selfsubjectreviews", {}


def grants() -> Iterator[Question]:
    """Nobody hands on what they do not have."""
    secrets = rule("get list", "secrets services")
    for number, (who, rules) in enumerate(
        (
            ("adam", [rule("get", "pods")]), ("adam", [rule("get", "nodes")]), ("adam", [secrets, rule("*", "*", "*")]),
            ("adam", [rule("get delete", "pods nodes/proxy", names="x")]), ("adam", [{"verbs": ["get"]}]),
            ("lena", [secrets]), ("lena", []),
            ("adam", [rule("create", "pods/exec"), rule("escalate", "roles", GROUP)]),
        )
    ):  # fmt: skip
        yield who, "POST", f"{OWN_RBAC}/roles", role(f"r{number}", *rules)
    yield "adam", "PATCH", f"{OWN_RBAC}/roles/reader", {"metadata": {"labels": {"a": "b"}}}
    yield "adam", "PATCH", f"{OWN_RBAC}/roles/reader", {"rules": [rule("get", "nodes")]}
    for number, (who, kind, name) in enumerate(
        (
            ("adam", "ClusterRole", "view"), ("adam", "ClusterRole", "cluster-admin"), ("adam", "Role", "reader"),
            ("lena", "ClusterRole", "view"), ("lena", "ClusterRole", "edit"), ("lena", "Role", "reader"),
            ("lena", "ClusterRole", "nowhere"), ("adam", "Role", "nowhere"),
            (ADMIN, "Other", "x"), (ADMIN, "Role", ""),
        )
    ):  # fmt: skip
        yield who, "POST", f"{OWN_RBAC}/rolebindings", binding(f"b{number}", kind, name, user("x"))
    yield ADMIN, "PATCH", f"{OWN_RBAC}/rolebindings/read", {"roleRef": {"name": "other"}}
    yield ADMIN, "POST", f"{OWN_RBAC}/rolebindings", binding("odd", "Role", "reader", {"kind": "Dog", "name": "x"})
    yield ADMIN, "POST", f"{OWN_RBAC}/rolebindings", binding("odd", "Role", "reader", {"kind": "User", "name": ""})
    nowhere = {"kind": "ServiceAccount", "name": "x"}
    yield ADMIN, "POST", f"{RBAC}/clusterrolebindings", binding("odd", "ClusterRole", "view", nowhere)
    yield ADMIN, "POST", f"{RBAC}/clusterrolebindings", binding("odd", "Role", "view", user("x"))
    paths = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
    yield ADMIN, "POST", f"{OWN_RBAC}/roles", role("odd", paths)
    yield ADMIN, "POST", f"{OWN_RBAC}/roles", role("odd", {"verbs": [], "apiGroups": [""], "resources": ["pods"]})
    yield ADMIN, "POST", f"{OWN_RBAC}/roles", role("odd", {"verbs": ["get"], "resources": ["pods"]})
    yield ADMIN, "POST", f"{OWN_RBAC}/roles", role("odd", {"verbs": ["get"], "apiGroups": [""]})
    yield ADMIN, "POST", f"{RBAC}/clusterroles", role("odd", {**paths, "resources": ["pods"], "apiGroups": [""]})


PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_both_servers_let_the_same_people_do_the_same(control_plane: ControlPlane, tmp_path: pathlib.Path) -> None:
    async def main(server: LiveServer) -> list[str]:
        real, ours = client_from_files([control_plane.kubeconfig]), client_from_files([server.kubeconfig])
        await forget_installation(real)
        for client in (real, ours):
            await ask(client, (ADMIN, "POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}}))
            await ask(client, (ADMIN, "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}}))
        differences = []
        for question in questions():
            expected, found = [await ask(client, question) for client in (real, ours)]
            differences += [f"{' '.join(map(str, question))}: {each}" for each in compare(expected, found)]
        for client in (real, ours):
            await client.close()
        return differences

    with LiveServer(tmp_path) as server:
        assert asyncio.run(main(server)) == []


def test_both_servers_recognise_their_tokens_alike(control_plane: ControlPlane, tmp_path: pathlib.Path) -> None:
    async def main(server: LiveServer) -> list[str]:
        real, ours = client_from_files([control_plane.kubeconfig]), client_from_files([server.kubeconfig])
        expected, found = [await life_of_a_token(client) for client in (real, ours)]
        for client in (real, ours):
            await client.close()
        return [each for pair in zip(expected, found, strict=True) for each in compare(*pair)]

    with LiveServer(tmp_path) as server:
        assert asyncio.run(main(server)) == []


async def life_of_a_token(client: Client) -> list[tuple[int, Any]]:
    """What a server says of one bound to a pod: asked by others, for other audiences, and after the pod."""
    space = "/api/v1/namespaces/tokens"
    await ask(client, (ADMIN, "POST", "/api/v1/namespaces", {"metadata": {"name": "tokens"}}))
    await ask(client, (ADMIN, "POST", f"{space}/serviceaccounts", {"metadata": {"name": "default"}}))
    await ask(client, (ADMIN, "POST", f"{space}/pods", pod("bound")))
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "bound"}
    answers = []
    for audiences in ([], ["vault", "https://kubernetes.default.svc"], ["vault"]):
        spec = {"boundObjectRef": reference, **({"audiences": audiences} if audiences else {})}
        path = f"{space}/serviceaccounts/default/token"
        made = await client.raw("POST", path, body=msgspec.json.encode({"spec": spec}))
        token = msgspec.json.decode(made.body)["status"]["token"]
        for asked in ([], ["vault"], ["other"], ["vault", "https://kubernetes.default.svc"]):
            review = {"spec": {"token": token, **({"audiences": asked} if asked else {})}}
            answers.append(await ask_review(client, review))
    await ask(client, (ADMIN, "DELETE", f"{space}/pods/bound?gracePeriodSeconds=0", None))
    # The real server believes for ten seconds what it has once found out.
    return [*answers, await until(lambda: refused_review(client, review))]


async def refused_review(client: Client, review: dict[str, Any]) -> tuple[int, Any] | None:
    """The answer, once the token is no longer believed."""
    answer = await ask_review(client, review)
    return None if answer[1]["status"].get("authenticated") else answer


async def ask_review(client: Client, review: dict[str, Any]) -> tuple[int, Any]:
    status, answer = await ask(client, (ADMIN, "POST", f"{AUTHENTICATION}/tokenreviews", review))
    answer["spec"]["token"] = "TOKEN"
    extra = (answer["status"].get("user") or {}).get("extra") or {}
    for key in [key for key in extra if key.endswith(("credential-id", "-uid"))]:
        extra[key] = [len(value) for value in extra[key]]
    # The reasons are worded by each of several authenticators.
    if "error" in answer["status"]:
        answer["status"]["error"] = bool(answer["status"]["error"])
    return status, answer


async def forget_installation(client: Client) -> None:
    """Other tests have given the roles `view` and `edit` more than Kubernetes does; here nobody collects that."""
    for name in ("hekla:view", "hekla:edit"):
        await ask(client, (ADMIN, "DELETE", f"{RBAC}/clusterroles/{name}", None))
    await until(lambda: is_forgotten(client))


async def is_forgotten(client: Client) -> bool:
    roles = [
        await ask(client, (ADMIN, "GET", f"{RBAC}/clusterroles/{name}", None)) for name in ("view", "edit", "admin")
    ]
    return "volcano" not in str(roles)


async def ask(client: Client, question: Question) -> tuple[int, Any]:
    who, method, path, body = question
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Accept": "application/json", **({"Content-Type": kind} if body is not None else {})}
    if who:
        headers["Impersonate-User"] = who
    data = b"" if body is None else msgspec.json.encode(body)
    answer = await client.transport.send(Request(method, path, data, headers))
    try:
        document = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        return answer.status, answer.body.decode() if answer.status != 200 else ""
    # Whether somebody may list or watch is asked here, not what there is.
    if "items" in document or "object" in document:
        return answer.status, ""
    if document.get("kind") == "TokenRequest":
        document["status"] = dict.fromkeys(document["status"], "")
    # Bindings are found in no particular order.
    for rules in ("resourceRules", "nonResourceRules"):
        if rules in (document.get("status") or {}):
            document["status"][rules].sort(key=str)
    return answer.status, document
