"""What a claim of a volume has to say, whether it stands alone or in a pod."""

from __future__ import annotations

from hekla.api.field import Problem, forbidden, invalid, required, unsupported
from hekla.api.field_rules import choice_or_absent_problems, subdomain_field_problems
from hekla.api.kinds import Obj
from hekla.api.quantity import InvalidQuantity, parse
from hekla.api.selector_rules import selector_problems

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_SOURCE = ("apiGroup", "kind", "name")


def claim_problems(spec: Obj, path: str) -> list[Problem]:
    modes, where = spec.get("accessModes") or [], f"{path}.accessModes"
    problems = [] if modes else [required(where, "at least 1 access mode is required")]
    problems += [unsupported(where, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        problems.append(forbidden(where, "may not use ReadWriteOncePod with other access modes"))
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    where = f"{path}.resources[storage]"
    problems += [required(where)] if size is None else _size_problems(size, where)
    problems += selector_problems(spec.get("selector"), f"{path}.selector")
    if spec.get("storageClassName"):
        problems += subdomain_field_problems(spec["storageClassName"], f"{path}.storageClassName")
    problems += choice_or_absent_problems(spec, "volumeMode", path, VOLUME_MODES)
    for field in ("dataSource", "dataSourceRef"):
        if field in spec:
            problems += _source_problems(spec[field], f"{path}.{field}")
    source, reference = spec.get("dataSource") or {}, spec.get("dataSourceRef") or {}
    differ = any(source.get(field) != reference.get(field) for field in _SOURCE)
    if source and reference and differ and not reference.get("namespace"):
        # parity: the place is shown as the value, as nothing.
        problems.append(invalid(path, {}, "must match dataSourceRef"))
    return problems


def _source_problems(source: Obj, path: str) -> list[Problem]:
    problems = [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        problems.append(invalid(path, source.get("kind") or "", why))
    if source.get("apiGroup"):
        problems += subdomain_field_problems(source["apiGroup"], f"{path}.apiGroup")
    return problems


def _size_problems(size: str | int, path: str) -> list[Problem]:
    try:
        fault = "" if parse(size) > 0 else "must be greater than zero"
    except InvalidQuantity as error:
        fault = str(error)
    return [invalid(path, str(size), fault)] if fault else []
