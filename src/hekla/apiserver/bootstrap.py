"""What a server holds from its first start: the system's namespaces, what pods in them need, and priority classes."""

from __future__ import annotations

from hekla.api.kinds import CONFIG_MAP, NAMESPACE, PRIORITY_CLASS, SERVICE_ACCOUNT, Kind, Obj
from hekla.apiserver.pod_admission import DEFAULT_ACCOUNT, ROOT_CA_CONFIG_MAP
from hekla.apiserver.resource import Resource
from hekla.apiserver.store.store import Key, Store
from hekla.apiserver.writing import Wanted, Writer
from hekla.errors import AlreadyExists, ApiError

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


async def bootstrap(store: Store, writer: Writer, *, root_ca: str = "") -> None:
    """Create what is missing; what is there stays as it is. Two transactions, the second inside the namespaces."""
    of_cluster: list[tuple[Kind, Obj]] = [(NAMESPACE, {"metadata": {"name": name}}) for name in _NAMESPACES]
    of_cluster += [
        (PRIORITY_CLASS, {"metadata": {"name": name}, "value": value, "description": description})
        for name, value, description in _CLASSES
    ]
    in_namespaces: list[tuple[Kind, Obj]] = []
    for name in _NAMESPACES:
        # A controller gives these to every namespace; here they need not be waited for.
        in_namespaces.append((SERVICE_ACCOUNT, {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": name}}))
        if root_ca:
            metadata = {"name": ROOT_CA_CONFIG_MAP, "namespace": name}
            in_namespaces.append((CONFIG_MAP, {"metadata": metadata, "data": {"ca.crt": root_ca}}))
    for wanted in (of_cluster, in_namespaces):
        await _ensure(store, writer, wanted)


async def _ensure(store: Store, writer: Writer, wanted: list[tuple[Kind, Obj]]) -> None:
    missing = [
        Wanted(Resource(kind), obj["metadata"].get("namespace", ""), obj)
        for kind, obj in wanted
        if store.newest(_key(kind, obj)) is None
    ]
    for result in await writer.create_all(missing):
        if isinstance(result, ApiError) and not isinstance(result, AlreadyExists):
            raise result


def _key(kind: Kind, obj: Obj) -> Key:
    return Key(f"{kind.group}/{kind.plural}", obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
