"""Nodes: their taints, the addresses of their pods, and what there is on them."""

from __future__ import annotations

import json

from hekla.api.field import Problem, duplicate, invalid, required
from hekla.api.field_rules import choice_problems, network, network_problems, qualified_field_problems
from hekla.api.kinds import Obj
from hekla.api.names import label_value_problems
from hekla.apiserver.validation.quotas import counted_problems

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_node(node: Obj) -> list[Problem]:
    spec = node.get("spec") or {}
    problems = _taint_problems(spec.get("taints") or ())
    networks = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    for index, each in enumerate(networks):
        problems += network_problems(each, f"spec.podCIDRs[{index}]")
    families = [found.version for found in map(network, networks) if found is not None]
    if len(set(families)) < len(families):
        why = "may specify no more than one CIDR for each IP family"
        problems.append(invalid("spec.podCIDRs", networks, why))
    status = node.get("status") or {}
    for field in ("capacity", "allocatable"):
        for name, amount in (status.get(field) or {}).items():
            problems += counted_problems(name, amount, f"status.{field}.{name}")
    return problems


def _taint_problems(taints: list[Obj] | tuple[()]) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        # parity: told as if they were metadata.
        path, key, value = f"metadata.taints[{index}]", taint.get("key") or "", taint.get("value") or ""
        effect = taint.get("effect") or ""
        problems += qualified_field_problems(key, f"{path}.key")
        problems += [invalid(f"{path}.value", value, why) for why in label_value_problems(value)]
        problems += choice_problems(taint, "effect", path, _EFFECTS) if effect else [required(f"{path}.effect")]
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            text = json.dumps(shown, separators=(",", ":"))
            problems.append(duplicate(path, f"{text}: taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return problems
