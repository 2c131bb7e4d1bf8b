"""The outcome of `hekla run` as one JSON document, for programs: `--output json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hekla.api.batch import TASK_SPEC
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of, name_of, namespace_of
from hekla.cli.past_pods import PastPods
from hekla.cli.progress import phase_of, task_rows
from hekla.cli.usage import usage_by_task


def run_document(
    job: Obj,
    pods: Sequence[Obj],
    past: PastPods,
    *,
    exit_status: int,
    seconds: float,
    reason: str = "",
    message: str = "",
) -> dict[str, Any]:
    """`reason` and `message` say why it did not start, or did not go on; `pods` are those that are there."""
    usage = {one.task: one.document() for one in usage_by_task(job, past.all())}
    failed = past.failures(job) if exit_status else []
    tasks: list[dict[str, Any]] = [asdict(row) for row in task_rows(job, pods)]
    for task in tasks:
        if task["name"] in usage:
            task["usagePerPod"] = usage[task["name"]]
    return {
        "job": name_of(job),
        "namespace": namespace_of(job),
        "phase": phase_of(job),
        "exitStatus": exit_status,
        "seconds": round(seconds, 3),
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
        **({"failures": failed} if failed else {}),
        "tasks": tasks,
        "pods": [_pod(pod) for pod in pods],
    }


def _pod(pod: Obj) -> dict[str, Any]:
    status = pod.get("status") or {}
    return {
        "name": name_of(pod),
        "task": annotations_of(pod).get(TASK_SPEC, ""),
        "node": (pod.get("spec") or {}).get("nodeName") or "",
        "phase": status.get("phase") or "",
        "containers": [_container(one) for one in status.get("containerStatuses") or ()],
    }


def _container(status: Obj) -> dict[str, Any]:
    ended = (status.get("state") or {}).get("terminated") or {}
    facts = {key: ended[key] for key in ("exitCode", "reason", "message", "startedAt", "finishedAt") if key in ended}
    return {"name": status.get("name", ""), "restarts": int(status.get("restartCount") or 0), **facts}
