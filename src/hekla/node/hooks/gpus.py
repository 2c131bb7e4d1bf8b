"""Which of the node's GPUs a container gets: as many as its limits say, its own until the pod has ended.

The choice is on disk before the container starts, so the next agent keeps to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import Obj

RESOURCE = "nvidia.com/gpu"
VARIABLE = "CUDA_VISIBLE_DEVICES"

Assignment = dict[str, list[int]]  # of a pod: devices by container


class NoFreeGpu(Exception):
    """Fewer are free than the container needs. The text says so."""


def gpus_wanted(container: Obj) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(limits.get(RESOURCE) or 0)


def assign(own: Assignment, others: Iterable[Assignment], container: Obj, devices: range) -> Assignment:
    """The pod's assignment with this container in it: what it had before, or the lowest that are free.

    `devices` are the node's, `others` those of its other pods. Raises NoFreeGpu.
    """
    name, wanted = container["name"], gpus_wanted(container)
    if name in own or not wanted:
        return own
    taken = {device for each in (own, *others) for given in each.values() for device in given}
    free = [device for device in devices if device not in taken]
    if len(free) < wanted:
        raise NoFreeGpu(f"{wanted} of {RESOURCE} needed, {len(free)} free of {len(devices)}")
    return {**own, name: free[:wanted]}
