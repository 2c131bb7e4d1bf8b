"""HyperNodes: the patterns that select their members must be patterns."""

from __future__ import annotations

import json
import re

from hekla.api.kinds import Obj

# What upstream's patterns do not know, though Python's do: looking around, and referring back.
_UNKNOWN_GROUP = re.compile(r"(?<!\\)(?:\\\\)*(\(\?(?:=|!|<=|<!))")
_BACK_REFERENCE = re.compile(r"(?<!\\)(?:\\\\)*(\\[1-9])")


def validate_hyper_node(node: Obj) -> str:
    for member in (node.get("spec") or {}).get("members") or ():
        pattern = ((member.get("selector") or {}).get("regexMatch") or {}).get("pattern")
        fault = _fault(pattern) if pattern is not None else ""
        if fault:
            return (
                f"[].spec.members.selector.regexMatch.pattern: Invalid value: {json.dumps(pattern)}: "
                f"member regexMatch pattern is invalid: error parsing regexp: {fault}"
            )
    return ""


def _fault(pattern: str) -> str:
    """Why a pattern is none, in upstream's words; empty when it is one."""
    try:
        re.compile(pattern)
    except re.error as error:
        return _in_upstreams_words(pattern, error.msg, error.pos or 0)
    if found := _UNKNOWN_GROUP.search(pattern):
        return f"invalid or unsupported Perl syntax: `{found[1]}`"
    if found := _BACK_REFERENCE.search(pattern):
        return f"invalid escape sequence: `{found[1]}`"
    return ""


def _in_upstreams_words(pattern: str, message: str, position: int) -> str:
    match message:
        case "unterminated character set":
            return f"missing closing ]: `{pattern[position:]}`"
        case "missing ), unterminated subpattern":
            return f"missing closing ): `{pattern}`"
        case "unbalanced parenthesis":
            return f"unexpected ): `{pattern}`"
        case "nothing to repeat":
            return f"missing argument to repetition operator: `{pattern[position]}`"
        case "multiple repeat":
            return f"invalid nested repetition operator: `{pattern[position - 1 : position + 1]}`"
        case "bad escape (end of pattern)":
            return "trailing backslash at end of expression: ``"
    kind, _, what = message.rpartition(" ")
    words = {"bad character range": "invalid character class range", "bad escape": "invalid escape sequence"}
    return f"{words[kind]}: `{what}`" if kind in words else message
