"""Rules of Kubernetes' own kinds that no schema expresses: names, labels, pods, services, what may not change."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from hekla.api.core import ACCOUNT_NAME_ANNOTATION, ACCOUNT_TOKEN_SECRET
from hekla.api.kinds import Kind, Obj
from hekla.api.pod_rules import pod_problems
from hekla.api.quantity import InvalidQuantity, parse
from hekla.apiserver.access.validating import (
    validate_binding_update,
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_role,
    validate_role_binding,
)
from hekla.apiserver.invalid import Problem, forbidden, invalid, required, too_long, unsupported
from hekla.apiserver.services import validate_service, validate_service_update

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_ANNOTATION_BYTES = 256 * 1024
_DATA_BYTES = 1024 * 1024
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_LABEL_NAMED = frozenset({"/namespaces", "/services"})
_PATH_NAMED = frozenset({"rbac.authorization.k8s.io"})

_DEFINITION_PLACE = (("spec", "scope"), ("spec", "names", "kind"), ("spec", "group"), ("spec", "names", "plural"))

Validator = Callable[[Obj], list[Problem]]


def validate_metadata(obj: Obj, kind: Kind) -> list[Problem]:
    metadata = obj["metadata"]
    name = metadata.get("name") or ""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    problems = _name_problems(name, kind)
    labels = metadata.get("labels") or {}
    problems += [problem for key in labels if _key_fault(key) for problem in _key_problems("metadata.labels", key)]
    for value in labels.values():
        if len(value) > 63:
            problems.append(invalid("metadata.labels", value, "must be no more than 63 bytes"))
        elif not _LABEL_VALUE.fullmatch(value):
            problems.append(invalid("metadata.labels", value, _LABEL_VALUE_TEXT))
    annotations = metadata.get("annotations") or {}
    problems += [
        problem
        for key in annotations
        if _key_fault(key.lower())
        for problem in _key_problems("metadata.annotations", key, key.lower())
    ]
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATION_BYTES:
        problems.append(too_long("metadata.annotations", _ANNOTATION_BYTES))
    finalizers = metadata.get("finalizers") or ()
    problems += [problem for each in finalizers for problem in _key_problems("metadata.finalizers", each)]
    return problems


def validate_finalizers(obj: Obj) -> list[Problem]:
    """What holds for Kubernetes' own kinds; definitions and what they define are free to name theirs."""
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{index}]", finalizer, why)
        for index, finalizer in enumerate(obj["metadata"].get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _name_problems(name: str, kind: Kind) -> list[Problem]:
    storage = f"{kind.group}/{kind.plural}"
    if kind.group in _PATH_NAMED:
        bad = name in (".", "..") or "/" in name or "%" in name
        return [invalid("metadata.name", name, "may not contain '/'")] if bad else []
    if storage in _LABEL_NAMED:
        pattern, most, text = _LABEL, 63, _LABEL_TEXT
    else:
        pattern, most, text = _SUBDOMAIN, 253, _SUBDOMAIN_TEXT
    problems = []
    if len(name) > most:
        problems.append(invalid("metadata.name", name, f"must be no more than {most} characters"))
    if not pattern.fullmatch(name):
        problems.append(invalid("metadata.name", name, text))
    return problems


def _key_problems(field: str, key: str, checked: str = "") -> list[Problem]:
    """`checked` is the key as it is judged, where that differs from the key as it is shown."""
    fault = _key_fault(checked or key)
    return [invalid(field, key, fault)] if fault else []


@lru_cache(maxsize=4096)
def _key_fault(key: str) -> str:
    """The same few keys come with every object."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not _SUBDOMAIN.fullmatch(prefix) or len(prefix) > 253):
        return f"prefix part {_SUBDOMAIN_TEXT}"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _QUALIFIED.fullmatch(name) else _QUALIFIED_TEXT


def validate_pod(pod: Obj) -> list[Problem]:
    return pod_problems(pod.get("spec") or {})


def validate_data(obj: Obj) -> list[Problem]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    problems = [
        invalid(f"data[{key}]", key, _CONFIG_KEY_TEXT)
        for key in [*data, *binary]
        if not _DATA_KEY.fullmatch(key) or len(key) > 253
    ]
    if sum(len(value) for value in [*data.values(), *binary.values()]) > _DATA_BYTES:
        problems.append(too_long("", _DATA_BYTES))
    return problems


def validate_secret(secret: Obj) -> list[Problem]:
    problems = validate_data(secret)
    annotations = secret["metadata"].get("annotations") or {}
    if secret.get("type") == ACCOUNT_TOKEN_SECRET and not annotations.get(ACCOUNT_NAME_ANNOTATION):
        problems.append(required(f"metadata.annotations[{ACCOUNT_NAME_ANNOTATION}]"))
    return problems


def validate_claim(claim: Obj) -> list[Problem]:
    spec = claim.get("spec") or {}
    modes = spec.get("accessModes") or []
    problems = [] if modes else [required("spec.accessModes", "at least 1 access mode is required")]
    problems += [unsupported("spec.accessModes", mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        problems.append(required("spec.resources[storage]"))
    else:
        problems += _size_problems(size)
    return problems


def _size_problems(size: str | int) -> list[Problem]:
    try:
        fault = "" if parse(size) > 0 else "must be greater than zero"
    except InvalidQuantity as error:
        fault = str(error)
    return [invalid("spec.resources[storage]", str(size), fault)] if fault else []


def validate_definition(definition: Obj) -> list[Problem]:
    spec = definition.get("spec") or {}
    problems = [required(f"spec.{name}") for name in ("group", "scope", "versions") if not spec.get(name)]
    if spec.get("scope") and spec["scope"] not in ("Cluster", "Namespaced"):
        problems.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    names = spec.get("names") or {}
    problems += [required(f"spec.names.{name}") for name in ("plural", "kind") if not names.get(name)]
    stored = [version for version in spec.get("versions") or () if version.get("storage")]
    if spec.get("versions") and len(stored) != 1:
        problems.append(
            invalid("spec.versions", len(stored), "must have exactly one version marked as storage version")
        )
    return problems


def validate_definition_name(definition: Obj) -> list[Problem]:
    name, spec = definition["metadata"].get("name"), definition.get("spec") or {}
    names = spec.get("names") or {}
    given = spec.get("group") and names.get("plural")
    if not given or name == f"{names['plural']}.{spec['group']}":
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


VALIDATORS: dict[str, Validator] = {
    "/pods": validate_pod,
    "/services": validate_service,
    "/configmaps": validate_data,
    "/secrets": validate_secret,
    "/persistentvolumeclaims": validate_claim,
    "apiextensions.k8s.io/customresourcedefinitions": validate_definition,
    "rbac.authorization.k8s.io/roles": validate_role,
    "rbac.authorization.k8s.io/clusterroles": validate_cluster_role,
    "rbac.authorization.k8s.io/rolebindings": validate_role_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": validate_cluster_role_binding,
}
CREATE_VALIDATORS: dict[str, Validator] = {
    "apiextensions.k8s.io/customresourcedefinitions": validate_definition_name,
}

_POD_UPDATES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(new: Obj, old: Obj) -> list[Problem]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec == before:
        return []
    if len(spec.get("containers") or ()) != len(before.get("containers") or ()):
        return [forbidden("spec.containers", "pod updates may not add or remove containers")]
    if _without_changeable(spec, before) != _without_changeable(before, before):
        return [forbidden("spec", _POD_UPDATES)]
    return []


def _without_changeable(spec: Obj, before: Obj) -> Obj:
    kept = {key: value for key, value in spec.items() if key != "activeDeadlineSeconds"}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{key: value for key, value in c.items() if key != "image"} for c in kept[field]]
    known = before.get("tolerations") or []
    tolerations = spec.get("tolerations") or []
    if all(each in tolerations for each in known):
        kept["tolerations"] = known
    if before.get("schedulingGates"):
        # Gates may only be taken away; while there are any, node selection may still be narrowed.
        gates = spec.get("schedulingGates") or []
        if all(gate in before["schedulingGates"] for gate in gates):
            kept["schedulingGates"] = before["schedulingGates"]
    return kept


def validate_immutable_data(new: Obj, old: Obj) -> list[Problem]:
    if not old.get("immutable"):
        return []
    return [
        forbidden(field, "field is immutable when `immutable` is set")
        for field in ("immutable", "data", "binaryData")
        if new.get(field) != old.get(field)
    ]


def validate_secret_update(new: Obj, old: Obj) -> list[Problem]:
    problems = validate_immutable_data(new, old)
    if new.get("type") != old.get("type"):
        problems.append(invalid("type", new.get("type"), "field is immutable"))
    return problems


def validate_definition_update(new: Obj, old: Obj) -> list[Problem]:
    """What is stored under a definition is found by these."""
    changed = [path for path in _DEFINITION_PLACE if _at(new, path) != _at(old, path)]
    return [invalid(".".join(path), _at(new, path), "field is immutable") for path in changed]


def _at(obj: Obj, path: tuple[str, ...]) -> Any:
    for field in path:
        obj = obj.get(field) or {}
    return obj


UPDATE_VALIDATORS: dict[str, Callable[[Obj, Obj], list[Problem]]] = {
    "/pods": validate_pod_update,
    "/configmaps": validate_immutable_data,
    "/secrets": validate_secret_update,
    "/services": validate_service_update,
    "apiextensions.k8s.io/customresourcedefinitions": validate_definition_update,
    "rbac.authorization.k8s.io/rolebindings": validate_binding_update,
    "rbac.authorization.k8s.io/clusterrolebindings": validate_binding_update,
}
