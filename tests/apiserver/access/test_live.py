"""Tokens and rights over TLS, with kubectl, and across a restart of the server."""

from __future__ import annotations

import http.client
import json
import re
import ssl

from tests.apiserver.live import LiveServer
from tests.kubectl import needs_newer_kubectl


@needs_newer_kubectl
def test_tokens_outlive_the_server_process_and_the_database_holds_none(fresh: LiveServer) -> None:
    token = fresh.kubectl("create", "token", "default", "--duration=20m").strip()
    assert _whoami(fresh, token) == "system:serviceaccount:default:default"
    fresh.process.kill()
    fresh.process.communicate()
    fresh.start()
    assert _whoami(fresh, token) == "system:serviceaccount:default:default"
    for file in (fresh.directory / "state").iterdir():
        assert token.encode() not in file.read_bytes()


@needs_newer_kubectl
def test_what_an_account_may_ends_with_its_roles(live: LiveServer) -> None:
    live.kubectl("create", "serviceaccount", "robot")
    live.kubectl("create", "role", "reads", "--verb=list", "--resource=pods,jobs.batch.volcano.sh")
    token = live.kubectl("create", "token", "robot").strip()
    pods, jobs = "/api/v1/namespaces/default/pods", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
    assert [_status(live, token, path) for path in (pods, jobs, "/api/v1/nodes")] == [403, 403, 403]
    live.kubectl("create", "rolebinding", "reads", "--role=reads", "--serviceaccount=default:robot")
    assert [_status(live, token, path) for path in (pods, jobs, "/api/v1/nodes")] == [200, 200, 403]
    live.kubectl("delete", "rolebinding", "reads")
    assert [_status(live, token, path) for path in (pods, jobs, "/api/v1/nodes")] == [403, 403, 403]
    live.kubectl("delete", "serviceaccount", "robot")
    assert _status(live, token, pods) == 401


@needs_newer_kubectl
def test_a_pod_s_shell_needs_the_right_to_open_one(live: LiveServer) -> None:
    """An upgrade to a websocket takes another way through the server; it is asked the same questions."""
    token = live.kubectl("create", "token", "default").strip()
    assert _upgrade(live, token) == (403, 'cannot get resource "pods/exec"')
    live.kubectl("create", "role", "half", "--verb=get", "--resource=pods/exec")
    live.kubectl("create", "rolebinding", "half", "--role=half", "--serviceaccount=default:default")
    assert _upgrade(live, token) == (403, 'cannot create resource "pods/exec"')
    assert _upgrade(live, "wrong") == _upgrade(live, "") == (401, "")
    assert _upgrade(live, live.token) == (404, "")


def _upgrade(server: LiveServer, token: str) -> tuple[int, str]:
    """The answer to a wish for a websocket: its status, and what is said that somebody cannot."""
    context = ssl.create_default_context(cafile=str(server.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60)
    headers = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **({"Authorization": f"Bearer {token}"} if token else {}),
    }  # fmt: skip
    connection.request("GET", "/api/v1/namespaces/default/pods/p/exec?command=sh", headers=headers)
    answer = connection.getresponse()
    said = re.search(r'cannot \w+ resource "[^"]*"', json.loads(answer.read())["message"])
    connection.close()
    return answer.status, said[0] if said else ""


def _whoami(server: LiveServer, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}", "Content_Type": "application/json"}
    status, body = server.ask("/apis/authentication.k8s.io/v1/selfsubjectreviews", method="POST", body=b"{}", **headers)
    assert status == 201, body
    return str(json.loads(body)["status"]["userInfo"]["username"])


def _status(server: LiveServer, token: str, path: str) -> int:
    return server.ask(path, Authorization=f"Bearer {token}")[0]
