"""OpenAPI v3 (an index, and a document per group and version) and v2 (one document), made when first asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.apiserver import openapi_protobuf
from hekla.apiserver.definitions import OBJECT_META, load_definitions
from hekla.apiserver.request import JSON, Request, Response, json_response
from hekla.apiserver.resource import Registry, Resource
from hekla.apiserver.version import GIT_VERSION
from hekla.errors import NotAcceptable

_V3 = "#/components/schemas/"
_V2 = "#/definitions/"
_SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
    # Schemas inside schemas: what they may hold is not described further.
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": {"type": "object"},
}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_ACTIONS = {"get": "get", "put": "put", "patch": "patch", "delete": "delete", "post": "post"}


class OpenApi:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation: tuple[int, ...] | None = None
        self._documents: dict[str, bytes] = {}

    def answer(self, path: str, request: Request) -> Response | None:
        if not path.startswith("/openapi/"):
            return None
        generation = self._registry.generation
        if generation != self._generation:
            self._generation, self._documents = generation, {}
        if path == "/openapi/v3":
            return json_response({"paths": {place: {"serverRelativeURL": url} for place, url in self._index()}})
        if path == "/openapi/v2":
            return self._answer_v2(request)
        place = path.removeprefix("/openapi/v3/")
        if place not in self._places():
            return None
        return Response(200, self._document(place, lambda: self._v3(place)))

    def _answer_v2(self, request: Request) -> Response:
        media = _media_type(request.headers.get("accept", ""))
        encode = openapi_protobuf.encode_document if media == openapi_protobuf.MEDIA_TYPE else msgspec.json.encode
        return Response(200, self._document(media, self._v2, encode), content_type=media)

    def _places(self) -> dict[str, list[Resource]]:
        places: dict[str, list[Resource]] = {}
        for resource in self._registry.all():
            kind = resource.kind
            place = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
            places.setdefault(place, []).append(resource)
        return places

    def _index(self) -> list[tuple[str, str]]:
        # The hash lets clients keep a document until what is served changes.
        mark = hashlib.sha256(repr((GIT_VERSION, self._generation)).encode()).hexdigest()[:32].upper()
        return [(place, f"/openapi/v3/{place}?hash={mark}") for place in sorted(self._places())]

    def _document(self, place: str, build: Any, encode: Callable[[Obj], bytes] = msgspec.json.encode) -> bytes:
        if place not in self._documents:
            self._documents[place] = encode(build())
        return self._documents[place]

    def _v3(self, place: str) -> Obj:
        resources = self._places()[place]
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": GIT_VERSION},
            "paths": _paths(resources, _v3_parameter),
            "components": {"schemas": _schemas(resources, _V3)},
        }

    def _v2(self) -> Obj:
        resources = self._registry.all()
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": GIT_VERSION},
            "paths": _paths(resources, _v2_parameter),
            "definitions": _schemas(resources, _V2),
        }


def _media_type(accept: str) -> str:
    """What to answer in: protobuf only to those who take no JSON."""
    if not accept or any(media in accept for media in (JSON, "*/*", "application/*")):
        return JSON
    if any(media in accept for media in openapi_protobuf.ASKED_FOR_AS):
        return openapi_protobuf.MEDIA_TYPE
    raise NotAcceptable(
        f"only the following media types are accepted: {JSON}, {openapi_protobuf.MEDIA_TYPE}", details={}
    )


def schema_name(resource: Resource) -> str:
    kind = resource.kind
    if not resource.is_custom:
        return load_definitions().name_of(kind) or f"io.k8s.{kind.kind}"
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _schemas(resources: list[Resource], prefix: str) -> dict[str, Obj]:
    definitions = load_definitions().documents
    schemas: dict[str, Obj] = {}
    waiting: list[str] = []
    for resource in resources:
        name = schema_name(resource)
        if resource.is_custom:
            schemas[name] = _custom_schema(resource, prefix)
            waiting.append(OBJECT_META)
        else:
            waiting.append(name)
    while waiting:
        name = waiting.pop()
        if name not in schemas and name in definitions:
            schemas[name] = _SPECIAL.get(name) or _translate(definitions[name], prefix, waiting)
    return schemas


def _translate(schema: Any, prefix: str, waiting: list[str]) -> Any:
    """A definition as OpenAPI has it: nullability undone, references renamed and noted."""
    if isinstance(schema, list):
        return [_translate(each, prefix, waiting) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result: Obj = {}
    for key, value in schema.items():
        if key == "$ref":
            name = value.rpartition("/")[2]
            waiting.append(name)
            result["$ref"] = prefix + name
        elif key == "type" and isinstance(value, list):
            result["type"] = next(each for each in value if each != "null")
        elif key == "properties":
            result[key] = {name: _translate(below, prefix, waiting) for name, below in value.items()}
        elif key == "enum" and schema.get("description", "").startswith(("APIVersion", "Kind is")):
            continue
        else:
            result[key] = _translate(value, prefix, waiting)
    if "$ref" in result and len(result) > 1 and prefix == _V3:
        result["allOf"] = [{"$ref": result.pop("$ref")}]
    return result


def _custom_schema(resource: Resource, prefix: str) -> Obj:
    document = (resource.version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    schema: Obj = dict(document) if prefix == _V3 else _without_v3_words(document)
    properties = dict(schema.get("properties") or {})
    properties.setdefault(
        "apiVersion",
        {
            "type": "string",
            "description": "APIVersion defines the versioned schema of this representation of an object.",
        },
    )
    properties.setdefault(
        "kind",
        {
            "type": "string",
            "description": "Kind is a string value representing the REST resource this object represents.",
        },
    )
    reference: Obj = {"$ref": prefix + OBJECT_META}
    properties["metadata"] = (
        {"description": "Standard object's metadata.", "allOf": [reference]} if prefix == _V3 else reference
    )
    kind = resource.kind
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": [gvk]}


def _without_v3_words(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_v3_words(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = ("anyOf", "oneOf", "not", "nullable", "x-kubernetes-validations")
    return {key: _without_v3_words(value) for key, value in schema.items() if key not in dropped}


def _paths(resources: list[Resource], parameter: Any) -> dict[str, Obj]:
    paths: dict[str, Obj] = {}
    for resource in resources:
        kind = resource.kind
        whole = kind.path("{namespace}" if kind.namespaced else None)
        paths[whole] = _operations(kind, ("get", "post", "delete"), parameter)
        paths[f"{whole}/{{name}}"] = _operations(kind, ("get", "put", "patch", "delete"), parameter)
        if resource.has_status:
            paths[f"{whole}/{{name}}/status"] = _operations(kind, ("get", "put", "patch"), parameter)
    return paths


def _operations(kind: Kind, methods: tuple[str, ...], parameter: Any) -> Obj:
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return {
        method: {
            "parameters": [parameter(name) for name in _parameters(method)],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": _ACTIONS[method],
            "x-kubernetes-group-version-kind": gvk,
        }
        for method in methods
    }


def _parameters(method: str) -> tuple[str, ...]:
    if method in ("post", "put", "patch"):
        return _WRITE_PARAMETERS
    return ("dryRun",) if method == "delete" else ()


def _v3_parameter(name: str) -> Obj:
    return {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def _v2_parameter(name: str) -> Obj:
    return {"name": name, "in": "query", "type": "string", "uniqueItems": True}
