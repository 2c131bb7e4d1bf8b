"""Discovery: which groups, versions and resources there are, in the plain and in the aggregated form."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from hekla.api.batches import BINDING_BATCH, OBJECT_BATCH, REQUEST_BATCH
from hekla.api.kinds import NAMESPACE, Kind, Obj
from hekla.apiserver.access.reviews import REVIEWS
from hekla.apiserver.connecting import CONNECTING
from hekla.apiserver.event_group import EVENTS_EVENT
from hekla.apiserver.request import Request, Response, json_response
from hekla.apiserver.resource import Registry, Resource
from hekla.apiserver.usage import METRICS

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_VERBS = {
    "binding": ["create"],
    "eviction": ["create"],
    "log": ["get"],
    "exec": ["create", "get"],
    "attach": ["create", "get"],
    "portforward": ["create", "get"],
    "finalize": ["update"],
    "token": ["create"],
}
_SUBRESOURCE_KINDS = {
    "scale": "Scale",
    "binding": "Binding",
    "eviction": "Eviction",
    "exec": "PodExecOptions",
    "attach": "PodAttachOptions",
    "portforward": "PodPortForwardOptions",
    "token": "TokenRequest",
}
_SERVED_SUBRESOURCES = ("status", "scale", "binding", "eviction", "log", *CONNECTING, "finalize", "token")
_CREATED_ONLY = (
    *REVIEWS,
    OBJECT_BATCH,
    REQUEST_BATCH,
    BINDING_BATCH,
)
_OTHER_PATHS = ("/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
_AGGREGATED = "apidiscovery.k8s.io"
_AGGREGATED_KIND = "APIGroupDiscoveryList"


class Discovery:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer(self, path: str, request: Request) -> Response | None:
        parts = path.strip("/").split("/")
        match parts:
            case [""]:
                return json_response({"paths": ["/api", "/api/v1", "/apis", *self._paths(), *_OTHER_PATHS]})
            case ["api" | "apis"]:
                version = _aggregated_version(request)
                if version:
                    return self._aggregated(parts[0], version)
                return json_response(_API_VERSIONS if parts[0] == "api" else self._group_list())
            case ["apis", group]:
                found = next((each for each in self._groups() if each["name"] == group), None)
                return json_response({"kind": "APIGroup", "apiVersion": "v1", **found}) if found else None
            case ["api", version]:
                return self._resource_list("", version)
            case ["apis", group, version]:
                return self._resource_list(group, version)
        return None

    def _paths(self) -> list[str]:
        groups = sorted(place for place in self._by_version() if place[0])
        return [path for group, version in groups for path in (f"/apis/{group}", f"/apis/{group}/{version}")]

    def knows(self, path: str) -> bool:
        """Whether the path lies below a group and version that are served (all of the core group's count)."""
        parts = path.strip("/").split("/")
        return parts[0] == "api" or (parts[0] == "apis" and tuple(parts[1:3]) in self._by_version())

    def _by_version(self) -> dict[tuple[str, str], list[Resource]]:
        found: dict[tuple[str, str], list[Resource]] = {}
        for resource in [*self._registry.all(), *map(Resource, (EVENTS_EVENT, *METRICS, *_CREATED_ONLY))]:
            found.setdefault((resource.kind.group, resource.kind.version), []).append(resource)
        return found

    def _groups(self) -> list[Obj]:
        places = sorted(place for place in self._by_version() if place[0])
        return [_group(group, [version for _, version in each]) for group, each in groupby(places, key=lambda p: p[0])]

    def _group_list(self) -> Obj:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": self._groups()}

    def _resource_list(self, group: str, version: str) -> Response | None:
        resources = self._by_version().get((group, version))
        if resources is None:
            return None
        listed = [entry for each in _sorted(resources) for entry in _entries(each)]
        return json_response(
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{group}/{version}" if group else version,
                "resources": listed,
            }
        )

    def _aggregated(self, root: str, version: str) -> Response:
        items = []
        places = sorted(place for place in self._by_version() if bool(place[0]) == (root == "apis"))
        for group, each in groupby(places, key=lambda place: place[0]):
            versions = [
                {
                    "version": place[1],
                    "resources": [_aggregated_entry(one) for one in _sorted(self._by_version()[place])],
                    "freshness": "Current",
                }
                for place in each
            ]
            metadata: Obj = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
            items.append({"metadata": metadata, "versions": versions})
        response = json_response(
            {"kind": _AGGREGATED_KIND, "apiVersion": f"{_AGGREGATED}/{version}", "metadata": {}, "items": items}
        )
        response.content_type = f"application/json;g={_AGGREGATED};v={version};as={_AGGREGATED_KIND}"
        response.headers.append(("vary", "Accept"))
        return response


_API_VERSIONS: Obj = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
}


def _aggregated_version(request: Request) -> str:
    for offered in request.headers.get("accept", "").split(","):
        parameters = dict(part.strip().partition("=")[::2] for part in offered.split(";")[1:])
        if parameters.get("g") == _AGGREGATED and parameters.get("as") == _AGGREGATED_KIND:
            return parameters.get("v", "v2")
    return ""


def _group(group: str, versions: list[str]) -> Obj:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _sorted(resources: list[Resource]) -> list[Resource]:
    return sorted(resources, key=lambda each: each.kind.plural)


def _entries(resource: Resource) -> list[Obj]:
    kind = resource.kind
    entry: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _verbs_of(kind),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    below = [
        {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **_subresource_type(name),
            "kind": _subresource_kind(name, kind),
            "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
        }
        for name in kind.subresources
        if name in _SERVED_SUBRESOURCES
    ]
    return [entry, *below]


def _verbs_of(kind: Kind) -> list[str]:
    if kind in METRICS:
        return ["get", "list"]
    if kind == NAMESPACE:
        # Nobody means all of them at once.
        return [verb for verb in _VERBS if verb != "deletecollection"]
    return ["create"] if kind in _CREATED_ONLY else _VERBS


def _subresource_kind(name: str, kind: Kind) -> str:
    return _SUBRESOURCE_KINDS.get(name, kind.kind)


def _subresource_type(name: str) -> dict[str, str]:
    group = {"eviction": "policy", "scale": "autoscaling", "token": "authentication.k8s.io"}.get(name)
    return {"group": group, "version": "v1"} if group else {}


def _aggregated_entry(resource: Resource) -> Obj:
    plain, *below = _entries(resource)
    kind = resource.kind
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": plain["verbs"],
    }
    for name in ("shortNames", "categories"):
        if name in plain:
            entry[name] = plain[name]
    if below:
        entry["subresources"] = [
            {
                "subresource": each["name"].partition("/")[2],
                "responseKind": {
                    "group": each.get("group", kind.group),
                    "version": each.get("version", kind.version),
                    "kind": each["kind"],
                },
                "verbs": each["verbs"],
            }
            for each in below
        ]
    return entry
