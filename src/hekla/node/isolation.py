"""Whether pods can have namespaces on this machine, and if not, what would change that."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from hekla.errors import UsageError
from hekla.log import get_logger
from hekla.node import syscalls as sys_
from hekla.node.settings import Isolation

log = get_logger("node")

# Settings that keep ordinary users from namespaces: name, value that does, value that does not. Ubuntu's is on as
# installed; Debian's and the limit are administrators' choices.
_SWITCHES = (
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
)


def use_namespaces(isolation: Isolation) -> bool:
    """Whether pods are isolated here. `auto` falls back to plain processes, and says so."""
    if isolation == "process":
        return False
    problem = _namespace_problem()
    if not problem:
        return True
    if isolation == "namespaces":
        raise UsageError(f"{without_namespaces()}: {problem}")
    log.warning(
        "pods are plain processes: no isolation, no volumes, no names", reason=problem, why=without_namespaces()
    )
    return False


def without_namespaces() -> str:
    """Why there are none; where one setting of the machine is to blame, with the remedy."""
    remedy = closed_switch(Path("/proc/sys")) if os.geteuid() else ""
    return f"this machine forbids namespaces{remedy and f' to ordinary users (`{remedy}` allows them)'}"


def closed_switch(settings: Path) -> str:
    """The command that opens what is closed to ordinary users; empty where nothing is."""
    for name, closed, opened in _SWITCHES:
        file = settings / name.replace(".", "/")
        if file.exists() and file.read_text().strip() == closed:
            return f"sudo sysctl {name}={opened}"
    return ""


def _namespace_problem() -> str:
    """Try it, in a process that ends at once."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)
            flags = sys_.CLONE_NEWNS | sys_.CLONE_NEWPID | sys_.CLONE_NEWNET | sys_.CLONE_NEWUTS | sys_.CLONE_NEWIPC
            sys_.unshare(flags | (sys_.CLONE_NEWUSER if os.geteuid() else 0))
            # Security modules may give the namespace and then none of its rights.
            sys_.mount(None, "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
        except OSError as error:
            os.write(writer, (error.strerror or str(error)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        problem = pipe.read()
    os.waitpid(child, 0)
    return problem.decode(errors="replace")
