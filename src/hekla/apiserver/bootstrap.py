"""What a server holds from its first start: the system's namespaces and what pods in them need, roles, priorities."""

from __future__ import annotations

from hekla.api.core import API_SERVICE, API_SERVICE_ADDRESS
from hekla.api.kinds import CLUSTER_ROLE, CONFIG_MAP, NAMESPACE, PRIORITY_CLASS, SERVICE, SERVICE_ACCOUNT, Kind, Obj
from hekla.api.meta import annotations_of
from hekla.apiserver.access.default_roles import AUTO_UPDATE, default_roles
from hekla.apiserver.access.rules import read_rules
from hekla.apiserver.pod_admission import DEFAULT_ACCOUNT, ROOT_CA_CONFIG_MAP
from hekla.apiserver.resource import Resource
from hekla.apiserver.store.store import Key, Store
from hekla.apiserver.transforms import Replacement
from hekla.apiserver.writing import Options, Wanted, Writer
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
    of_cluster += default_roles()
    in_namespaces: list[tuple[Kind, Obj]] = []
    for name in _NAMESPACES:
        # A controller gives these to every namespace; here they need not be waited for.
        in_namespaces.append((SERVICE_ACCOUNT, {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": name}}))
        if root_ca:
            metadata = {"name": ROOT_CA_CONFIG_MAP, "namespace": name}
            in_namespaces.append((CONFIG_MAP, {"metadata": metadata, "data": {"ca.crt": root_ca}}))
    in_namespaces.append((SERVICE, _api_service()))
    for wanted in (of_cluster, in_namespaces):
        await _ensure(store, writer, wanted)
    await _update_roles(store, writer)


def _api_service() -> Obj:
    """Where pods find this server; nodes see to it that something answers there."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]
    return {
        "metadata": {"name": API_SERVICE, "namespace": "default", "labels": labels},
        "spec": {"clusterIP": API_SERVICE_ADDRESS, "ports": ports},
    }


async def _ensure(store: Store, writer: Writer, wanted: list[tuple[Kind, Obj]]) -> None:
    missing = [
        Wanted(Resource(kind), obj["metadata"].get("namespace", ""), obj)
        for kind, obj in wanted
        if store.newest(_key(kind, obj)) is None
    ]
    for result in await writer.create_all(missing):
        if isinstance(result, ApiError) and not isinstance(result, AlreadyExists):
            raise result


async def _update_roles(store: Store, writer: Writer) -> None:
    """Roles of an older release get today's rules, unless somebody has said that they are to stay."""
    for kind, role in default_roles():
        key = _key(kind, role)
        entry = store.newest(key)
        if kind is not CLUSTER_ROLE or role.get("aggregationRule") or entry is None:
            continue
        found = entry.decode()
        if annotations_of(found).get(AUTO_UPDATE) == "true" and read_rules(found) != read_rules(role):
            await writer.update(Resource(kind), key, Replacement({**found, "rules": role["rules"]}), Options())


def _key(kind: Kind, obj: Obj) -> Key:
    return Key(f"{kind.group}/{kind.plural}", obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
