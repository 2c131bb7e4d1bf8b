"""Which kubectl the tests drive. An older one does for most of them; what it cannot be told is marked."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

_NEWER = (1, 27)


def _version() -> tuple[int, ...]:
    if shutil.which("kubectl") is None:
        return _NEWER  # the tests themselves say best that it is missing
    told = subprocess.check_output(["kubectl", "version", "--client", "-o", "json"], text=True)
    version = json.loads(told)["clientVersion"]
    return tuple(int(version[part].rstrip("+")) for part in ("major", "minor"))


needs_newer_kubectl = pytest.mark.skipif(
    _version() < _NEWER, reason="this kubectl is older than 1.27 and lacks words of the test"
)
