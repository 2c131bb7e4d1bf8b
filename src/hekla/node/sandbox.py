"""A pod's sandbox: the namespaces its containers share, and its address."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hekla.api.kinds import Obj
from hekla.node import records
from hekla.node.context import NodeContext
from hekla.node.directory import PodDirectory
from hekla.node.hooks.hosts import pod_hostname

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
