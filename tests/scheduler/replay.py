"""Gives the objects of a recording to an API server, plays kubelet, and notes what a scheduler makes of them.

The same on our server in virtual time and on a real kube-apiserver: time is the event loop's. It has come to rest
when nothing has changed for a while; on a real one, whose time goes by without regard to a busy machine, it is given
longer where the outcome is not (yet) the recorded one.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from hekla.api.kinds import EVENT, NODE, POD, POD_GROUP, QUEUE, Kind, Obj, kind_of
from hekla.client.rest import Client
from hekla.errors import Conflict, NotFound
from tests.eventually import at_rest, until
from tests.scheduler.recorded import Recording, stage_agrees, unexplained

NAMESPACE = "sched"
_LOOK_SECONDS = 0.15
_LEAVING_SECONDS = 1.5
_PATIENCE_SECONDS = 60.0
_STATUS_APART = ("Node", "Queue", "Pod", "PodDisruptionBudget")

Start = Callable[[Path], AbstractAsyncContextManager[None]]


class Replay:
    """One recording played to a cluster that is empty, its namespaces aside."""

    def __init__(self, recording: Recording, client: Client, *, quiet: float, gives_time: bool = False) -> None:
        self._recording = recording
        self._client = client
        self._quiet = quiet
        self._gives_time = gives_time
        self._bound_pods_stay = "bound pods stay Pending" in recording.kubelet
        self._deleted_pods_stay = "deleted pods do not go away" in recording.kubelet
        self._placed: set[str] = set()
        self._dropped: set[str] = set()
        self._pods: dict[str, Obj] = {}  # as last seen
        self._leaving: dict[str, float] = {}
        self.stages: list[dict[str, Any]] = []
        self.events: dict[str, list[str]] = {}

    async def run(self, start: Start, directory: Path) -> None:
        conf = directory / "scheduler.conf"
        conf.write_text(self._recording.config)
        await self._create(self._recording.given)
        async with start(conf):
            await self._settle()
            for step in self._recording.steps:
                await self._step(step)
                await self._settle()
            if self._gives_time:
                with contextlib.suppress(TimeoutError):
                    await until(self._has_told, seconds=_PATIENCE_SECONDS)
            self.events = await self._told()

    async def _create(self, objects: Sequence[Mapping[str, Any]]) -> None:
        for given in objects:
            if "pause" in given:
                await asyncio.sleep(given["pause"])
                continue
            obj = copy.deepcopy(dict(given))
            kind = kind_of(obj)
            assert kind is not None, obj["kind"]
            if kind.namespaced:
                obj["metadata"].setdefault("namespace", NAMESPACE)
            made = await self._client.create(kind, obj)
            if obj.get("status") and kind.kind in _STATUS_APART:
                await self._client.update_status(kind, {**made, "status": obj["status"]})
            if kind is POD and obj["spec"].get("nodeName"):
                self._placed.add(obj["metadata"]["name"])

    async def _step(self, step: Mapping[str, Any]) -> None:
        await self._create(step.get("create", ()))
        for reference in step.get("delete", ()):
            kind, name = _find(reference)
            self._dropped.add(name)
            await self._client.delete(kind, name, _namespace(kind), grace_seconds=0 if kind is POD else None)
        for reference in step.get("finish", ()):
            kind, name = _find(reference)
            pod = await self._client.get(kind, name, NAMESPACE)
            await self._client.update_status(kind, {**pod, "status": {**pod["status"], "phase": "Succeeded"}})
        for reference, patch in step.get("patch", {}).items():
            kind, name = _find(reference)
            subresource = "status" if list(patch) == ["status"] and kind is not POD_GROUP else ""
            await self._client.patch(kind, name, patch, _namespace(kind), subresource=subresource)

    # The kubelet's part, and looking

    async def _settle(self) -> None:
        await at_rest(
            self._look, quiet=self._quiet, seconds=_PATIENCE_SECONDS, every=_LOOK_SECONDS, expected=self._agrees
        )
        self.stages.append(await self._outcome())

    async def _agrees(self, _: str) -> bool:
        return not self._gives_time or stage_agrees(self._recording, len(self.stages), await self._outcome())

    async def _has_told(self) -> bool:
        return unexplained(self._recording, self.stages, await self._told()) == {}

    async def _look(self) -> str:
        """Everything the comparison is about, as one text; bound pods start and deleted ones go on the way."""
        state: list[object] = []
        for pod in (await self._client.list(POD)).items:
            self._pods[pod["metadata"]["name"]] = pod
            state.append((pod["metadata"]["name"], pod["spec"].get("nodeName"), pod.get("status")))
            await self._be_kubelet(pod)
        for kind in (POD_GROUP, QUEUE):
            state += [(obj["metadata"]["name"], obj.get("status")) for obj in (await self._client.list(kind)).items]
        return repr(state)

    async def _be_kubelet(self, pod: Obj) -> None:
        meta, status, now = pod["metadata"], pod.get("status") or {}, asyncio.get_running_loop().time()
        try:
            if "deletionTimestamp" in meta:
                since = self._leaving.setdefault(meta["uid"], now)
                if now - since >= _LEAVING_SECONDS and not self._deleted_pods_stay:
                    await self._client.delete(POD, meta["name"], meta["namespace"], grace_seconds=0)
            elif pod["spec"].get("nodeName") and status.get("phase") == "Pending" and not self._bound_pods_stay:
                conditions = [item for item in status.get("conditions") or () if item["type"] != "Ready"]
                ready = {"type": "Ready", "status": "True"}
                running = {**status, "phase": "Running", "conditions": [*conditions, ready]}
                await self._client.update_status(POD, {**pod, "status": running})
        except (Conflict, NotFound):
            pass  # the next look sees it as it is then

    # What came of it

    async def _outcome(self) -> dict[str, Any]:
        nodes = {node["metadata"]["name"]: node for node in (await self._client.list(NODE)).items}
        live = {pod["metadata"]["name"]: pod for pod in (await self._client.list(POD)).items}
        pods: dict[str, Any] = {}
        counts: dict[str, dict[str, Any]] = {}
        values: dict[str, set[str]] = {}
        label = self._recording.spread_label
        for name, pod in sorted(self._pods.items()):
            if name in self._dropped:
                continue
            group = (pod["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name", "")
            counted = counts.setdefault(group, {"bound": 0, "evicted": 0, "waiting": 0})
            gone = name not in live or "deletionTimestamp" in live[name]["metadata"]
            pods[name] = _evicted(pod) if gone else self._standing(live[name])
            if gone:
                counted["evicted"] += 1
            elif name not in self._placed:
                node = live[name]["spec"].get("nodeName")
                counted["bound" if node else "waiting"] += 1
                if node and label is not None:
                    labels = nodes[node]["metadata"].get("labels") or {}
                    values.setdefault(group, set()).add(labels.get(label, ""))
                    counted[f"different {label}"] = len(values[group])
        groups = {
            obj["metadata"]["name"]: _group(obj.get("status") or {}, counts.get(obj["metadata"]["name"], {}))
            for obj in (await self._client.list(POD_GROUP)).items
        }
        queues = {
            obj["metadata"]["name"]: (obj.get("status") or {}).get("allocated") or {}
            for obj in (await self._client.list(QUEUE)).items
        }
        return {"pods": pods, "groups": groups, "queues": queues}

    def _standing(self, pod: Obj) -> dict[str, Any]:
        if pod["metadata"]["name"] in self._placed:
            return {"runs": "as given"}
        status, node = pod.get("status") or {}, pod["spec"].get("nodeName")
        found: dict[str, Any] = {"bound": bool(node)}
        if node:
            found["node"] = node
        for condition in status.get("conditions") or ():
            if condition["type"] == "PodScheduled" and not node:
                found["PodScheduled"] = {
                    "status": condition["status"],
                    "reason": condition.get("reason", ""),
                    "message": condition.get("message", ""),
                }
        if status.get("nominatedNodeName"):
            found["nominated"] = status["nominatedNodeName"]
        return found

    async def _told(self) -> dict[str, list[str]]:
        told: dict[str, set[str]] = {}
        for event in (await self._client.list(EVENT)).items:
            about = event["involvedObject"]
            if about["kind"] in ("Pod", "PodGroup", "Queue"):
                text = f"{event['type']} {event['reason']}: {event.get('message', '')}"
                told.setdefault(f"{about['kind']}/{about['name']}", set()).add(text)
        return {who: sorted(texts) for who, texts in sorted(told.items())}


def _evicted(pod: Obj) -> dict[str, Any]:
    found: dict[str, Any] = {"evicted": True}
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Ready", "DisruptionTarget"):
            shown = {key: condition.get(key) for key in ("status", "reason", "message")}
            found.setdefault("conditions", {})[condition["type"]] = shown
    return found


def _group(status: Mapping[str, Any], counts: Mapping[str, Any]) -> dict[str, Any]:
    conditions = [
        {key: condition[key] for key in ("type", "status", "reason", "message") if condition.get(key)}
        for condition in status.get("conditions") or ()
    ]
    return {
        "phase": status.get("phase"),
        "pods": dict(counts),
        **{key: status[key] for key in ("running", "succeeded", "failed") if status.get(key)},
        "conditions": sorted(conditions, key=lambda condition: condition["type"]),
    }


def _find(reference: str) -> tuple[Kind, str]:
    kind, _, name = reference.partition("/")
    return {"Pod": POD, "PodGroup": POD_GROUP, "Queue": QUEUE, "Node": NODE}[kind], name


def _namespace(kind: Kind) -> str | None:
    return NAMESPACE if kind.namespaced else None
