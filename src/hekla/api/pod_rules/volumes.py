"""The volumes of a pod, and where a container has them."""

from __future__ import annotations

from typing import Any

from hekla.api.claim_rules import claim_problems
from hekla.api.field import Problem, duplicate, forbidden, invalid, not_found, required
from hekla.api.field_rules import choice_problems, relative_path_problems, step_back_problems
from hekla.api.kinds import Obj
from hekla.api.names import label_problems
from hekla.api.pod_rules.environment import amount_field_problems, field_problems
from hekla.api.quantity import InvalidQuantity, parse

_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
# What of a volume must say where its content is.
_SOURCE_NAMES: dict[str, str] = {
    "configMap": "name",
    "hostPath": "path",
    "persistentVolumeClaim": "claimName",
    "secret": "secretName",
}


def volume_problems(spec: Obj, path: str) -> tuple[list[Problem], set[str]]:
    """What is wrong with the volumes, and the names of those with which nothing is."""
    problems: list[Problem] = []
    taken: set[str] = set()
    usable: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        found = own_name_problems(volume, f"{path}[{index}].name", taken) + source_problems(volume, f"{path}[{index}]")
        if not found:
            usable.add(volume["name"])
        problems += found
    return problems, usable


def mount_problems(container: Obj, path: str, volumes: set[str]) -> list[Problem]:
    problems: list[Problem] = []
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, target = f"{path}[{index}]", str(mount.get("name") or ""), str(mount.get("mountPath") or "")
        if not name:
            problems.append(required(f"{where}.name"))
        if name not in volumes:
            problems.append(not_found(f"{where}.name", name))
        if not target:
            problems.append(required(f"{where}.mountPath"))
        elif target in paths:
            problems.append(invalid(f"{where}.mountPath", target, "must be unique"))
        paths.add(target)
        problems += _below_mount_problems(mount, path, where)
    return problems


def own_name_problems(item: Obj, path: str, names: set[str]) -> list[Problem]:
    """A DNS label that no other of `names` has; it joins them."""
    name = str(item.get("name") or "")
    if not name:
        return [required(path)]
    problems = [invalid(path, name, why) for why in label_problems(name)]
    if name in names:
        problems.append(duplicate(path, f'"{name}"'))
    names.add(name)
    return problems


def _below_mount_problems(mount: Obj, path: str, where: str) -> list[Problem]:
    """Told of the list, not of the item, but for the last."""
    part, pattern = str(mount.get("subPath") or ""), str(mount.get("subPathExpr") or "")
    problems = relative_path_problems(part, f"{path}.subPath")
    if pattern and part:
        problems.append(invalid(f"{where}.subPathExpr", pattern, "subPathExpr and subPath are mutually exclusive"))
    problems += relative_path_problems(pattern, f"{path}.subPathExpr")
    return problems + choice_problems(mount, "mountPropagation", path, _PROPAGATIONS)


def source_problems(volume: Obj, path: str) -> list[Problem]:
    sources = [field for field, value in volume.items() if field != "name" and value is not None]
    problems = [forbidden(f"{path}.{one}", "may not specify more than 1 volume type") for one in sorted(sources)[1:]]
    for source in sources:
        name, where, content = _SOURCE_NAMES.get(source), f"{path}.{source}", volume[source]
        if name is not None and not content.get(name):
            problems.append(required(f"{where}.{name}"))
        problems += _content_problems(source, content, where)
    return problems


def _content_problems(source: str, content: Obj, path: str) -> list[Problem]:
    match source:
        case "hostPath":
            return [
                *step_back_problems(str(content.get("path") or ""), f"{path}.path"),
                *choice_problems(content, "type", path, _PATH_TYPES),
            ]
        case "emptyDir":
            wrong = "SizeLimit field must be a valid resource quantity"
            return [forbidden(f"{path}.sizeLimit", wrong)] if _is_negative(content.get("sizeLimit")) else []
        case "configMap" | "secret":
            return _mode_problems(content, "defaultMode", path) + _item_problems(content, path)
        case "downwardAPI":
            return _mode_problems(content, "defaultMode", path) + _downward_problems(content, path)
        case "projected":
            return _mode_problems(content, "defaultMode", path) + _projected_problems(content, path)
        case "csi":
            return [] if content.get("driver") else [required(f"{path}.driver")]
        case "nfs":
            return _nfs_problems(content, path)
        case "ephemeral":
            return _ephemeral_problems(content, path)
    return []


def _item_problems(content: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, item in enumerate(content.get("items") or ()):
        where, target = f"{path}.items[{index}]", str(item.get("path") or "")
        if not item.get("key"):
            problems.append(required(f"{where}.key"))
        problems += _target_problems(target, f"{where}.path") + _mode_problems(item, "mode", where)
    return problems


def _projected_problems(content: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    targets: set[str] = set()
    for index, source in enumerate(content.get("sources") or ()):
        for kind in ("secret", "configMap"):
            given, where = source.get(kind), f"{path}.sources[{index}].{kind}"
            if given is not None:
                problems += ([] if given.get("name") else [required(f"{where}.name")]) + _item_problems(given, where)
        problems += _downward_problems(source.get("downwardAPI") or {}, f"{path}.sources[{index}].downwardAPI")
        for given in source.values():
            for target in [str(item.get("path") or "") for item in (given or {}).get("items") or ()]:
                if target and target in targets:
                    problems.append(invalid(path, target, "conflicting duplicate paths"))
                targets.add(target)
    return problems


def _ephemeral_problems(content: Obj, path: str) -> list[Problem]:
    template = content.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{path}.volumeClaimTemplate")]
    return claim_problems(template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec")


def _downward_problems(content: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for item in content.get("items") or ():
        problems += _target_problems(str(item.get("path") or ""), f"{path}.path")
        field, amount = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            problems += field_problems(field, f"{path}.fieldRef", _FIELDS)
            if amount is not None:
                problems.append(
                    invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
                )
        elif amount is not None:
            problems += amount_field_problems(amount, f"{path}.resourceFieldRef", in_volume=True)
        else:
            problems.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return problems


def _target_problems(target: str, path: str) -> list[Problem]:
    return relative_path_problems(target, path) if target else [required(path)]


def _nfs_problems(content: Obj, path: str) -> list[Problem]:
    target = str(content.get("path") or "")
    problems = [required(f"{path}.{field}") for field in ("server", "path") if not content.get(field)]
    if not target.startswith("/"):
        problems.append(invalid(f"{path}.path", target, "must be an absolute path"))
    return problems


def _mode_problems(obj: Obj, field: str, path: str) -> list[Problem]:
    mode = obj.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(f"{path}.{field}", mode, _MODE_TEXT)]


def _is_negative(amount: Any) -> bool:
    try:
        return amount is not None and parse(amount) < 0
    except InvalidQuantity:
        return True
