"""The same requests to a real kube-apiserver and to ours: status, reason, words and objects must agree.

What may differ is listed in `EXPLAINED`, each with its reason; anything else is a failure.
"""

from __future__ import annotations

import asyncio
import pathlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.client.transport import Request
from tests.apiserver.live import LiveServer
from tests.apiserver.rig import WIDGETS
from tests.cluster.control_plane import ControlPlane
from tests.eventually import until

pytestmark = pytest.mark.cluster

NAMESPACE = "parity"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
CUSTOM = f"/apis/example.org/v1/namespaces/{NAMESPACE}/widgets"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Question = tuple[str, str, Any, str]
Path = tuple[str, ...]

# Where the answers may differ, by the end of the path into the document, and why.
EXPLAINED: dict[str, str] = {
    "managedFields": "we record appliers only",
    "uid": "random", "resourceVersion": "another sequence", "creationTimestamp": "time", "time": "time",
    "lastTransitionTime": "time", "deletionTimestamp": "time",
    "lastProbeTime": "zero value Go writes", "lastState": "zero value Go writes",
}  # fmt: skip


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def widget(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3, **spec}}


def requests() -> Iterator[Question]:
    yield from configuration()
    yield from wrong_patches()
    yield from questions()
    yield from pods()
    yield from services()
    yield from scales()
    yield from events()
    yield from custom_resources()


def configuration() -> Iterator[Question]:
    maps = f"{CORE}/configmaps"
    a = f"{maps}/a"
    for body in (
        {"metadata": {"name": "a"}, "data": {"x": "1"}},
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "b", "resourceVersion": "5"}},
        {"metadata": {"name": "B_"}},
        {"metadata": {}},
        {"metadata": {"name": "b", "labels": {"a b": "c"}}},
        {"metadata": {"name": "b", "finalizers": ["foo"]}},
        {"metadata": {"name": "b", "namespace": "other"}},
        {"metadata": {"name": "b"}, "data": {"a": 5}},
        {"metadata": {"name": "b"}, "data": {"a b": "5"}},
    ):
        yield "POST", maps, body, "application/json"
    yield "POST", f"{maps}?fieldValidation=Strict", {"metadata": {"name": "b"}, "nope": 1}, "application/json"
    yield "POST", f"{maps}?dryRun=Foo", {"metadata": {"name": "b"}}, "application/json"
    yield "POST", maps, {}, "text/plain"
    yield "PUT", a, {"metadata": {"name": "a", "resourceVersion": "1"}}, "application/json"
    yield "PUT", a, {"metadata": {"name": "b"}}, "application/json"
    yield "PUT", f"{maps}/zz", {"metadata": {"name": "zz"}}, "application/json"
    yield "PATCH", a, {"data": {"x": None, "y": "2"}}, MERGE
    yield "PATCH", a, [{"op": "add", "path": "/metadata/labels", "value": {"l": "1"}}], JSON_PATCH
    yield "PATCH", a, [{"op": "test", "path": "/data/y", "value": "3"}], JSON_PATCH
    yield "PATCH", a, {}, "application/json"
    for query in ("fieldSelector=data.x%3Da", "resourceVersion=abc", "limit=abc", "resourceVersionMatch=Exact"):
        yield "GET", f"{maps}?{query}", None, ""
    for path in (f"{CORE}/nothings", "/apis/nothing.example/v1", "/nothing", f"{maps}/zz"):
        yield "GET", path, None, ""
    yield "DELETE", a, {"preconditions": {"uid": "x"}}, "application/json"
    yield "DELETE", a, {"propagationPolicy": "Foo"}, "application/json"
    yield "DELETE", a, {"propagationPolicy": "Foreground"}, "application/json"
    yield "DELETE", "/api/v1/namespaces/default", None, ""
    yield "DELETE", "/api/v1/namespaces", None, ""


