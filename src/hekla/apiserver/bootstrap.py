"""What a server holds from its first start: the system's namespaces and priority classes."""

from __future__ import annotations

from hekla.api.kinds import NAMESPACE, PRIORITY_CLASS, Obj
from hekla.apiserver.resource import Resource
from hekla.apiserver.writing import Options, Writer
from hekla.errors import AlreadyExists

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


async def bootstrap(writer: Writer) -> None:
    """Create what is missing; what is there stays as it is."""
    for name in _NAMESPACES:
        await _ensure(writer, Resource(NAMESPACE), {"metadata": {"name": name}})
    for name, value, description in _CLASSES:
        priority_class = {"metadata": {"name": name}, "value": value, "description": description}
        await _ensure(writer, Resource(PRIORITY_CLASS), priority_class)


async def _ensure(writer: Writer, resource: Resource, obj: Obj) -> None:
    try:
        await writer.create(resource, "", obj, Options(quiet=True))
    except AlreadyExists:
        return
