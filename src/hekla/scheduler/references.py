"""What Events are about: pods and groups, named as the API names them."""

from __future__ import annotations

from hekla.api.kinds import POD, POD_GROUP, Obj
from hekla.scheduler.rows import Pod, PodGroup


def pod_reference(pod: Pod) -> Obj:
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "resourceVersion": str(pod.revision),
        },
    }


def group_reference(row: PodGroup) -> Obj:
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": row.key.name,
            "namespace": row.key.namespace,
            "uid": row.uid,
            "resourceVersion": str(row.revision),
        },
    }
