"""When an object of the cluster is what a file asks for."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.kinds import kind_of
from hekla.cli.likeness import is_as_written

SCRIPT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"train.py": "print(1)"}}
BYTES = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "binaryData": {"weights": "AAE="}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"token": "abc"}}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "spec": {"resources": {"requests": {"storage": "1024Mi"}}},
}


@pytest.mark.parametrize(
    ("written", "found", "same"),
    [
        (SCRIPT, {**SCRIPT, "metadata": {"name": "s", "uid": "1"}}, True),
        (SCRIPT, {**SCRIPT, "data": {"train.py": "print(2)"}}, False),
        (SCRIPT, {**SCRIPT, "data": {"train.py": "print(1)", "more.py": ""}}, False),
        (SCRIPT, {**SCRIPT, "data": None}, False),
        (BYTES, {**BYTES, "metadata": {"name": "s", "uid": "1"}}, True),
        (BYTES, {**BYTES, "binaryData": {"weights": "AAE=", "more": "AA=="}}, False),
        (BYTES, {**BYTES, "data": {"train.py": "print(1)"}}, False),
        (SECRET, {"type": "Opaque", "data": {"token": "YWJj"}}, True),
        (SECRET, {"type": "Opaque", "data": {"token": "YWJk"}}, False),
        ({**SECRET, "stringData": None, "data": {"token": "YW\nJj\n"}}, {"data": {"token": "YWJj"}}, True),
        ({**BYTES, "binaryData": {"weights": "AA\nE=\n"}}, BYTES, True),
        ({**SCRIPT, "data": {"train.py": "print(1)\n"}}, SCRIPT, False),
        (CLAIM, {"spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v"}}, True),
    ],
)
def test_what_the_file_says_counts_and_what_the_server_adds_does_not(
    written: dict[str, Any], found: dict[str, Any], same: bool
) -> None:
    kind = kind_of(written)
    assert kind is not None
    assert is_as_written(kind, written, found) is same
