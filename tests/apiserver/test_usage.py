"""`metrics.k8s.io` beside the nodes: who is asked, and what is said of those who do not answer."""

from __future__ import annotations

from tests.apiserver.rig import Rig, with_server

GROUP = "/apis/metrics.k8s.io/v1beta1"


def test_what_nobody_tells_of_is_not_there() -> None:
    async def script(rig: Rig) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "any"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        assert (await rig.send("POST", "/api/v1/nodes", node))[0] == 201
        assert (await rig.send("POST", "/api/v1/namespaces/default/pods", pod))[0] == 201
        for path, kind in (("nodes", "NodeMetricsList"), ("pods", "PodMetricsList")):
            status, found, _ = await rig.send("GET", f"{GROUP}/{path}")
            assert (status, found["kind"], found["items"]) == (200, kind, [])
        status, refusal, _ = await rig.send("GET", f"{GROUP}/namespaces/default/pods/p")
        assert (status, refusal["message"]) == (404, 'pods.metrics.k8s.io "p" not found')

    with_server(script)


def test_it_can_be_read_and_nothing_else() -> None:
    async def script(rig: Rig) -> None:
        _, found, _ = await rig.send("GET", GROUP)
        assert {each["name"]: each["verbs"] for each in found["resources"]} == {
            "nodes": ["get", "list"],
            "pods": ["get", "list"],
        }
        assert (await rig.send("DELETE", f"{GROUP}/nodes/n1"))[0] == 404
        for path in ("jobs", "nodes", "pods/p/log"):
            assert (await rig.send("GET", f"{GROUP}/namespaces/default/{path}"))[0] == 404

    with_server(script)
