"""Deleting a CustomResourceDefinition: its objects go first, then the definition itself."""

from __future__ import annotations

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, Obj
from hekla.api.meta import is_deleting
from hekla.errors import NotFound
from hekla.local.builtins.departing import DepartureController
from hekla.local.builtins.emptying import NotEmpty, is_emptied
from hekla.log import get_logger

log = get_logger("definitions")

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionController(DepartureController):
    kind = CUSTOM_RESOURCE_DEFINITION

    async def _reconcile(self, name: str) -> None:
        definition = await self._client.find(CUSTOM_RESOURCE_DEFINITION, name)
        if definition is None or not is_deleting(definition):
            return
        finalizers = definition["metadata"].get("finalizers") or []
        if CLEANUP_FINALIZER not in finalizers:
            return
        if not await is_emptied(self._client, _served_kind(definition)):
            raise NotEmpty(f"{name}: some objects remain")
        kept = [each for each in finalizers if each != CLEANUP_FINALIZER]
        patch = {"metadata": {"uid": definition["metadata"]["uid"], "finalizers": kept or None}}
        try:
            await self._client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch)
        except NotFound:
            return


def _served_kind(definition: Obj) -> Kind:
    spec = definition["spec"]
    version = next(each for each in spec["versions"] if each.get("served"))
    return Kind(
        spec["group"], version["name"], spec["names"]["kind"], spec["names"]["plural"], spec["scope"] == "Namespaced"
    )
