"""PodGroups: the namespace's own queue, and queues that take no more."""

from __future__ import annotations

from hekla.admission.topology import BOTH_TIERS, names_both_tiers
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.api.scheduling import DEFAULT_QUEUE, QUEUE_NAME_ANNOTATION, QueueState


def default_pod_group(group: Obj, namespace: Obj | None) -> None:
    """A group in the default queue goes to the queue its namespace names, if any."""
    spec = group.get("spec") or {}
    wanted = annotations_of(namespace).get(QUEUE_NAME_ANNOTATION) if namespace else None
    if spec.get("queue") == DEFAULT_QUEUE and wanted:
        spec["queue"] = wanted


def validate_pod_group(group: Obj, queue: Obj | None) -> str:
    """`queue` is the one the group names; it may name none."""
    spec = group.get("spec") or {}
    messages = []
    name = spec.get("queue")
    if name and queue is None:
        messages.append(f'unable to find queue: queue.scheduling.volcano.sh "{name}" not found')
    elif name and queue is not None:
        state = (queue.get("status") or {}).get("state") or ""
        if state != QueueState.OPEN:
            messages.append(f"can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{state}`.")
    if names_both_tiers(spec.get("networkTopology")):
        messages.append(f"{BOTH_TIERS}.")
    for policy in spec.get("subGroupPolicy") or ():
        if names_both_tiers(policy.get("networkTopology")):
            messages.append(f"in subGroupPolicy '{policy.get('name', '')}': {BOTH_TIERS}.")
            break
    return "; ".join(messages)