def questions() -> Iterator[Question]:
    """Selectors and other queries, most of them wrong."""
    empty, maps = f"{CORE}/podtemplates", f"{CORE}/configmaps"
    for selector in (
        "a in (b", "!", "a,,b", "a=b=c", "x" * 70, "a>x", ",", "a==", "a in ()", "a>5", "a in", "a in b", "a in (b,,c)",
        "=", "a!=b!", "a b", "a in (b) c", "a in (b),", "!a=b", "a/b/c", "A_/b", "a=_b", "a!", "a<", "a<1.5", "(a)",
        "!!a", "a,", "in", "in in (in)", "a=" + "x" * 64, "-a", "a/", "/a", "a in (_b)", "a !in (b)", "a=!b", "a=(",
        "a in ((b)", "a in (b c)", "a in (b=c)", "a=>b", "a===b", "a>-5", "a(", "! a", "a ,b", "\u00e9=1", "a=\u00e9",
    ):  # fmt: skip
        yield "GET", f"{empty}?labelSelector={quote(selector, safe='')}", None, ""
    for selector in (
        "a", "a=b=c", "metadata.name", "metadata.name==", "metadata.name=x,", "!metadata.name", "metadata.name>1",
        ",", "=", "metadata.name=a\\b", "foo!=bar", "metadata.name=a\\,b", "a=",
    ):  # fmt: skip
        yield "GET", f"{empty}?fieldSelector={quote(selector, safe='')}", None, ""
    for query in ("watch=1&resourceVersion=abc", "watch=1&labelSelector=!", "watch=1&timeoutSeconds=abc"):
        yield "GET", f"{maps}?{query}", None, ""
    yield "GET", f"{maps}/p?resourceVersion=abc", None, ""


def wrong_patches() -> Iterator[Question]:
    maps = f"{CORE}/configmaps"
    yield "POST", maps, {"metadata": {"name": "p"}, "data": {"a": "b"}}, "application/json"
    for patch in (
        {"data": 5}, {"data": {"a": 5}}, {"metadata": {"labels": 5}}, {"metadata": 5}, {"metadata": None},
        {"metadata": {"name": "other"}}, {"kind": "Foo"}, {"apiVersion": "v2"},
    ):  # fmt: skip
        yield "PATCH", f"{maps}/p", patch, MERGE
    yield "PATCH", f"{maps}/p", [{"op": "replace", "path": "/data", "value": 5}], JSON_PATCH


def pods() -> Iterator[Question]:
    p = f"{CORE}/pods/p"
    yield "POST", f"{CORE}/pods", pod("p"), "application/json"
    yield "POST", f"{CORE}/pods", pod("q", restartPolicy="Foo", dnsPolicy="Bar"), "application/json"
    yield "POST", f"{CORE}/pods", {"metadata": {"name": "q"}, "spec": {"containers": "x"}}, "application/json"
    yield "POST", f"{CORE}/pods", pod("q", priorityClassName="nope"), "application/json"
    yield "POST", f"{CORE}/pods", pod("gated", schedulingGates=[{"name": "a.b/c"}]), "application/json"
    for name in ("gated", "zz"):
        yield (
            "POST",
            f"{CORE}/pods/{name}/binding",
            {"metadata": {"name": name}, "target": {"name": "n"}},
            "application/json",
        )
    for target in ({}, {"kind": "Foo", "name": "n"}, {"kind": "Node", "name": "n"}, {"kind": "Node", "name": "n"}):
        yield "POST", f"{p}/binding", {"metadata": {"name": "p"}, "target": target}, "application/json"
    yield "GET", p, None, ""
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    yield "PATCH", f"{p}/status", {"status": status, "spec": {"nodeName": "zz"}}, MERGE
    yield "PATCH", f"{p}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, STRATEGIC
    yield "PATCH", p, {"spec": {"containers": [{"name": "c", "image": "x:2"}]}}, STRATEGIC
    yield "PATCH", p, {"spec": {"containers": [{"name": "d", "image": "x:2"}]}}, STRATEGIC
    yield "GET", f"{p}/log?container=nope", None, ""
    for grace in (10, 20, 5, 0, 0):
        yield "DELETE", p, {"gracePeriodSeconds": grace}, "application/json"


