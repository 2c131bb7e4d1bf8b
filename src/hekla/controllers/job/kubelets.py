"""Whether pods are on nodes where a new content of a Secret takes from containers what they have mounted of it.

A kubelet writes the new files beside the old ones and deletes the old ones. A container that has mounted a directory
within the volume (`subPath`) keeps the deleted one: to it, all files are gone. Our own nodes leave them there.
"""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import NODE
from hekla.client.informer import Informer
from hekla.client.rest import Client
from hekla.controllers.job.model import Job, Pod
from hekla.errors import Forbidden

_OUR_RUNTIME = "hekla://"


class Kubelets:
    def __init__(self, client: Client, pods: Informer) -> None:
        self._client = client
        self._pods = pods
        # What a node is, it stays under its name.
        self._known: dict[str, bool] = {}

    async def run_any(self, job: Job, pods: Iterable[Pod]) -> bool:
        """Whether any of a job's pods runs, or is about to, on a node with a kubelet."""
        names = [pod.name for pod in pods if not (pod.is_finished or pod.deleting)]
        found = [self._pods.get(name, job.key.namespace) for name in names]
        nodes = sorted({pod["spec"].get("nodeName") or "" for pod in found if pod is not None} - {""})
        # On most clusters all nodes are of one kind, so that the first one tells.
        for node in sorted(nodes, key=lambda name: not self._known.get(name)):
            if await self._is_kubelet(node):
                return True
        return False

    async def _is_kubelet(self, name: str) -> bool:
        if name not in self._known:
            try:
                node = await self._client.find(NODE, name)
            except Forbidden:
                # Who may not see what they are must take care.
                return True
            runtime = ((node or {}).get("status") or {}).get("nodeInfo", {}).get("containerRuntimeVersion") or ""
            if not runtime:
                return False
            self._known[name] = not runtime.startswith(_OUR_RUNTIME)
        return self._known[name]
