"""Writing a pod's status: as few writes as the truth allows, guarded by uid and revision, retried for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hekla.api.kinds import POD, Obj
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.errors import ApiError, Conflict, Disconnected, NotFound
from hekla.log import get_logger
from hekla.node.context import NodeContext
from hekla.node.runtime import PodRuntime
from hekla.node.status import pod_status

log = get_logger("node")

# A pod whose containers start within this time is reported once, as running, and never as being created.
_PATIENCE = 0.4
_FIRST_RETRY = 0.1
_LONGEST_RETRY = 10.0

Current = Callable[[], tuple[Obj | None, PodRuntime]]


class Reporter:
    def __init__(self, context: NodeContext, current: Current) -> None:
        self._context = context
        self._current = current
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._newest: Obj | None = None  # the pod as our own last write returned it
        self._written: Obj | None = None

    def changed(self) -> None:
        """Something may be worth telling."""
        self._changed.set()

    def expect_change(self) -> None:
        """Something will change soon; if it takes long, that is worth telling too."""
        asyncio.get_running_loop().call_later(_PATIENCE, self._changed.set)

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.flush()

    async def flush(self) -> None:
        """Return when the API server knows the truth, or the pod is gone."""
        delay = _FIRST_RETRY
        while True:
            try:
                async with self._writing:
                    await self._write()
                return
            except (ApiError, Disconnected) as error:
                log.warning("pod status not written yet", error=error)
            await asyncio.sleep(delay * (0.5 + self._context.rng.random()))
            delay = min(delay * 2, _LONGEST_RETRY)

    async def _write(self) -> None:
        fresh: Obj | None = None
        while True:
            pod, runtime = self._current()
            if pod is None:
                return
            pod = _newer(_newer(pod, self._newest), fresh)
            status = pod_status(pod, runtime, self._context.clock.now())
            old = pod.get("status") or {}
            if _pruned(status) == _pruned(old) or _pruned(status) == self._written:
                return
            meta = pod["metadata"]
            patch = {
                "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
                "status": _difference(old, status),
            }
            try:
                self._newest = await self._context.client.patch(
                    POD, name_of(pod), patch, namespace_of(pod), subresource="status"
                )
                self._written = _pruned(status)
                return
            except NotFound:
                return
            except Conflict:
                fresh = await self._context.client.find(POD, name_of(pod), namespace_of(pod))
                if fresh is None or uid_of(fresh) != meta["uid"]:
                    return


def _newer(pod: Obj, other: Obj | None) -> Obj:
    if other is None or int(other["metadata"]["resourceVersion"]) <= int(pod["metadata"]["resourceVersion"]):
        return pod
    return other


def _difference(old: Obj, new: Obj) -> Obj:
    """A merge patch that turns `old` into `new`."""
    patch: dict[str, Any] = {key: value for key, value in new.items() if old.get(key) != value}
    patch.update({key: None for key in old if key not in new})
    return patch


def _pruned(value: Any) -> Any:
    """Without what servers may leave out: nulls and empties."""
    if isinstance(value, dict):
        kept = {key: _pruned(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, "", {}, [])}
    if isinstance(value, list):
        return [_pruned(each) for each in value]
    return value
