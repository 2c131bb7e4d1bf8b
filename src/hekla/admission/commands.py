"""Commands that nobody can run: `command: ["python train.py"]` is one program, whose name has a blank in it."""

from __future__ import annotations

from hekla.api.kinds import Obj

_LONGEST_QUOTE = 40


def command_warnings(pod_spec: Obj, path: str) -> list[str]:
    found = []
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(field) or ()):
            program = str((container.get("command") or [""])[0])
            if any(letter.isspace() for letter in program):
                found.append(f"{path}.{field}[{index}].command[0]: {_told(program)}")
    return found


def _told(program: str) -> str:
    quoted = program if len(program) <= _LONGEST_QUOTE else f"{program[:_LONGEST_QUOTE]}…"
    return f'"{quoted}" is the name of one program: make each word an item, or write [sh, -c, "…"]'
