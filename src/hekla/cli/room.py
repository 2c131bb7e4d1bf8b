"""Whether a job would fit on a local cluster that had nothing else to do.

Others make room by ending, and so a run waits for them; but nobody makes more room than there is.
"""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import NODE, POD, POD_GROUP, Obj, kind_of
from hekla.api.meta import is_owned_by, name_of, namespace_of, uid_of
from hekla.api.reasons import Reason
from hekla.cli.rehearse import decision_about, read_cluster, recorded_config, rehearse_with
from hekla.client.rest import Client
from hekla.errors import ApiError, Disconnected
from hekla.local.layout import Layout
from hekla.local.running import inspect
from hekla.scheduler.config import Config


async def missing_room(client: Client, job: Obj, local: Layout) -> str:
    """What the whole of this cluster lacks for the job; empty where that is nothing, or not known."""
    running = inspect(local.root)
    if running is None or not all(part["ready"] and part["pid"] for part in running.components):
        # Nodes that are starting are not there yet.
        return ""
    try:
        return lack_of_room(await read_cluster(client), job, recorded_config(local))
    except (ApiError, Disconnected):
        return ""


def lack_of_room(cluster: Iterable[Obj], job: Obj, config: Config) -> str:
    """The same of a cluster's objects: they are looked at as if the job were alone."""
    objects = [obj for obj in cluster if kind_of(obj) not in (POD, POD_GROUP) or is_owned_by(obj, job)]
    nodes = [obj for obj in objects if kind_of(obj) is NODE]
    if not nodes or not all(map(_takes_pods, nodes)):
        return ""
    decision = decision_about(rehearse_with(config, objects), f"{name_of(job)}-{uid_of(job)}", namespace_of(job))
    return str(decision["sentence"]) if decision.get("reason") == Reason.NOT_ENOUGH_RESOURCES else ""


def _takes_pods(node: Obj) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    is_ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return is_ready and not (node.get("spec") or {}).get("unschedulable")
