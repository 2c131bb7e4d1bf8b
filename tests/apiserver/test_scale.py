"""The scale of things: seen, replaced and patched apart from what is scaled."""

from __future__ import annotations

import copy
from typing import Any

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, Obj
from hekla.apiserver.scale import selector_text
from tests.apiserver.rig import WIDGET, WIDGETS, Rig, widget, with_server

SCALE = f"{DEPLOYMENT.path('default', 'd')}/scale"
MERGE = "application/merge-patch+json"


def deployment(**spec: Any) -> Obj:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    selector = {"matchLabels": {"a": "b"}}
    return {
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def test_a_scale_shows_how_many_there_should_be_and_are() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(DEPLOYMENT, deployment(replicas=2))
        await rig.client.patch(DEPLOYMENT, "d", {"status": {"replicas": 1}}, "default", subresource="status")
        code, scale, _ = await rig.send("GET", SCALE)
        assert (code, scale["kind"], scale["apiVersion"]) == (200, "Scale", "autoscaling/v1")
        assert scale["metadata"]["uid"] == made["metadata"]["uid"]
        assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})

    with_server(script)


def test_scaling_changes_the_number_and_nothing_else() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(DEPLOYMENT, deployment())
        code, scale, _ = await rig.send("PATCH", SCALE, {"spec": {"replicas": 5}}, MERGE)
        assert (code, scale["spec"]) == (200, {"replicas": 5})
        code, scale, _ = await rig.send("PUT", SCALE, {"metadata": {"name": "d"}, "spec": {"replicas": 3}})
        assert (code, scale["spec"]) == (200, {"replicas": 3})
        now = await rig.client.get(DEPLOYMENT, "d", "default")
        assert now["spec"] == {**made["spec"], "replicas": 3}
        assert now["metadata"]["generation"] == 3

    with_server(script)


def test_what_is_no_scale_is_refused() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(DEPLOYMENT, deployment())
        stale = {"metadata": {"name": "d", "resourceVersion": "1"}, "spec": {"replicas": 3}}
        for method, body, kind, expected in (
            ("PATCH", {"spec": {"replicas": -1}}, MERGE, 422),
            ("PATCH", {"spec": {"replicas": "x"}}, MERGE, 422),
            ("PUT", {"metadata": {"name": "d"}, "spec": {"replicas": "x"}}, "application/json", 400),
            ("PUT", {"metadata": {"name": "e"}}, "application/json", 400),
            ("PUT", stale, "application/json", 409),
            ("POST", {}, "application/json", 405),
        ):
            assert (await rig.send(method, SCALE, body, kind))[0] == expected
        assert (await rig.client.get(DEPLOYMENT, "d", "default"))["spec"]["replicas"] == 1

    with_server(script)


def test_a_definition_says_where_its_objects_keep_their_numbers() -> None:
    async def script(rig: Rig) -> None:
        definition = copy.deepcopy(WIDGETS)
        version = definition["spec"]["versions"][0]
        version["subresources"]["scale"] = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        await rig.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        await rig.client.create(WIDGET, widget())
        path = f"{WIDGET.path('default', 'w')}/scale"
        code, scale, _ = await rig.send("PATCH", path, {"spec": {"replicas": 5}}, MERGE)
        assert (code, scale["spec"], scale["status"]) == (200, {"replicas": 5}, {"replicas": 0})
        assert (await rig.client.get(WIDGET, "w", "default"))["spec"]["size"] == 5
        assert (await rig.send("PATCH", path, {"spec": {"replicas": 11}}, MERGE))[0] == 422, "its schema holds"
        _, listed, _ = await rig.send("GET", "/apis/example.org/v1")
        assert "widgets/scale" in [each["name"] for each in listed["resources"]]

    with_server(script)


def test_selectors_are_written_as_text_in_order_of_their_keys() -> None:
    expressions = [
        {"key": "x", "operator": "In", "values": ["z", "y"]},
        {"key": "n", "operator": "NotIn", "values": ["1"]},
        {"key": "e", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    text = selector_text({"matchLabels": {"b": "c"}, "matchExpressions": expressions})
    assert text == "b=c,!d,e,n notin (1),x in (y,z)"
    assert selector_text({"app": "web"}) == "app=web"
