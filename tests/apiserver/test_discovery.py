"""Discovery and OpenAPI follow what is served."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hekla.apiserver.definitions import load_definitions
from tests.apiserver.rig import Rig, with_server

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_a_new_definition_shows_up_everywhere() -> None:
    async def script(rig: Rig) -> None:
        assert (await rig.send("GET", "/apis/example.org"))[0] == 404
        await rig.define_widgets()
        _, group, _ = await rig.send("GET", "/apis/example.org")
        assert group["preferredVersion"] == {"groupVersion": "example.org/v1", "version": "v1"}
        _, resources, _ = await rig.send("GET", "/apis/example.org/v1")
        assert [each["name"] for each in resources["resources"]] == ["widgets", "widgets/status"]
        assert resources["resources"][0]["shortNames"] == ["wd"]
        _, groups, headers = await rig.send("GET", "/apis", Accept=AGGREGATED)
        assert headers["content-type"] == AGGREGATED
        widgets = next(each for each in groups["items"] if each["metadata"]["name"] == "example.org")
        assert widgets["versions"][0]["resources"][0]["responseKind"]["kind"] == "Widget"
        _, index, _ = await rig.send("GET", "/openapi/v3")
        assert "apis/example.org/v1" in index["paths"]

    with_server(script)


def test_the_core_group_lists_subresources_with_their_kinds() -> None:
    async def script(rig: Rig) -> None:
        _, core, _ = await rig.send("GET", "/api/v1")
        kinds = {each["name"]: each["kind"] for each in core["resources"]}
        assert kinds["pods/binding"] == "Binding"
        assert kinds["pods/eviction"] == "Eviction"
        assert kinds["pods/status"] == "Pod"

    with_server(script)


@pytest.mark.parametrize("place", ["api/v1", "apis/apps/v1", "apis/example.org/v1", "apis/apiextensions.k8s.io/v1"])
def test_every_reference_in_a_document_resolves(place: str) -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        _, document, _ = await rig.send("GET", f"/openapi/v3/{place}")
        schemas = document["components"]["schemas"]
        assert {reference.rpartition("/")[2] for reference in _references(document)} <= set(schemas)
        assert "null" not in json.dumps([schema.get("type") for schema in schemas.values()])

    with_server(script)


def test_writes_say_that_they_can_be_validated_and_tried() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        _, document, _ = await rig.send("GET", "/openapi/v3/apis/example.org/v1")
        patch = document["paths"]["/apis/example.org/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
        assert {each["name"] for each in patch["parameters"]} >= {"dryRun", "fieldValidation"}
        assert patch["x-kubernetes-group-version-kind"]["kind"] == "Widget"

    with_server(script)


def test_the_old_document_is_whole_and_refused_in_forms_it_does_not_have() -> None:
    async def script(rig: Rig) -> None:
        _, document, _ = await rig.send("GET", "/openapi/v2")
        assert {reference.rpartition("/")[2] for reference in _references(document)} <= set(document["definitions"])
        assert (await rig.send("GET", "/openapi/v2", Accept="application/yaml"))[0] == 406

    with_server(script)


def test_merge_keys_of_the_real_server_are_known() -> None:
    spec = load_definitions().node("io.k8s.api.core.v1.PodSpec")
    assert spec.properties is not None
    assert spec.properties["containers"].merge_key == "name"
    assert spec.properties["volumes"].strategy == ("merge", "retainKeys")


def _references(document: Any) -> list[str]:
    if isinstance(document, dict):
        own = [document["$ref"]] if isinstance(document.get("$ref"), str) else []
        return own + [each for value in document.values() for each in _references(value)]
    return [each for value in document for each in _references(value)] if isinstance(document, list) else []
