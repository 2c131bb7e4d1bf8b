"""Objects for tests, each valid as it is, with keyword overrides for what a test is about."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]

CREATED = "2030-01-01T00:00:00Z"


def metadata(name: str, namespace: str | None = "default", **fields: Any) -> Obj:
    meta: Obj = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "resourceVersion": "1"}
    if namespace is not None:
        meta["namespace"] = namespace
    return {**meta, **fields}


def container(name: str = "main", **fields: Any) -> Obj:
    return {"name": name, "image": "img", **fields}


def resources(cpu: str = "", memory: str = "", **others: str) -> Obj:
    """A container's `resources` with these requests."""
    requests = {"cpu": cpu, "memory": memory, **{name.replace("_", "/"): amount for name, amount in others.items()}}
    return {"requests": {name: amount for name, amount in requests.items() if amount}}


def task(name: str = "worker", replicas: int = 1, *, cpu: str = "", pod: Obj | None = None, **fields: Any) -> Obj:
    """A task of a Job; `pod` overrides fields of its pod spec."""
    main = container(resources=resources(cpu)) if cpu else container()
    template = {"spec": {"containers": [main], **(pod or {})}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def job(name: str = "demo", *tasks: Obj, namespace: str = "default", meta: Obj | None = None, **spec: Any) -> Obj:
    """A Job as admission leaves it: minAvailable of the job and of its tasks filled in unless given."""
    given = [dict(one) for one in tasks] or [task()]
    for one in given:
        one.setdefault("minAvailable", one["replicas"])
        one.setdefault("maxRetry", 3)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": metadata(name, namespace, **(meta or {})),
        "spec": {
            "queue": "default",
            "schedulerName": "volcano",
            "maxRetry": 3,
            "minAvailable": sum(one["minAvailable"] for one in given),
            "tasks": given,
            **spec,
        },
    }


def new_job(name: str = "demo", *tasks: Obj, namespace: str = "default", **spec: Any) -> Obj:
    """A Job as a person writes it, to be created on a server."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"tasks": list(tasks) or [task()], **spec},
    }


def policy(event: str = "", action: str = "", **fields: Any) -> Obj:
    given: Obj = {"event": event, "action": action, **fields}
    return {key: value for key, value in given.items() if value != ""}


def pod(name: str, phase: str = "Pending", *, namespace: str = "default", spec: Obj | None = None, **meta: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, namespace, **meta),
        "spec": {"containers": [container()], **(spec or {})},
        "status": {"phase": phase},
    }


def job_pod(
    owner: Obj, task_name: str = "worker", index: int = 0, phase: str = "Running", *, version: int = 0, **fields: Any
) -> Obj:
    """A pod as the job controller makes it. `exit_code`, `restarts`, `finished`, `evicted`, `marked` and `deleting` as
    wished."""
    name = f"{owner['metadata']['name']}-{task_name}-{index}"
    annotations = {
        "volcano.sh/job-name": owner["metadata"]["name"],
        "volcano.sh/job-version": str(version),
        "volcano.sh/task-spec": task_name,
        "volcano.sh/task-index": str(index),
    }
    if fields.get("evicted"):
        annotations["hekla.dev/evicted-at"] = fields["evicted"]
    if fields.get("marked"):
        annotations["volcano.sh/controller-out-of-sync"] = "true"
    made = pod(name, phase, annotations=annotations, labels={"volcano.sh/task-index": str(index)})
    if fields.get("deleting"):
        made["metadata"]["deletionTimestamp"] = CREATED
    made["status"]["containerStatuses"] = [container_status(phase, **fields)]
    return made


def container_status(phase: str, *, exit_code: int = 0, restarts: int = 0, finished: str = CREATED, **_: Any) -> Obj:
    state: Obj = {"running": {}}
    if phase in ("Succeeded", "Failed"):
        state = {"terminated": {"exitCode": exit_code, "finishedAt": finished}}
    return {
        "name": "main",
        "image": "img",
        "imageID": "",
        "ready": phase == "Running",
        "restartCount": restarts,
        "state": state,
    }


def queue(name: str = "default", state: str = "Open", **spec: Any) -> Obj:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": metadata(name, None),
        "spec": {"weight": 1, "reclaimable": True, **spec},
        "status": {"state": state} if state else {},
    }


def pod_group(name: str, min_member: int = 1, phase: str = "", *, namespace: str = "default", **spec: Any) -> Obj:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata(name, namespace),
        "spec": {"minMember": min_member, "queue": "default", **spec},
        "status": {"phase": phase} if phase else {},
    }


def node(name: str, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **others: str) -> Obj:
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **{key.replace("_", "/"): v for key, v in others.items()}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, None, labels={"kubernetes.io/hostname": name}),
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def command(action: str, target: Obj, kind: str = "Job") -> Obj:
    """A Command as vcctl creates it."""
    reference = {
        "apiVersion": target["apiVersion"],
        "kind": kind,
        "name": target["metadata"]["name"],
        "uid": target["metadata"]["uid"],
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {
            "generateName": f"{reference['name']}-{action.lower()}-",
            "namespace": target["metadata"].get("namespace", "default"),
            "ownerReferences": [reference],
        },
        "action": action,
        "target": reference,
    }
