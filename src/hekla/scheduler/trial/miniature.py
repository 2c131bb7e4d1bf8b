"""A cluster in a dict: objects in the short shape of the cases, cycles of the real core, and a kubelet that always
runs.

Nothing here decides anything. `settle` runs cycles and applies their plans, as binder and kubelet would, until
nothing changes any more.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

from hekla.api.devices import GPU_INDEX
from hekla.api.kinds import Obj
from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.errors import HeklaError
from hekla.scheduler.blame import PluginFailure
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import Config, default_config, parse_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.intake import doors_of, take_in
from hekla.scheduler.patches import group_status, shown_amounts, waiting_annotations
from hekla.scheduler.plan import Eviction, Plan
from hekla.scheduler.snapshot import Snapshot
from hekla.scheduler.timings import Timings
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, pods_of, queue_object
from hekla.scheduler.trial.storage_objects import settle_claim, storage_objects
from hekla.scheduler.watchdog import Watchdog

_MOST_CYCLES = 20
_START = 1893456000.0  # 2030-01-01


class Restless(HeklaError):
    """Every cycle undoes what the one before has done."""


class Miniature:
    def __init__(self, config: Config | None = None, watchdog: Watchdog | None = None) -> None:
        self.config = config or default_config()
        self._watchdog = watchdog
        self._too_slow: dict[str, PluginFailure] = {}
        self.objects: dict[tuple[str, str], Obj] = {}
        self.events: dict[str, list[str]] = {}
        self.evicted: dict[str, str] = {}  # action by pod
        self.failures: dict[str, None] = {}  # of plugins, each told once
        self.scheduler_names: tuple[str, ...] = ("volcano",)
        self.linger = False
        self.now = 0.0  # seconds since the first object was made
        self.cycles = 0
        self._seconds = 0
        self._made = 0

    def add(self, given: dict[str, Any]) -> None:
        """Objects in the short shape: nodes, queues, classes, groups with their pods, pods."""
        for node in given.get("nodes", ()):
            self.put(node_object(node))
        for queue in given.get("queues", ()):
            self.put(queue_object(queue))
        for name, value in given.get("classes", {}).items():
            given_class = value if isinstance(value, dict) else {"value": value}
            self.put({"kind": "PriorityClass", "metadata": {"name": name}, **given_class})
        for obj in storage_objects(given.get("storage", {})):
            self.put(obj)
        for obj in given.get("objects", ()):
            self.put(copy.deepcopy(obj))
        for group in given.get("groups", ()):
            self._seconds += 10
            self.put(group_object(group))
            for pod in pods_of(group):
                self.put(pod_object(pod, group["name"]))
        for pod in given.get("pods", ()):
            self.put(pod_object(pod, pod.get("group")))

    def put(self, obj: Obj) -> None:
        meta = obj["metadata"]
        self._made += 1
        meta.setdefault("uid", f"uid-{self._made:05}")
        meta.setdefault("creationTimestamp", f"2030-01-01T00:{self._seconds // 60:02}:{self._seconds % 60:02}Z")
        meta.setdefault("resourceVersion", "1")
        name = str((obj.get("spec") or {}).get("priorityClassName"))
        if obj["kind"] == "Pod" and ("PriorityClass", name) in self.objects:
            found = self.objects["PriorityClass", name]
            obj["spec"]["priority"] = found["value"]
            obj["spec"].setdefault("preemptionPolicy", found.get("preemptionPolicy", "PreemptLowerPriority"))
        self.objects[obj["kind"], meta["name"]] = obj

    def cache(self) -> Cache:
        cache = Cache(scheduler_names=self.scheduler_names, queue_gates=True)
        put = {kind.kind: door.put for kind, door in doors_of(cache).items()} | {"Pod": cache.put_pod}
        for (kind, _), obj in self.objects.items():
            take_in(put[kind], copy.deepcopy(obj))
        return cache

    def cycle(self) -> Plan:
        return self.decide(self.snapshot())

    def decide(self, snapshot: Snapshot, timings: Timings | None = None) -> Plan:
        """A plugin that was too slow is, as the scheduler has it, not asked again."""
        with self._watchdog.over(self.config) if self._watchdog else nullcontext():
            plan = run_cycle(snapshot, self.config, self._too_slow, timings)
        self._too_slow |= {failure.plugin: failure for failure in plan.failures if failure.slow}
        return plan

    def snapshot(self) -> Snapshot:
        self.cycles += 1
        return self.cache().snapshot(f"cycle-{self.cycles}", now=_START + self.now)

    def settle(self) -> None:
        for _ in range(_MOST_CYCLES):
            if not self.apply(self.cycle()):
                return
        raise Restless(f"after {_MOST_CYCLES} cycles it still had not come to rest")

    def apply(self, plan: Plan) -> bool:
        self.failures |= dict.fromkeys(failure.sentence for failure in plan.failures)
        changed = [self._apply_queue(queue.name, shown_amounts(queue)) for queue in plan.queues]
        changed.append(self._remove_leaving())
        for eviction in plan.evictions:
            changed.append(True)
            self._evict(eviction)
        for outcome in plan.groups:
            row = outcome.group.row
            for told in outcome.announcements:
                self._tell(f"PodGroup/{row.key.name}", f"{told.type} {told.reason}: {told.message}")
            status = group_status(row, outcome, plan.cycle_id, "2030-01-01T00:00:00Z")
            changed.append(self._apply_group(row.key.name, status or {}))
            changed.append(self._apply_annotations(row.key.name, waiting_annotations(row, outcome) or {}))
            for pod, condition in outcome.pod_conditions:
                entry = {"type": "PodScheduled", "status": "False"}
                entry |= {"reason": condition.reason, "message": condition.message}
                changed.append(self._apply_condition(pod.name, entry, condition.nominated))
        for pod in plan.admitted:
            del self.objects["Pod", pod.name]["spec"]["schedulingGates"]
            changed.append(True)
        for placement in plan.placements:
            for choice in dict.fromkeys(choice for found in placement.choices.values() for choice in found):
                settle_claim(self.objects, choice)
            for pod, node in placement.pairs():
                obj = self.objects["Pod", pod.name]
                assert "nodeName" not in obj["spec"], f"{pod.name} bound twice"
                obj["spec"]["nodeName"] = node
                if pod.cards:
                    obj["metadata"]["annotations"][GPU_INDEX] = ",".join(map(str, pod.cards))
                obj["status"] = {"phase": "Running"}
                changed.append(True)
        return any(changed)

    def node_of(self, pod: str) -> str | None:
        found = self.objects["Pod", pod]["spec"].get("nodeName")
        return None if found is None else str(found)

    def cards_of(self, pod: str) -> str:
        return str(self.objects["Pod", pod]["metadata"]["annotations"].get(GPU_INDEX, ""))

    def message_of(self, pod: str) -> str | None:
        conditions = (self.objects["Pod", pod].get("status") or {}).get("conditions") or [{}]
        found = conditions[0].get("message")
        return None if found is None else str(found)

    def group(self, name: str) -> Obj:
        status: Obj = self.objects["PodGroup", name].get("status") or {}
        return status

    def conditions_of(self, group: str) -> dict[str, str]:
        return {item["type"]: item.get("message", "") for item in self.group(group).get("conditions", ())}

    def waiting_of(self, group: str) -> tuple[str, str]:
        annotations = self.objects["PodGroup", group]["metadata"].get("annotations", {})
        return annotations.get(REASON_ANNOTATION, ""), annotations.get(MESSAGE_ANNOTATION, "")

    def _apply_queue(self, name: str, allocated: dict[str, str]) -> bool:
        status = self.objects["Queue", name].setdefault("status", {})
        if status.get("allocated") == allocated:
            return False
        status["allocated"] = allocated
        return True

    def _apply_group(self, name: str, patch: dict[str, Any]) -> bool:
        status = self.objects["PodGroup", name].setdefault("status", {})
        for key, value in patch.items():
            if value is None:
                status.pop(key, None)
            else:
                status[key] = value
        return bool(patch)

    def _apply_annotations(self, name: str, patch: dict[str, str | None]) -> bool:
        annotations = self.objects["PodGroup", name]["metadata"].setdefault("annotations", {})
        for key, value in patch.items():
            annotations.pop(key, None) if value is None else annotations.update({key: value})
        return bool(patch)

    def _evict(self, eviction: Eviction) -> None:
        pod = self.objects["Pod", eviction.pod.name]
        assert "deletionTimestamp" not in pod["metadata"], f"{eviction.pod.name} evicted twice"
        pod["metadata"]["deletionTimestamp"] = "2030-01-02T00:00:00Z"
        self.evicted[eviction.pod.name] = eviction.reason

    def _remove_leaving(self) -> bool:
        """Pods that were told to go in an earlier cycle are gone, unless pods of this cluster linger."""
        going = [key for key, obj in self.objects.items() if "deletionTimestamp" in obj["metadata"]]
        if self.linger:
            return False
        for key in going:
            del self.objects[key]
        return bool(going)

    def _apply_condition(self, pod: str, entry: dict[str, str], nominated: str) -> bool:
        status = self.objects["Pod", pod].setdefault("status", {"phase": "Pending"})
        if nominated:
            status["nominatedNodeName"] = nominated
        if status.get("conditions") == [entry]:
            return False
        status["conditions"] = [entry]
        return True

    def _tell(self, who: str, what: str) -> None:
        told = self.events.setdefault(who, [])
        if what not in told:
            told.append(what)


def short_config(actions: str, tiers: list[list[Any]]) -> Config:
    import yaml

    document = {
        "actions": actions,
        "tiers": [
            {"plugins": [{"name": entry} if isinstance(entry, str) else entry for entry in tier]} for tier in tiers
        ],
    }
    return parse_config(yaml.safe_dump(document))
