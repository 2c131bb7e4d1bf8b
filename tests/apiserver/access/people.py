"""Asking as somebody else: users, roles and bindings for tests of access."""

from __future__ import annotations

from typing import Any

from hekla.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Obj
from tests.apiserver.rig import Rig

GROUP = ROLE.group


def rule(verbs: str, resources: str, groups: str = "core", names: str = "") -> Obj:
    found: Obj = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    return {**found, "resourceNames": names.split()} if names else found


async def grant(rig: Rig, user: str, *rules: Obj, namespace: str = "") -> None:
    """A role of these rules, for a user, in a namespace or everywhere."""
    role = ROLE if namespace else CLUSTER_ROLE
    metadata = {"name": f"of-{user}", **({"namespace": namespace} if namespace else {})}
    await rig.client.create(role, {"metadata": metadata, "rules": list(rules)})
    await bind(rig, user, role.kind, f"of-{user}", namespace=namespace)


async def bind(rig: Rig, user: str, kind: str, name: str, *, namespace: str = "") -> None:
    binding = ROLE_BINDING if namespace else CLUSTER_ROLE_BINDING
    metadata = {"name": f"{name}-for-{user}", **({"namespace": namespace} if namespace else {})}
    reference = {"apiGroup": GROUP, "kind": kind, "name": name}
    subjects = [{"kind": "User", "apiGroup": GROUP, "name": user}]
    await rig.client.create(binding, {"metadata": metadata, "roleRef": reference, "subjects": subjects})


async def ask(rig: Rig, user: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and document of the answer that this user gets."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status, document, _ = await rig.send(method, path, body, kind, **{"Impersonate-User": user, **headers})
    return status, document


async def may(rig: Rig, user: str, method: str, path: str, body: Any = None) -> bool:
    status, document = await ask(rig, user, method, path, body)
    return status != 403 or "cannot" not in document["message"]
