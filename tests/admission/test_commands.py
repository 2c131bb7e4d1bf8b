"""Commands that are hardly meant."""

from __future__ import annotations

import pytest

from hekla.admission.commands import command_warnings


def warned(*command: object) -> list[str]:
    return command_warnings({"containers": [{"name": "main", "command": list(command)}]}, "spec")


def test_a_line_in_the_place_of_a_program_is_told_with_its_place() -> None:
    advice = 'is the name of one program: make each word an item, or write [sh, -c, "…"]'
    assert warned("python train.py") == [f'spec.containers[0].command[0]: "python train.py" {advice}']
    assert warned("torchrun\n" + "x" * 100)[0].startswith(f'spec.containers[0].command[0]: "torchrun\n{"x" * 31}…" is')


@pytest.mark.parametrize("command", [(), ("python3", "train.py"), ("sh", "-c", "python3 train.py; echo done")])
def test_programs_with_their_arguments_are_not(command: tuple[str, ...]) -> None:
    assert warned(*command) == []


def test_a_container_without_a_command_has_its_images() -> None:
    assert command_warnings({"initContainers": [{"name": "first"}], "containers": None}, "spec") == []
