"""What a job's pods asked for and what they used, so that the next request is better. Pure: objects in, rows out.

What was used is known of pods that ran on Hekla's nodes: they write it in the status (condition `hekla.dev/Used`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hekla.api.batch import TASK_SPEC
from hekla.api.core import POD_USED
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.api.pod_resources import pod_requests
from hekla.api.quantity import parse

_BYTES = ("memory", "ephemeral-storage")
HEADERS = ("PER POD", "CPU ASKED", "CPU USED", "MEMORY ASKED", "MEMORY USED")


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """One pod of a task: CPU in cores, on average while it ran; memory in bytes, the most that any of them had.

    What was used is None where nobody can say.
    """

    task: str
    cpu_asked: float
    cpu_used: float | None
    memory_asked: int
    memory_used: int | None
    memory_is_bound: bool
    """The memory used is only known to be less than this."""

    def cells(self) -> tuple[str, ...]:
        below = "<" if self.memory_is_bound else ""
        return (
            self.task,
            _cores(self.cpu_asked) if self.cpu_asked else "-",
            "-" if self.cpu_used is None else _cores(self.cpu_used),
            amount_of_bytes(self.memory_asked) if self.memory_asked else "-",
            "-" if self.memory_used is None else f"{below}{amount_of_bytes(self.memory_used)}",
        )

    def document(self) -> Obj:
        document: Obj = {"cpuAsked": self.cpu_asked, "memoryAskedBytes": self.memory_asked}
        if self.cpu_used is not None:
            document["cpuUsed"] = round(self.cpu_used, 3)
        if self.memory_used is not None:
            document["memoryUsedBelowBytes" if self.memory_is_bound else "memoryUsedBytes"] = self.memory_used
        return document


def usage_by_task(job: Obj, pods: Sequence[Obj]) -> list[TaskUsage]:
    """In the order of the job's tasks, those included that nothing is known of but what they ask for; empty where
    nothing is known of any."""
    found = []
    for task in job["spec"].get("tasks") or ():
        mine = [pod for pod in pods if annotations_of(pod).get(TASK_SPEC) == task.get("name")]
        if mine or task.get("replicas"):
            found.append(_task_usage(task, mine))
    return found if any(one.cpu_used is not None for one in found) else []


def _task_usage(task: Obj, pods: list[Obj]) -> TaskUsage:
    known = [used for pod in pods if (used := used_by_container(pod))]
    # Pods that are there have what was filled in for them.
    asked = pod_requests(pods[0]["spec"] if pods else (task.get("template") or {}).get("spec") or {})
    averages = [sum(_average(one) for one in used.values()) for used in known]
    memories = [sum(one.get("memory", one.get("memoryBelow", 0)) for one in used.values()) for used in known]
    return TaskUsage(
        str(task["name"]),
        float(asked["cpu"].value) if "cpu" in asked else 0.0,
        sum(averages) / len(averages) if averages else None,
        int(asked["memory"].value) if "memory" in asked else 0,
        int(max(memories)) if memories else None,
        any("memoryBelow" in one for used in known for one in used.values()),
    )


def used_by_container(pod: Obj) -> dict[str, dict[str, float]]:
    """As its node tells it, of its main containers."""
    try:
        conditions = (pod.get("status") or {}).get("conditions") or ()
        told = json.loads(next((one["message"] for one in conditions if one["type"] == POD_USED), "{}"))
        main = {container["name"] for container in pod["spec"].get("containers") or ()}
        mine = {name: one for name, one in told.items() if name in main and "cpuSeconds" in one}
        return {name: {what: float(amount) for what, amount in one.items()} for name, one in mine.items()}
    except (ValueError, TypeError, AttributeError, KeyError):
        # Whoever may write statuses may have written this one.
        return {}


def _average(used: dict[str, float]) -> float:
    return used["cpuSeconds"] / used["seconds"] if used.get("seconds") else 0.0


def _cores(cores: float) -> str:
    return f"{cores * 1000:.0f}m" if cores < 1 else f"{cores:.4g}"


def amount_of_bytes(count: int) -> str:
    for size, unit in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if count >= size:
            return f"{count / size:.3g}{unit}" if count < 1000 * size else f"{count // size}{unit}"
    return str(count)


def readable_amount(resource: str, amount: str) -> str:
    """`23.5Gi` for `24684092Ki` of memory, in tables; what people would write themselves stays as it is."""
    if resource not in _BYTES or not (amount.isdigit() or amount.endswith("Ki")):
        return amount
    return amount_of_bytes(int(parse(amount)))
