"""A pod's sandbox: the namespaces its containers share, and its address. Also what this machine allows at all."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass

from hekla.api.kinds import Obj
from hekla.errors import UsageError
from hekla.log import get_logger
from hekla.node import records
from hekla.node import syscalls as sys_
from hekla.node.context import NodeContext
from hekla.node.directory import PodDirectory
from hekla.node.hooks.hosts import pod_hostname
from hekla.node.settings import Isolation

log = get_logger("node")

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Sandbox:
    """`process` holds the namespaces; None where pods are plain processes."""

    process: records.ProcessId | None
    address: str


async def open_sandbox(context: NodeContext, directory: PodDirectory, pod: Obj) -> Sandbox:
    """The pod's sandbox, made if it is not there; as often as asked. Raises SwitchError."""
    if context.switch is None:
        return Sandbox(None, _LOOPBACK)
    known = directory.sandbox()
    if known and records.is_alive(known["process"]):
        return Sandbox(known["process"], known["address"])
    made = await asyncio.to_thread(context.switch.sandbox, directory.uid, pod_hostname(pod))
    if context.firewall is not None:
        await context.firewall.admit(pod, made.address, made.rules)
    return Sandbox(made.process, made.address)


def use_namespaces(isolation: Isolation) -> bool:
    """Whether pods are isolated here. `auto` falls back to plain processes, and says so."""
    if isolation == "process":
        return False
    problem = _namespace_problem()
    if not problem:
        return True
    if isolation == "namespaces":
        raise UsageError(f"this machine does not allow namespaces: {problem}")
    log.warning("pods are plain processes: no isolation, no volumes, no names", reason=problem)
    return False


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
            if not os.geteuid():
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
