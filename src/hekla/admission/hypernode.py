"""HyperNodes: patterns must be patterns."""

from __future__ import annotations

import re

from hekla.api.kinds import Obj


def validate_hyper_node(node: Obj) -> str:
    for member in (node.get("spec") or {}).get("members") or ():
        pattern = ((member.get("selector") or {}).get("regexMatch") or {}).get("pattern")
        if pattern is None:
            continue
        try:
            re.compile(pattern)
        except re.error as error:
            return (
                f'[].spec.members.selector.regexMatch.pattern: Invalid value: "{pattern}": '
                f"member regexMatch pattern is invalid: {error}"
            )
    return ""
