"""Pods: `hekla.api.pod_rules` has what they must say; of one that is there, little may change."""

from __future__ import annotations

from hekla.api.field import Problem, forbidden
from hekla.api.kinds import Obj
from hekla.api.pod_rules import pod_problems

_UPDATES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod(pod: Obj) -> list[Problem]:
    return pod_problems(pod.get("spec") or {})


def validate_pod_update(new: Obj, old: Obj) -> list[Problem]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec == before:
        return []
    if len(spec.get("containers") or ()) != len(before.get("containers") or ()):
        return [forbidden("spec.containers", "pod updates may not add or remove containers")]
    if _without_changeable(spec, before) != _without_changeable(before, before):
        return [forbidden("spec", _UPDATES)]
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
