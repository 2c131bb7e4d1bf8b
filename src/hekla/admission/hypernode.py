"""HyperNodes: the patterns that select their members must be patterns."""

from __future__ import annotations

import json

from hekla.admission.go_pattern import pattern_fault
from hekla.api.kinds import Obj


def validate_hyper_node(node: Obj) -> str:
    for member in (node.get("spec") or {}).get("members") or ():
        pattern = ((member.get("selector") or {}).get("regexMatch") or {}).get("pattern")
        fault = pattern_fault(pattern) if pattern is not None else ""
        if fault:
            return (
                f"[].spec.members.selector.regexMatch.pattern: Invalid value: {json.dumps(pattern)}: "
                f"member regexMatch pattern is invalid: error parsing regexp: {fault}"
            )
    return ""
