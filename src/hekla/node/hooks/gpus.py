"""Which of the machine's GPUs a container gets, until its pod has ended.

Those asked for as `nvidia.com/gpu` the node chooses: the lowest that nobody has. Those asked for by Volcano's names,
whole or a part of one, the scheduler has chosen and noted on the pod; here is only made sure that nobody is in the way.
The choice is on disk before the container starts, so the next agent keeps to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from hekla.api.devices import GPU_INDEX, GPU_MEMORY, GPU_NUMBER, NVIDIA_GPU, read_indexes
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.api.pod_resources import pod_requests
from hekla.api.quantity import parse
from hekla.node.runtime import init_containers, is_sidecar, main_containers


class Holding(TypedDict):
    """`part` is what the whole pod has of each device, as amounts of GPU_MEMORY; 0: all of it."""

    devices: list[int]
    part: int


Assignment = dict[str, Holding]  # of a pod: by container


@dataclass(frozen=True)
class Gpus:
    """The node's: their numbers on the machine, and the memory of each where it can be shared.

    A node that was told of none takes a scheduler's word for what it has.
    """

    first: int = 0
    count: int = 0
    memory: int = 0

    @property
    def devices(self) -> range:
        return range(self.first, self.first + self.count)


class NoFreeGpu(Exception):
    """The container cannot have what it asks for now. The text says why."""


def assign(own: Assignment, others: Sequence[Assignment], pod: Obj, container: Obj, gpus: Gpus) -> Assignment:
    """The pod's assignment with this container in it; `others` are those of the node's other pods. Raises NoFreeGpu."""
    name = container["name"]
    if name in own:
        return own
    if wanted := _asked(container, NVIDIA_GPU):
        devices = _free(own, others, pod, wanted, gpus.devices)
        return {**own, name: Holding(devices=devices, part=0)}
    if _asked(container, GPU_NUMBER) or _asked(container, GPU_MEMORY):
        holding = _chosen(pod, container, gpus)
        _check_room(holding, others, gpus)
        return {**own, name: holding}
    return own


def variables(assigned: Assignment, container: Obj, gpus: Gpus) -> dict[str, str]:
    """What shows a container its devices and no others; nothing on a node that knows of none."""
    holding = assigned.get(container["name"])
    if holding is None:
        return {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"} if gpus.count else {}
    numbers = ",".join(map(str, holding["devices"]))
    # Devices have the numbers that nvidia-smi and /dev give them, not those of CUDA's order by speed.
    shown = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": numbers, "NVIDIA_VISIBLE_DEVICES": numbers}
    # parity: as upstream's device plugin tells it.
    if allocated := _asked(container, GPU_NUMBER) or _asked(container, GPU_MEMORY):
        shown["VOLCANO_GPU_ALLOCATED"] = str(allocated)
    if holding["part"] and gpus.memory:
        shown["VOLCANO_GPU_TOTAL"] = str(gpus.memory)
    return shown


def _asked(container: Obj, resource: str) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(parse(limits.get(resource) or "0"))


def _free(own: Assignment, others: Sequence[Assignment], pod: Obj, wanted: int, devices: range) -> list[int]:
    """The lowest; before all, those of the pod's containers that ran before: it was promised no more than these."""
    earlier = {each["name"] for each in init_containers(pod) if not is_sidecar(each)}
    left = _devices([{name: holding for name, holding in own.items() if name in earlier}])
    beside = {name: holding for name, holding in own.items() if name not in earlier}
    taken = _devices([beside, *others])
    free = [device for device in devices if device not in taken]
    if len(free) < wanted:
        raise NoFreeGpu(f"{wanted} of {NVIDIA_GPU} needed, {len(free)} free of {len(devices)}")
    return sorted(sorted(free, key=lambda device: device not in left)[:wanted])


def _devices(held: Sequence[Assignment]) -> set[int]:
    return {device for each in held for holding in each.values() for device in holding["devices"]}


def _chosen(pod: Obj, container: Obj, gpus: Gpus) -> Holding:
    """What the scheduler has given the container: its share of the pod's whole cards, or the card the pod is on."""
    cards = read_indexes(annotations_of(pod).get(GPU_INDEX, ""))
    if not cards:
        raise NoFreeGpu(
            f"no scheduler has said which GPU the pod gets ({GPU_INDEX}): turn on its plugin deviceshare, "
            "with deviceshare.GPUSharingEnable or deviceshare.GPUNumberEnable"
        )
    unknown = [card for card in cards if gpus.count and card >= gpus.count]
    if unknown:
        raise NoFreeGpu(f"the pod was given GPU {unknown[0]} ({GPU_INDEX}), the node has {gpus.count}")
    whole = _asked(container, GPU_NUMBER)
    if gpus.count and not (whole or gpus.memory):
        raise NoFreeGpu(
            f"{GPU_MEMORY} needed, the node gives its GPUs away as whole ones: --node-gpu-memory shares them"
        )
    if whole:
        before = _dealt_before(pod, container)
        cards = cards[before : before + whole]
        if len(cards) < whole:
            raise NoFreeGpu(f"{whole} of {GPU_NUMBER} needed, the pod was given fewer ({GPU_INDEX})")
    part = 0 if whole else int(pod_requests(pod["spec"])[GPU_MEMORY].value)
    return Holding(devices=[gpus.first + card for card in cards], part=part)


def _dealt_before(pod: Obj, container: Obj) -> int:
    """Whole cards of containers that come before this one and run beside it: the same order as requests add up."""
    dealt = 0
    for each in init_containers(pod):
        if each["name"] == container["name"]:
            return dealt
        dealt += _asked(each, GPU_NUMBER) if is_sidecar(each) else 0
    for each in main_containers(pod):
        if each["name"] == container["name"]:
            break
        dealt += _asked(each, GPU_NUMBER)
    return dealt


def _check_room(holding: Holding, others: Sequence[Assignment], gpus: Gpus) -> None:
    for device in holding["devices"]:
        parts = [_part_of(device, other) for other in others]
        held = [part for part in parts if part is not None]
        if held and (not holding["part"] or 0 in held):
            raise NoFreeGpu(f"GPU {device} is not free: another pod has it")
        if gpus.memory and sum(held) + holding["part"] > gpus.memory:
            left = gpus.memory - sum(held)
            raise NoFreeGpu(f"GPU {device} has {left} of {GPU_MEMORY} left, the pod needs {holding['part']}")


def _part_of(device: int, pod: Assignment) -> int | None:
    """What a pod has of the device: all of it as 0; None when it is not on it."""
    parts = [holding["part"] for holding in pod.values() if device in holding["devices"]]
    return (0 if 0 in parts else max(parts)) if parts else None
