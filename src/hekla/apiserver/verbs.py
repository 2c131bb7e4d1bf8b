"""The verbs on a resource: each takes a request that has been routed and gives the answer."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from hekla.api.kinds import Obj
from hekla.apiserver.access.attributes import Attributes
from hekla.apiserver.access.rbac import Authorizer
from hekla.apiserver.decoding import decode_body, decode_object, duplicate_fields
from hekla.apiserver.deleting import read_options
from hekla.apiserver.listing import list_page, parse_revision, wait_for_revision
from hekla.apiserver.path import Route
from hekla.apiserver.presenting import choose_presentation
from hekla.apiserver.request import (
    Request,
    Response,
    json_response,
    name_details,
    not_found,
    success_status,
    warning_headers,
)
from hekla.apiserver.resource import Resource
from hekla.apiserver.selecting import read_selection
from hekla.apiserver.store.store import Key, Store
from hekla.apiserver.transforms import Apply, Patch, Replacement, read_patch
from hekla.apiserver.watching import start_watch
from hekla.apiserver.writing import Malformed, Options, Writer, Written
from hekla.clock import Clock
from hekla.errors import BadRequest, MethodNotAllowed, NotFound

_RETURNS_OBJECT = frozenset({"/pods", "/services", "/serviceaccounts", "/persistentvolumeclaims"})


class Verbs:
    def __init__(
        self, store: Store, writer: Writer, authorizer: Authorizer, *, clock: Clock, rng: random.Random
    ) -> None:
        self._store = store
        self._writer = writer
        self._authorizer = authorizer
        self._clock = clock
        self._rng = rng

    async def get(self, resource: Resource, route: Route, request: Request) -> Response:
        presentation = choose_presentation(resource, request, self._clock.now)
        revision = parse_revision(request.query.get("resourceVersion", ""))
        if revision:
            await wait_for_revision(self._store, resource, revision)
        entry = self._store.get(_key(resource, route))
        if entry is None:
            raise not_found(resource.kind, route.name)
        return Response(200, presentation.one(entry.value))

    async def list(self, resource: Resource, route: Route, request: Request) -> Response:
        """Lists, and watches when asked to."""
        selection = read_selection(resource, route.namespace, request.query, route.name)
        presentation = choose_presentation(resource, request, self._clock.now)
        if request.flag("watch"):
            lines = start_watch(self._store, selection, presentation, request, self._rng)
            return Response(200, stream=lines)
        return Response(200, presentation.page(await list_page(self._store, selection, request)))

    async def create(self, resource: Resource, route: Route, request: Request) -> Response:
        obj = decode_object(request, resource.kind.kind)
        check_type(obj, resource)
        _check_namespace(obj, resource, route)
        options = read_write_options(request)
        written = await self._writer.create(resource, route.namespace or _namespace(obj, resource), obj, options)
        return self._answer(resource, request, written, options)

    async def update(self, resource: Resource, route: Route, request: Request) -> Response:
        obj = decode_object(request, resource.kind.kind)
        check_type(obj, resource)
        _check_namespace(obj, resource, route)
        name = metadata_of(obj).get("name")
        if name and name != route.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
        obj["metadata"] = {**metadata_of(obj), "name": route.name}
        options = read_write_options(request)
        key = _key(resource, route)
        if resource.creates_on_update and not route.subresource and self._store.newest(key) is None:
            self._check_creation(route, request)
            written = await self._writer.create(resource, route.namespace, obj, options)
        else:
            replacement = Replacement(obj)
            written = await self._writer.update(resource, key, replacement, options, subresource=route.subresource)
        return self._answer(resource, request, written, options)

    async def patch(self, resource: Resource, route: Route, request: Request) -> Response:
        style, patch = read_patch(resource, request)
        options = read_write_options(request)
        key = _key(resource, route)
        if style.startswith("apply-patch"):
            written = await self._apply(resource, route, request, patch, options)
        else:
            transform = Patch(style, patch, resource, route.name)
            try:
                written = await self._writer.update(resource, key, transform, options, subresource=route.subresource)
            except Malformed as error:
                raise transform.refused(error.why) from None
        return self._answer(resource, request, written, options)

    async def delete(self, resource: Resource, route: Route, request: Request) -> Response:
        options = read_options(_delete_document(request), request.query)
        written = await self._writer.delete(resource, _key(resource, route), options, request.user)
        if written.removed and resource.storage not in _RETURNS_OBJECT:
            obj = msgspec.json.decode(written.value)
            details = {**name_details(resource.kind, route.name), "uid": obj["metadata"]["uid"]}
            return json_response(success_status(details))
        return Response(200, choose_presentation(resource, request, self._clock.now).one(written.value))

    async def delete_collection(self, resource: Resource, route: Route, request: Request) -> Response:
        selection = read_selection(resource, route.namespace, request.query)
        options = read_options(_delete_document(request), request.query)
        page = await list_page(self._store, selection, request)
        for entry in page.entries:
            try:
                await self._writer.delete(resource, entry.key, options, request.user)
            except NotFound:
                continue
        return Response(200, choose_presentation(resource, request, self._clock.now).page(page))

    async def _apply(self, resource: Resource, route: Route, request: Request, patch: Any, options: Options) -> Written:
        manager = request.query.get("fieldManager", "")
        if not isinstance(patch, dict):
            raise BadRequest("error decoding YAML: an apply configuration is an object")
        if not manager:
            why = "Required value: is required for apply patch"
            raise request.bad_option("fieldManager", why, "FieldValueRequired")
        check_type(patch, resource)
        _check_namespace(patch, resource, route)
        patch["metadata"] = {**metadata_of(patch), "name": route.name}
        apply = Apply(resource, patch, manager, request.flag("force"), route.subresource, self._clock)
        key = _key(resource, route)
        if self._store.newest(key) is None:
            self._check_creation(route, request)
            obj = apply({"metadata": {}})
            return await self._writer.create(resource, route.namespace, obj, options)
        return await self._writer.update(resource, key, apply, options, subresource=route.subresource)

    def _check_creation(self, route: Route, request: Request) -> None:
        """Making an object needs that right, whichever verb makes it."""
        attributes = Attributes("create", route.group, route.plural, route.subresource, route.namespace, route.name)
        self._authorizer.check(request.user, attributes)

    def _answer(self, resource: Resource, request: Request, written: Written, options: Options) -> Response:
        presentation = choose_presentation(resource, request, self._clock.now)
        response = Response(201 if written.created else 200, presentation.one(written.value))
        response.headers += warning_headers(options.warnings)
        return response


def check_type(obj: Obj, resource: Resource) -> None:
    """The body's own apiVersion and kind, where it has them, must be those of the path."""
    kind = resource.kind
    version, name = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    if name != kind.kind or version != kind.api_version:
        shown = str(version).rpartition("/")[2]
        raise BadRequest(
            f'{name} in version "{shown}" cannot be handled as a {kind.kind}: '
            f'no kind "{name}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )


def metadata_of(obj: Obj) -> Obj:
    """A body's metadata, empty where it has none; what else it may be is for the schema to refuse."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _check_namespace(obj: Obj, resource: Resource, route: Route) -> None:
    given = metadata_of(obj).get("namespace")
    if given and resource.kind.namespaced and route.namespace and given != route.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def _namespace(obj: Obj, resource: Resource) -> str:
    if not resource.kind.namespaced:
        return ""
    raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def _key(resource: Resource, route: Route) -> Key:
    return Key(resource.storage, route.namespace if resource.kind.namespaced else "", route.name)


def read_write_options(request: Request) -> Options:
    validation = request.query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        supported = '"", "Ignore", "Strict", "Warn"'
        raise request.bad_option("fieldValidation", f'Unsupported value: "{validation}": supported values: {supported}')
    options = Options(
        dry_run=request.dry_run,
        strict=validation == "Strict",
        quiet=validation == "Ignore",
        warnings=request.warnings,
        user=request.user,
    )
    if validation in ("Warn", "Strict"):
        options.duplicates = duplicate_fields(request.body)
    return options


def _delete_document(request: Request) -> Obj:
    if not request.body:
        return {}
    try:
        document = decode_body(request)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if not isinstance(document, dict):
        raise BadRequest("the options of a delete are an object")
    return document