def services() -> Iterator[Question]:
    base = f"{CORE}/services"
    ports = [{"port": 80}]
    for index, spec in enumerate(
        (
            {"clusterIP": "10.96.0.77"}, {"clusterIP": "10.96.0.77"}, {"clusterIP": "1.2.3.4"}, {"clusterIP": "foo"},
            {"clusterIP": "None"}, {"clusterIP": "None", "selector": {"a": "b"}}, {"clusterIP": "10.96.255.255"},
            {"type": "ExternalName", "externalName": "x.y"}, {"type": "ExternalName"}, {"clusterIP": "fd00::1"},
            {"type": "ExternalName", "externalName": "x.y", "clusterIP": "10.96.0.78"}, {"clusterIP": "010.96.0.9"},
            {"clusterIPs": ["10.96.0.80"]}, {"clusterIP": "10.96.0.81", "clusterIPs": ["10.96.0.82"]},
            {"type": "NodePort", "clusterIP": "None"}, {"ipFamilyPolicy": "RequireDualStack"}, {"ipFamilies": ["IPv6"]},
            {"type": "NodePort", "clusterIP": "10.96.0.83", "ports": [{"port": 80, "nodePort": 30555}]},
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30555}]}, {"ipFamilyPolicy": "Foo"},
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 300}]}, {"ports": []}, {"type": "Foo"},
            {"type": "LoadBalancer", "clusterIP": "10.96.0.84", "ports": [{"port": 80, "nodePort": 30556}]},
            {"ports": [{"port": 80, "nodePort": 30557}]}, {"clusterIP": "None", "ipFamilies": ["IPv6"]},
            {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}, {"ports": [{"port": 1}, {"port": 2}]},
            {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}, {"ports": [{"port": 70000}]},
        )
    ):  # fmt: skip
        yield "POST", base, {"metadata": {"name": f"s{index}"}, "spec": {"ports": ports, **spec}}, "application/json"
    for spec in (
        {"clusterIP": "10.96.0.99"}, {"clusterIP": None}, {"clusterIP": "None"}, {"clusterIPs": []},
        {"ipFamilies": ["IPv6"]}, {"type": "ExternalName", "externalName": "x.y"},
        {"type": "ClusterIP", "clusterIP": "10.96.0.98"},
    ):  # fmt: skip
        yield "PATCH", f"{base}/s0", {"spec": spec}, MERGE
    yield "PUT", f"{base}/s0", {"metadata": {"name": "s0"}, "spec": {"ports": ports}}, "application/json"
    yield "PATCH", f"{base}/s4", {"spec": {"clusterIP": "10.96.0.97"}}, MERGE
    yield "PATCH", f"{base}/s17", {"spec": {"type": "ClusterIP"}}, MERGE
    yield "DELETE", f"{base}/s0", None, ""


def events() -> Iterator[Question]:
    older, newer = f"{CORE}/events", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z", "count": 3}
    about = {"kind": "Pod", "name": "p", "namespace": NAMESPACE, "uid": "u", "apiVersion": "v1"}
    said = {"reason": "R", "message": "hello", "source": {"component": "me", "host": "h"}, "type": "Normal"}
    yield "POST", older, {"metadata": {"name": "e1"}, "involvedObject": about, **said, **times}, "application/json"
    yield "GET", f"{newer}/e1", None, ""
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000001Z"}
    event = {
        "metadata": {"name": "e2"}, "eventTime": "2026-01-01T00:00:00.000001Z", "reportingController": "c/x",
        "reportingInstance": "i", "action": "Do", "reason": "R", "regarding": about, "note": "hello", "type": "Normal",
        "related": {"kind": "Node", "name": "n"}, "series": series,
    }  # fmt: skip
    yield "POST", newer, event, "application/json"
    for path in (f"{older}/e2", f"{newer}/e2", f"{newer}/zz", f"{newer}?fieldSelector=involvedObject.kind%3DPod"):
        yield "GET", path, None, ""
    yield "POST", newer, {"metadata": {"name": "e3"}, "regarding": {"namespace": NAMESPACE}}, "application/json"
    yield "PATCH", f"{newer}/e2", {"series": {**series, "count": 3}}, MERGE
    yield "DELETE", f"{newer}/e1", None, ""
    yield "DELETE", f"{older}/e2", None, ""
    yield "GET", f"{newer}?fieldSelector=regarding.name%3Dnobody", None, ""


