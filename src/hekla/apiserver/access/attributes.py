"""What a request wants to do, in the words authorisation knows: a verb on a resource, or a verb on a path."""

from __future__ import annotations

from typing import Any, NamedTuple

from hekla.api.kinds import Obj
from hekla.api.selector import InvalidSelector, parse_field_selector
from hekla.apiserver.path import Route
from hekla.errors import Forbidden

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Attributes(NamedTuple):
    """Of a resource when `resource` is set, else of `path`. Decisions are remembered by it."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    any_name: bool = False
    """Whether it is about every object, whatever its name: no rule that lists names allows that."""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def of(self, verb: str) -> Attributes:
        return self._replace(verb=verb)


def request_attributes(method: str, path: str, query: dict[str, str], route: Route | None) -> Attributes:
    """Of any request: whether the resource exists is not asked, so a refusal does not tell."""
    if route is None:
        return Attributes(method.lower(), path=path)
    verb, name = _VERBS.get(method, ""), route.name
    if not name and method in ("GET", "HEAD", "DELETE"):
        watches = query.get("watch", "") not in ("", "false", "0")
        verb = "deletecollection" if method == "DELETE" else "watch" if watches else "list"
        if method != "DELETE" and query.get("fieldSelector"):
            # A list of the one object of a name may be granted by that name.
            name = _selected_name(query["fieldSelector"])
    namespace = route.namespace
    if route.plural == "namespaces" and not route.group and route.name:
        # A namespace counts as lying in itself, so that a role inside may grant it.
        namespace = route.name
    return Attributes(verb, route.group, route.plural, route.subresource, namespace, name)


def reviewed_attributes(spec: Obj) -> Attributes:
    """What an access review asks about."""
    wanted: dict[str, Any] = spec.get("resourceAttributes") or {}
    if not wanted:
        other = spec.get("nonResourceAttributes") or {}
        return Attributes(str(other.get("verb", "")), path=str(other.get("path", "")))
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    given: dict[str, Any] = {field: str(wanted.get(field) or "") for field in fields}
    return Attributes(**given)


def forbidden(user: str, attributes: Attributes, reason: str = "") -> Forbidden:
    """The refusal, in the real server's words."""
    tail = f": {reason}" if reason else ""
    if not attributes.resource:
        return Forbidden(
            f'forbidden: User "{user}" cannot {attributes.verb} path "{attributes.path}"{tail}', details={}
        )
    kind = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    what = f'{kind} "{attributes.name}"' if attributes.name else kind
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    details: dict[str, Any] = {"name": attributes.name} if attributes.name else {}
    if attributes.group:
        details["group"] = attributes.group
    details["kind"] = attributes.resource
    return Forbidden(
        f'{what} is forbidden: User "{user}" cannot {attributes.verb} resource "{attributes.full_resource}" '
        f'in API group "{attributes.group}" {where}{tail}',
        details=details,
    )


def _selected_name(selector: str) -> str:
    try:
        fields = parse_field_selector(selector)
    except InvalidSelector:
        return ""
    return next((value for field, equal, value in fields if field == "metadata.name" and equal), "")
