"""A network that loses a connection without telling either end, as a NAT or load balancer does that forgets it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("what", ["stream", "request"])
def test_a_connection_that_leads_nowhere_any_more_is_given_up(what: str) -> None:
    alone = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    heard = subprocess.run([*alone, sys.executable, "-m", "tests.client.cut_off", what], capture_output=True, text=True)
    assert heard.stdout.startswith("disconnected: "), heard
