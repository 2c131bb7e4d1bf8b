from __future__ import annotations

import subprocess
import sys

_ASLEEP = 1000
_PROGRAM = "import time; from hekla.clock import SystemClock; print(SystemClock().monotonic() - time.monotonic())"


def test_what_the_machine_sleeps_counts() -> None:
    """Whoever held a Lease before must not think afterwards that it still does. The sleep is a time namespace's."""
    machine = ["unshare", "--user", "--map-root-user", "--time", "--fork", f"--boottime={_ASLEEP}"]
    said = subprocess.check_output([*machine, sys.executable, "-c", _PROGRAM], text=True)
    assert float(said) >= _ASLEEP - 1
