"""When an object of the cluster is what a file asks for."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.cli.likeness import is_as_written

SCRIPT = {"kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"train.py": "print(1)"}}
SECRET = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"token": "abc"}}
QUEUE = {"kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": 2, "capability": {"cpu": "4"}}}


@pytest.mark.parametrize(
    ("written", "found", "same"),
    [
        (SCRIPT, {**SCRIPT, "metadata": {"name": "s", "uid": "1"}}, True),
        (SCRIPT, {**SCRIPT, "data": {"train.py": "print(2)"}}, False),
        (SCRIPT, {**SCRIPT, "data": {"train.py": "print(1)", "more.py": ""}}, False),
        (SCRIPT, {**SCRIPT, "data": None}, False),
        (SECRET, {"type": "Opaque", "data": {"token": "YWJj"}}, True),
        (SECRET, {"type": "Opaque", "data": {"token": "YWJk"}}, False),
        (QUEUE, {"spec": {"weight": 2, "capability": {"cpu": "4"}, "reclaimable": True}, "status": {}}, True),
        (QUEUE, {"spec": {"weight": 1, "capability": {"cpu": "4"}}}, False),
    ],
)
def test_what_the_file_says_counts_and_what_the_server_adds_does_not(
    written: dict[str, Any], found: dict[str, Any], same: bool
) -> None:
    assert is_as_written(written, found) is same
