"""How many processes all pods together may have, so that one which multiplies without end leaves the machine usable.

As root a control group counts them: the spawner is put in it, and all it forks stays there. For an ordinary user a
resource limit does; the kernel does not hold root to that one.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from hekla.log import get_logger
from hekla.node.hooks.cgroups import Cgroups

log = get_logger("node")


def most_processes() -> int:
    """Half of what the machine, or the user, may have; threads count."""
    found = [int(Path("/proc/sys/kernel", name).read_text()) for name in ("pid_max", "threads-max")]
    own = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    return min(*found, *([own] if own != resource.RLIM_INFINITY else [])) // 2


def bound_processes(cgroups: Cgroups | None, spawner: int, most: int) -> None:
    """Put the limit on a spawner that has just been started."""
    if os.geteuid():
        resource.prlimit(spawner, resource.RLIMIT_NPROC, (most, most))
        return
    if cgroups is None or not cgroups.bound_processes(spawner, most):
        log.warning("the number of pods' processes is not limited: no control group for it", most=most)
