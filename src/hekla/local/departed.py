"""Nodes that an earlier start of this cluster had and this one has not: `--nodes 3` yesterday, `--nodes 1` today.

On other clusters a node that falls silent is found out by kube-controller-manager. Here every start knows which nodes
there are, so the others are taken away before anybody looks: a scheduler would go on to give them pods, which nobody
would ever run.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import NODE, POD, Obj
from hekla.api.meta import name_of, namespace_of, timestamp
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.errors import ApiError
from hekla.log import get_logger

log = get_logger("departed")

# What `components.node_names` gives. Nodes of other names are somebody else's: `hekla node`, or made by hand.
_OURS = re.compile(r"local(-\d+)?|simulated-\d+")
_REASON = "NodeShutdown"


async def take_away(client: Client, present: Collection[str], clock: Clock) -> None:
    """Fail what ran on nodes that are gone, then delete these: whoever is interrupted begins again with the node."""
    for name in map(name_of, (await client.list(NODE)).items):
        if not is_departed(name, present):
            continue
        log.info("node is gone", node=name)
        try:
            for pod in (await client.list(POD, field_selector=f"spec.nodeName={name}")).items:
                await _end(client, pod, timestamp(clock.now()))
            await client.delete(NODE, name)
        except ApiError as error:
            # An object that cannot be written must not keep the whole cluster from starting.
            log.warning("node not taken away", node=name, error=error)


def is_ours(node: str) -> bool:
    """Whether this cluster gives, or gave, nodes that name."""
    return _OURS.fullmatch(node) is not None


def is_departed(node: str, present: Collection[str]) -> bool:
    return is_ours(node) and node not in present


async def _end(client: Client, pod: Obj, now: str) -> None:
    name, namespace = name_of(pod), namespace_of(pod)
    if pod["metadata"].get("deletionTimestamp"):
        # Nobody is left who could say that it has ended.
        await client.delete(POD, name, namespace, grace_seconds=0)
    elif (pod.get("status") or {}).get("phase") not in FINISHED_POD_PHASES:
        await client.patch(POD, name, {"status": lost_status(pod, now)}, namespace, subresource="status")


def lost_status(pod: Obj, now: str) -> Obj:
    """As a node says it that comes back and finds the pod ended: failed, with what ran until then."""
    status = pod.get("status") or {}
    message = f"The cluster was started again without node {pod['spec']['nodeName']}"
    fields = ("initContainerStatuses", "containerStatuses")
    containers = {field: [_ended(one, message, now) for one in status[field]] for field in fields if status.get(field)}
    conditions = [
        {**one, "status": "False", "lastTransitionTime": now} if one["type"] in ("Ready", "ContainersReady") else one
        for one in status.get("conditions") or ()
    ]
    return {"phase": "Failed", "reason": _REASON, "message": message, "conditions": conditions, **containers}


def _ended(container: Obj, message: str, now: str) -> Obj:
    state = container.get("state") or {}
    if "running" not in state:
        return container
    terminated = {
        "exitCode": 137,
        "reason": _REASON,
        "message": message,
        "startedAt": state["running"].get("startedAt"),
        "finishedAt": now,
    }
    return {**container, "ready": False, "started": False, "state": {"terminated": terminated}}
