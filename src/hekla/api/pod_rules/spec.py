"""A pod as a whole."""

from __future__ import annotations

import re

import msgspec

from hekla.api.field import Problem, duplicate, forbidden, invalid, required, unsupported
from hekla.api.field_rules import (
    address_problems,
    choice_problems,
    label_map_problems,
    qualified_field_problems,
    range_problems,
    subdomain_field_problems,
)
from hekla.api.kinds import Obj
from hekla.api.names import label_key_problems, label_problems
from hekla.api.pod_rules.containers import containers_problems
from hekla.api.pod_rules.placement import affinity_problems, spread_problems, toleration_problems
from hekla.api.pod_rules.resources import amount_problems
from hekla.api.pod_rules.security import pod_security_problems
from hekla.api.pod_rules.volumes import volume_problems
from hekla.api.remembered import remembered

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_SYSTEMS = ("linux", "windows")
_MOST_NAME_SERVERS = 3
_SEARCH = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_SEARCH_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
)


def template_problems(template: Obj, path: str = "template") -> list[Problem]:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    problems = label_map_problems(metadata.get("labels") or {}, f"{path}.labels")
    for key in metadata.get("annotations") or {}:
        # Of annotations the prefix may have capitals, too.
        problems += [invalid(f"{path}.annotations", key, why) for why in label_key_problems(key.lower())]
    problems += _known_problems(_encode(spec), f"{path}.spec")
    if spec.get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        problems.append(forbidden(f"{path}.spec.ephemeralContainers", why))
    return problems


def pod_problems(spec: Obj) -> list[Problem]:
    """What is wrong with the spec of a new pod: more is asked of it than of a template."""
    problems = list(_known_problems(_encode(spec), "spec"))
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            image = str(container.get("image") or "")
            if image != image.strip():
                why = "must not have leading or trailing whitespace"
                problems.append(invalid(f"spec.{field}[{index}].image", image, why))
    if spec.get("ephemeralContainers"):
        problems.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        problems.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return problems


@remembered
def _known_problems(encoded: bytes, path: str) -> tuple[Problem, ...]:
    return tuple(pod_spec_problems(_decode(encoded), path))


def pod_spec_problems(spec: Obj, path: str) -> list[Problem]:
    problems, volumes = volume_problems(spec, f"{path}.volumes")
    problems += containers_problems(spec, path, volumes)
    problems += choice_problems(spec, "restartPolicy", path, _RESTART_POLICIES)
    problems += choice_problems(spec, "dnsPolicy", path, _DNS_POLICIES)
    problems += label_map_problems(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    problems += pod_security_problems(spec, path)
    problems += affinity_problems(spec.get("affinity") or {}, f"{path}.affinity")
    problems += _dns_problems(spec, f"{path}.dnsConfig")
    problems += _gate_problems(spec, path)
    problems += spread_problems(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            problems += subdomain_field_problems(spec[field], f"{path}.{field}")
    problems += range_problems(spec, "activeDeadlineSeconds", path, 1)
    problems += _name_problems(spec, path)
    problems += toleration_problems(spec.get("tolerations") or [], f"{path}.tolerations")
    problems += _alias_problems(spec.get("hostAliases") or [], f"{path}.hostAliases")
    if spec.get("priorityClassName"):
        problems += subdomain_field_problems(spec["priorityClassName"], f"{path}.priorityClassName")
    if spec.get("runtimeClassName"):
        problems += subdomain_field_problems(spec["runtimeClassName"], f"{path}.runtimeClassName")
    if spec.get("preemptionPolicy") == "":
        problems.append(required(f"{path}.preemptionPolicy"))
    problems += choice_problems(spec, "preemptionPolicy", path, _PREEMPTION_POLICIES)
    for name, amount in (spec.get("overhead") or {}).items():
        problems += amount_problems(amount, f"{path}.overhead.limits[{name}]")
    system = (spec.get("os") or {}).get("name")
    if system and system not in _SYSTEMS:
        problems.append(unsupported(f"{path}.os", system, _SYSTEMS))
    return problems


def _name_problems(spec: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for field in ("hostname", "subdomain"):
        name = str(spec.get(field) or "")
        if name:
            problems += [invalid(f"{path}.{field}", name, why) for why in label_problems(name)]
    return problems


def _dns_problems(spec: Obj, path: str) -> list[Problem]:
    config = spec.get("dnsConfig") or {}
    servers = config.get("nameservers") or []
    if spec.get("dnsPolicy") == "None":
        if not config:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not servers:
            return [
                required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
            ]
    problems: list[Problem] = []
    if len(servers) > _MOST_NAME_SERVERS:
        why = f"must not have more than {_MOST_NAME_SERVERS} nameservers"
        problems.append(invalid(f"{path}.nameservers", servers, why))
    for index, server in enumerate(servers):
        problems += address_problems(server, f"{path}.nameservers[{index}]")
    for index, search in enumerate(config.get("searches") or ()):
        problems += _search_problems(search, f"{path}.searches[{index}]")
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            problems.append(required(f"{path}.options[{index}]", "must not be empty"))
    return problems


def _search_problems(search: str, path: str) -> list[Problem]:
    if search == ".":
        return []
    name = search.removesuffix(".")
    problems = [invalid(path, search, "must be no more than 253 characters")] if len(name) > 253 else []
    return problems if _SEARCH.fullmatch(name) else [*problems, invalid(path, search, _SEARCH_TEXT)]


def _gate_problems(spec: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        where = f"{path}.readinessGates[{index}].conditionType"
        problems += qualified_field_problems(str(gate.get("conditionType") or ""), where)
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name, where = str(gate.get("name") or ""), f"{path}.schedulingGates[{index}]"
        problems += qualified_field_problems(name, where)
        if name in seen:
            problems.append(duplicate(where, f'"{name}"'))
        seen.add(name)
    return problems


def _alias_problems(aliases: list[Obj], path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, alias in enumerate(aliases):
        problems += address_problems(str(alias.get("ip") or ""), f"{path}[{index}].ip")
        for position, name in enumerate(alias.get("hostnames") or ()):
            problems += subdomain_field_problems(name, f"{path}[{index}].hostnames[{position}]")
    return problems
