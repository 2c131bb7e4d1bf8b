"""Values that a reason predicts of what was found, whichever case it is: what an explanation names in angle brackets.

An explanation that lets any value pass would hide the next defect in its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hekla.api.kinds import Obj

_FINISHED = ("Succeeded", "Failed")


def predict(name: str, found: Obj, path: str) -> Any:
    """What should be at `path` of the recording `found`; KeyError where no prediction has this name."""
    return _PREDICTIONS[name](found, path)


def _finished_pods(found: Obj, path: str) -> Any:
    """Of the pods that are still there and have ended: how many, in the words of the field."""
    job, field = path.split("/")[-3 if "/jobs/" in path else -2], path.rpartition("/")[2]
    pods = [pod for pod in (found["objects"].get("pods") or {}).values() if _annotation(pod, "job-name") == job]
    ended = Counter((_annotation(pod, "task-spec"), pod["status"]["phase"]) for pod in pods)
    counts = {key: count for key, count in sorted(ended.items()) if key[1] in _FINISHED}
    if field != "taskStatusCount":
        return sum(count for (_, phase), count in counts.items() if phase.lower() == field) or None
    tasks: dict[str, Any] = {}
    for (task, phase), count in counts.items():
        tasks.setdefault(task, {"phase": {}})["phase"][phase] = count
    return tasks or None


def _hosts(found: Obj, path: str) -> str:
    """The ssh configuration of all hosts that the Job wants now."""
    name = path.split("/")[2].removesuffix("-ssh")
    tasks = found["objects"]["jobs"][name]["spec"]["tasks"]
    pods = [f"{name}-{task['name']}-{index}" for task in tasks for index in range(task.get("replicas") or 0)]
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for pod in pods:
        lines += [f"Host {pod}", f"  HostName {pod}.{name}", "  Port 22"]
    return "\n".join(lines) + "\n"


def _annotation(pod: Obj, name: str) -> str:
    return str(pod["metadata"]["annotations"].get(f"volcano.sh/{name}"))


_PREDICTIONS: dict[str, Callable[[Obj, str], Any]] = {"<finished pods>": _finished_pods, "<hosts>": _hosts}