def scales() -> Iterator[Question]:
    base = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    scale = f"{base}/d/scale"
    labels = {"a": "b", "x": "y"}
    selector = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "x", "operator": "In", "values": ["z", "y"]}, {"key": "e", "operator": "Exists"}],
    }
    template = {"metadata": {"labels": {**labels, "e": ""}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    spec = {"replicas": 2, "paused": True, "selector": selector, "template": template}
    yield "POST", base, {"metadata": {"name": "d"}, "spec": spec}, "application/json"
    yield "GET", scale, None, ""
    for replicas in (5, -5, "x", None):
        yield "PATCH", scale, {"spec": {"replicas": replicas}}, MERGE
    yield "PATCH", scale, [{"op": "add", "path": "/spec/replicas", "value": 1}], JSON_PATCH
    yield "PATCH", scale, {"spec": {"replicas": 4}}, STRATEGIC
    for body in (
        {"metadata": {"name": "d"}, "spec": {"replicas": 3}}, {"metadata": {"name": "d"}, "spec": {}},
        {"metadata": {"name": "d", "resourceVersion": "1"}, "spec": {"replicas": 3}}, {"metadata": {"name": "e"}},
        {"metadata": {"name": "d"}, "spec": {"replicas": "x"}},
    ):  # fmt: skip
        yield "PUT", scale, body, "application/json"
    for method in ("POST", "DELETE"):
        yield method, scale, {}, "application/json"
    yield "GET", f"{base}/zz/scale", None, ""
    yield "PUT", f"{base}/zz/scale", {"metadata": {"name": "zz"}}, "application/json"
    yield "GET", f"{CORE}/configmaps/a/scale", None, ""
    yield "DELETE", f"{base}/d", None, ""


def custom_resources() -> Iterator[Question]:
    a = f"{CUSTOM}/a"
    yield (
        "POST",
        CUSTOM,
        {**widget("a", unknown=1, parts=[{"name": "x"}]), "status": {"phase": "X"}},
        "application/json",
    )
    for spec in (
        {"size": 0}, {"size": 11}, {"size": "x"}, {"size": 1.5}, {"color": "green"}, {"color": None}, {"parts": [{}]},
        {"parts": [{"name": "a"}, {"name": "a"}]}, {"parts": "x"}, {"parts": None}, {"free": {"a": None}},
    ):  # fmt: skip
        yield "POST", f"{CUSTOM}?dryRun=All", widget("z", **spec), "application/json"
    yield "POST", f"{CUSTOM}?fieldValidation=Strict", widget("z", unknown=1), "application/json"
    yield "PUT", a, widget("a", size=4), "application/json"
    yield "PATCH", a, {"spec": {"size": 5}, "status": {"phase": "Y"}}, MERGE
    yield "PATCH", f"{a}/status", {"spec": {"size": 6}, "status": {"phase": "Y"}}, MERGE
    yield "PATCH", a, {"spec": {"size": 5}}, STRATEGIC
    yield "PATCH", a, {"spec": {"size": 50}}, MERGE
    yield "DELETE", a, None, ""


def test_both_servers_give_the_same_answers(control_plane: ControlPlane, tmp_path: pathlib.Path) -> None:
    async def main(server: LiveServer) -> list[str]:
        real, ours = client_from_files([control_plane.kubeconfig]), client_from_files([server.kubeconfig])
        for client in (real, ours):
            await prepare(client)
        differences = []
        for request in requests():
            expected, found = [await ask(client, request) for client in (real, ours)]
            differences += [f"{request[0]} {request[1]} {request[2]}: {each}" for each in compare(expected, found)]
        for client in (real, ours):
            await client.close()
        return differences

    with LiveServer(tmp_path) as server:
        assert asyncio.run(main(server)) == []


async def prepare(client: Client) -> None:
    account = {"metadata": {"name": "default"}}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **WIDGETS}
    await ask(client, ("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, "application/json"))
    await ask(client, ("POST", f"{CORE}/serviceaccounts", account, "application/json"))
    await ask(
        client, ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, "application/json")
    )
    await until(lambda: is_served(client))


async def is_served(client: Client) -> bool:
    return (await ask(client, ("GET", CUSTOM, None, "")))[0] == 200


async def ask(client: Client, question: Question) -> tuple[int, Any]:
    method, path, body, content_type = question
    headers = {"Accept": "application/json", **({"Content-Type": content_type} if content_type else {})}
    data = b"" if body is None else msgspec.json.encode(body)
    answer = await client.transport.send(Request(method, path, data, headers))
    try:
        return answer.status, msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        return answer.status, answer.body.decode()


def compare(expected: tuple[int, Any], found: tuple[int, Any]) -> Iterator[str]:
    if expected[0] != found[0]:
        yield f"status {expected[0]}, ours {found[0]}: {found[1]}"
    else:
        yield from differences(expected[1], found[1], ())


def differences(expected: Any, found: Any, path: Path) -> Iterator[str]:
    if path and path[-1] in EXPLAINED:
        return
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from differences(expected.get(key), found.get(key), (*path, key))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, pair in enumerate(zip(expected, found, strict=True)):
            yield from differences(*pair, (*path, str(index)))
    elif _normal(expected) != _normal(found):
        yield f"{'.'.join(path)} is {expected!r}, ours {found!r}"


def _normal(value: Any) -> Any:
    """Uids and revisions inside sentences are no difference, nor are the causes a patch lists twice."""
    if not isinstance(value, str):
        return value
    # A wrong patch is answered with the whole object it would have made.
    value = re.sub(r'Invalid value: "\{.*\}": ', "Invalid value: OBJECT: ", value)
    value = re.sub(r"kube-api-access-[a-z0-9]{5}", "kube-api-access-RANDOM", value)
    return re.sub(r"\(\d+\)", "(N)", re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", value))
