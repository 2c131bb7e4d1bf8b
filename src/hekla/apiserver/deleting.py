"""What deleting means: at once, gracefully, or when the finalizers are done. Pure decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import Obj
from hekla.api.meta import timestamp
from hekla.apiserver.resource import Resource
from hekla.apiserver.store.store import KEEP, Keep, Remove
from hekla.errors import BadRequest, Conflict, Forbidden, Invalid

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = ("Foreground", "Background", "Orphan")
_KEPT_NAMESPACES = ("default", "kube-system", "kube-public")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace: int | None = None
    policy: str = ""
    preconditions: dict[str, str] = field(default_factory=dict)
    dry_run: bool = False


def read_options(document: Obj, query: dict[str, str]) -> DeleteOptions:
    """From the body, and from the query for what the body leaves out."""
    grace: Any = document.get("gracePeriodSeconds")
    if grace is None and query.get("gracePeriodSeconds"):
        grace = query["gracePeriodSeconds"]
    try:
        grace = int(grace) if grace is not None else None
    except (TypeError, ValueError):
        raise BadRequest(f'strconv.ParseInt: parsing "{grace}": invalid syntax') from None
    policy = document.get("propagationPolicy") or query.get("propagationPolicy") or ""
    orphan = document.get("orphanDependents")
    if orphan is not None and not policy:
        policy = "Orphan" if orphan else "Background"
    if policy and policy not in _POLICIES:
        supported = '"Foreground", "Background", "Orphan", "nil"'
        message = f'Unsupported value: "{policy}": supported values: {supported}'
        cause = {"reason": "FieldValueNotSupported", "message": message, "field": "propagationPolicy"}
        raise Invalid(
            f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {message}',
            details={"group": "meta.k8s.io", "kind": "DeleteOptions", "causes": [cause]},
        )
    dry_run = "All" in (document.get("dryRun") or ()) or query.get("dryRun") == "All"
    return DeleteOptions(grace, policy, dict(document.get("preconditions") or {}), dry_run)


def check_preconditions(obj: Obj, resource: Resource, options: DeleteOptions) -> None:
    metadata = obj["metadata"]
    for name, title, tail in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        wanted = options.preconditions.get(name)
        if wanted and wanted != metadata.get(name):
            # parity: the real server names the kind here, not the resource.
            kind = resource.kind.kind
            raise Conflict(
                f'Operation cannot be fulfilled on {kind} "{metadata["name"]}": the {title} in the precondition '
                f"({wanted}) does not match the {title} in record ({metadata.get(name)}). "
                f"The object might have been {tail}",
                details={"name": metadata["name"], "kind": kind},
            )


def decide_delete(obj: Obj, resource: Resource, options: DeleteOptions, now: datetime) -> Obj | Remove | Keep:
    """What becomes of an object somebody deletes. Changes `obj` in place."""
    if resource.storage == "/namespaces":
        return _delete_namespace(obj, now)
    before = _snapshot(obj)
    _apply_policy(obj, options.policy)
    grace = _grace(obj, resource, options)
    metadata = obj["metadata"]
    if grace > 0:
        _mark(metadata, grace, now)
        return KEEP if _snapshot(obj) == before else obj
    if metadata.get("finalizers"):
        _mark(metadata, 0, now)
        return KEEP if _snapshot(obj) == before else obj
    if metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = timestamp(now), 0
    return Remove(obj)


def is_finished(obj: Obj) -> bool:
    """Whether an object being deleted has nothing left to wait for."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if obj.get("kind") == "Namespace" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _snapshot(obj: Obj) -> tuple[Any, ...]:
    metadata = obj["metadata"]
    return (
        tuple(metadata.get("finalizers") or ()),
        metadata.get("deletionTimestamp"),
        metadata.get("deletionGracePeriodSeconds"),
    )


def _apply_policy(obj: Obj, policy: str) -> None:
    if not policy:
        return
    metadata = obj["metadata"]
    finalizers = [each for each in metadata.get("finalizers") or () if each not in (FOREGROUND, ORPHAN)]
    if policy == "Foreground":
        finalizers.append(FOREGROUND)
    elif policy == "Orphan":
        finalizers.append(ORPHAN)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _grace(obj: Obj, resource: Resource, options: DeleteOptions) -> int:
    if resource.storage != "/pods":
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in FINISHED_POD_PHASES:
        return 0
    asked = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)
    # parity: a negative period means one second.
    return 1 if asked < 0 else int(asked)


def _mark(metadata: Obj, grace: int, now: datetime) -> None:
    already = metadata.get("deletionTimestamp")
    if already and int(metadata.get("deletionGracePeriodSeconds") or 0) <= grace:
        return
    if not already and metadata.get("generation"):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace


def _delete_namespace(namespace: Obj, now: datetime) -> Obj | Remove | Keep:
    metadata = namespace["metadata"]
    if metadata["name"] in _KEPT_NAMESPACES:
        raise Forbidden(
            f'namespaces "{metadata["name"]}" is forbidden: this namespace may not be deleted',
            details={"name": metadata["name"], "kind": "namespaces"},
        )
    if metadata.get("deletionTimestamp"):
        return Remove(namespace) if is_finished(namespace) else KEEP
    metadata["deletionTimestamp"] = timestamp(now)
    namespace.setdefault("status", {})["phase"] = "Terminating"
    return namespace
