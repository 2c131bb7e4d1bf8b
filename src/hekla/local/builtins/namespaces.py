"""Deleting a namespace: everything in it goes first, then the namespace itself."""

from __future__ import annotations

import msgspec

from hekla.api.kinds import EVENT, NAMESPACE, Obj
from hekla.api.meta import is_deleting, name_of
from hekla.errors import NotFound
from hekla.local.builtins.departing import DepartureController
from hekla.local.builtins.emptying import NotEmpty, is_emptied
from hekla.local.builtins.resources import discover
from hekla.log import get_logger

log = get_logger("namespaces")

_FINALIZER = "kubernetes"


class NamespaceController(DepartureController):
    kind = NAMESPACE

    async def _reconcile(self, name: str) -> None:
        namespace = await self._client.find(NAMESPACE, name)
        if namespace is None or not is_deleting(namespace):
            return
        # What is told of the rest while it goes, goes after it.
        kinds = [*(kind for kind in await discover(self._client) if kind.namespaced), EVENT]
        remaining = [kind.plural for kind in kinds if not await is_emptied(self._client, kind, name)]
        if remaining:
            raise NotEmpty(f"{name}: {', '.join(remaining)} remain")
        await self._finalize(namespace)
        log.info("removed", namespace=name)

    async def _finalize(self, namespace: Obj) -> None:
        finalizers = [each for each in (namespace.get("spec") or {}).get("finalizers") or () if each != _FINALIZER]
        wanted = {**namespace, "spec": {**(namespace.get("spec") or {}), "finalizers": finalizers}}
        try:
            path = NAMESPACE.path(name=name_of(namespace), subresource="finalize")
            headers = {"Content-Type": "application/json"}
            await self._client.raw("PUT", path, body=msgspec.json.encode(wanted), headers=headers)
        except NotFound:
            return
