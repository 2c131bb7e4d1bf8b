"""AdmissionReviews in and out: which rules apply to which kind, and how an answer is written."""

from __future__ import annotations

import base64
import traceback

import msgspec

from hekla.admission.cronjob import validate_cron_job
from hekla.admission.hypernode import validate_hyper_node
from hekla.admission.job import (
    default_changed_job,
    default_job,
    new_job_messages,
    validate_changed_job,
    validate_new_job,
    warnings_about,
)
from hekla.admission.jobflow import validate_job_flow
from hekla.admission.plugin_flags import PluginFlags
from hekla.admission.pod import add_queue_gate, validate_pod
from hekla.admission.podgroup import default_pod_group, validate_pod_group
from hekla.admission.queue import QueueRules, default_queue, validate_queue, validate_queue_deletion
from hekla.admission.reading import unreadable
from hekla.admission.resource_groups import GroupsFile, default_pod
from hekla.api import upstream_types
from hekla.api.batch import SCHEDULER_NAME
from hekla.api.job_plugins import registered
from hekla.api.kinds import CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, NAMESPACE, POD, POD_GROUP, QUEUE, Kind, Obj
from hekla.api.meta import copy_of, name_of, namespace_of
from hekla.api.quantity import InvalidQuantity
from hekla.api.review import Reader, one_line
from hekla.api.scheduling import DEFAULT_QUEUE
from hekla.log import get_logger

log = get_logger("admission")

_CREATE, _UPDATE, _DELETE = "CREATE", "UPDATE", "DELETE"
_DEFAULTED = {*((kind, _CREATE) for kind in (JOB, QUEUE, POD_GROUP)), (JOB, _UPDATE)}
_CHECKED = {
    *((kind, _CREATE) for kind in (JOB, CRON_JOB, QUEUE, POD_GROUP, POD, JOB_FLOW, HYPER_NODE)),
    *((kind, _UPDATE) for kind in (JOB, CRON_JOB, QUEUE, JOB_FLOW, HYPER_NODE)),
    (QUEUE, _DELETE),
}
_READ_AS = {JOB: upstream_types.JOB, QUEUE: upstream_types.QUEUE, POD_GROUP: upstream_types.POD_GROUP}
_BY_TYPE = {(kind.group, kind.kind): kind for kind, _ in sorted(_CHECKED, key=lambda pair: pair[0].kind)}
# What comes of reading an object that is not of its kind's shape.
_MISSHAPEN = (TypeError, ValueError, AttributeError, KeyError)
_USUAL_QUEUE_RULES = QueueRules()


class VolcanoAdmission:
    """Upstream's admission, as an `hekla.api.review.Admission`."""

    def __init__(
        self,
        reader: Reader,
        *,
        schedulers: tuple[str, ...] = (SCHEDULER_NAME,),
        queue_rules: QueueRules = _USUAL_QUEUE_RULES,
        groups: GroupsFile | None = None,
        queue_gates: bool = False,
    ) -> None:
        self._reader = reader
        self._groups = groups
        self._queue_gates = queue_gates
        # Without groups and gates nothing is filled into pods, and none of the many has to be looked at.
        self._defaulted = {*_DEFAULTED, (POD, _CREATE)} if groups is not None or queue_gates else _DEFAULTED
        self._schedulers = schedulers
        self._queue_rules = queue_rules
        self._plugins = PluginFlags(registered())

    def interested(self, kind: Kind, operation: str) -> bool:
        return (kind, operation) in _CHECKED

    def fills_in(self, kind: Kind, operation: str) -> bool:
        return (kind, operation) in self._defaulted

    async def mutate(self, review: Obj) -> Obj:
        request = review["request"]
        kind = _kind_of(request)
        if (kind, request["operation"]) not in self._defaulted:
            return _allowed(request)
        before = request["object"]
        if request["operation"] == _CREATE:
            read_as = _READ_AS.get(kind) if kind is not None else None
            if read_as is not None and (fault := unreadable(before, read_as)):
                return refused(request, fault)
            if kind == JOB and before.get("spec") is None:
                # parity: it is filled in all the same, which is the server's to refuse.
                return _with_patch(request, [{"op": "add", "path": "/spec/queue", "value": DEFAULT_QUEUE}])
        after = _opened(before)
        try:
            await self._default(kind, after, request)
        except InvalidQuantity as error:
            return refused(request, str(error))
        except _MISSHAPEN:
            # Not of the right shape: the schema check that follows says which field and why.
            return _allowed(request)
        return _patched(request, before, after)

    async def validate(self, review: Obj) -> Obj:
        request = review["request"]
        kind = _kind_of(request)
        if (kind, request["operation"]) not in _CHECKED:
            return _allowed(request)
        try:
            message = await self._fault(kind, request)
            if message:
                return refused(request, message)
            warnings = []
            if kind == JOB and request["operation"] == _CREATE:
                job = request["object"]
                warnings = [*warnings_about(job, await self._plugins.of(job)), *self._plugins.doubts_about(job)]
            return _allowed(request, warnings)
        except _MISSHAPEN as error:
            # Past the schema, which a server checks before: one that has ours sends no such object.
            return refused(request, _misshapen(kind, request, error))

    async def faults_of_new(self, kind: Kind, obj: Obj) -> list[str]:
        """What would be refused in an object as a person wrote it, one by one, whatever its schema says.

        For tools that want to tell all mistakes at once: a server stops at the schema's.
        """
        filled = copy_of(obj)
        request = {"operation": _CREATE, "object": filled, "namespace": namespace_of(obj)}
        try:
            await self._default(kind, filled, request)
            if kind == JOB:
                messages = new_job_messages(filled, await self._queues(), await self._plugins.of(filled))
            else:
                messages = [await self._fault(kind, request) if (kind, _CREATE) in _CHECKED else ""]
        except _MISSHAPEN:
            # Not of the right shape: the schema has said so.
            return []
        return [message.strip(" ;") for message in messages if message.strip(" ;")]

    async def _default(self, kind: Kind | None, obj: Obj, request: Obj) -> None:
        if kind == JOB and request["operation"] == _UPDATE:
            default_changed_job(obj)
        elif kind == JOB:
            default_job(obj)
        elif kind == QUEUE:
            default_queue(obj)
        elif kind == POD_GROUP:
            default_pod_group(obj, await self._reader.find(NAMESPACE, str(request.get("namespace") or "")))
        elif kind == POD:
            self._default_pod(obj, str(request.get("namespace") or ""))

    def _default_pod(self, pod: Obj, namespace: str) -> None:
        if self._queue_gates:
            add_queue_gate(pod)
        if self._groups is not None:
            default_pod(pod, namespace, self._groups.groups())

    async def _fault(self, kind: Kind | None, request: Obj) -> str:
        """What is wrong; empty when nothing is."""
        operation = request["operation"]
        obj: Obj = request.get("object") or {}
        old: Obj = request.get("oldObject") or {}
        if kind == QUEUE:
            queues = await self._queues()
            if operation == _DELETE:
                return validate_queue_deletion(str(request.get("name") or name_of(old)), queues, self._queue_rules)
            return validate_queue(obj, old if operation == _UPDATE else None, queues, self._queue_rules)
        if kind == JOB:
            if operation == _UPDATE:
                return unreadable(obj) or validate_changed_job(obj, old)
            if fault := unreadable(obj):
                return fault
            plugins = await self._plugins.of(obj)
            return validate_new_job(obj, await self._queues(), plugins)
        if kind == POD_GROUP:
            name = str((obj.get("spec") or {}).get("queue") or "")
            return validate_pod_group(obj, await self._reader.find(QUEUE, name) if name else None)
        if kind == POD:
            return validate_pod(obj, self._schedulers)
        if kind == CRON_JOB:
            return validate_cron_job(obj)
        return validate_job_flow(obj) if kind == JOB_FLOW else validate_hyper_node(obj)

    async def _queues(self) -> dict[str, Obj]:
        return {name_of(queue): queue for queue in await self._reader.find_all(QUEUE)}


def _opened(obj: Obj) -> Obj:
    """A copy as deep as what is filled in: fields of the spec and of the metadata, and annotations."""
    opened = dict(obj)
    for part in ("metadata", "spec"):
        if isinstance(obj.get(part), dict):
            opened[part] = dict(obj[part])
    metadata = opened.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
        metadata["annotations"] = dict(metadata["annotations"])
    return opened


def _kind_of(request: Obj) -> Kind | None:
    kind = request.get("kind") or {}
    return _BY_TYPE.get((str(kind.get("group", "")), str(kind.get("kind", ""))))


def _misshapen(kind: Kind | None, request: Obj, error: Exception) -> str:
    """What to tell of an object that cannot be looked at: upstream's words where its types say what is wrong."""
    assert kind is not None
    log.warning(
        "object not of the shape of its kind", kind=kind.kind, name=request.get("name", ""), error=repr(error),
        at=traceback.extract_tb(error.__traceback__)[-1].name,
    )  # fmt: skip
    read_as = _READ_AS.get(kind)
    fault = unreadable(request.get("object") or {}, read_as) if read_as is not None else ""
    return fault or f"the {kind.kind} is not of the shape that its schema asks for, and cannot be checked"


def _patched(request: Obj, before: Obj, after: Obj) -> Obj:
    """A JSON Patch that sets every changed field of `metadata` and `spec` as a whole."""
    operations: list[Obj] = []
    for part in ("metadata", "spec"):
        old, new = before.get(part), after.get(part)
        if old is None and new is not None:
            operations.append({"op": "add", "path": f"/{part}", "value": new})
        elif isinstance(old, dict) and isinstance(new, dict):
            operations += [
                {"op": "add", "path": f"/{part}/{field}", "value": value}
                for field, value in new.items()
                if field not in old or old[field] != value
            ]
    return _with_patch(request, operations) if operations else _allowed(request)


def _with_patch(request: Obj, operations: list[Obj]) -> Obj:
    answer = _allowed(request)
    answer["response"]["patchType"] = "JSONPatch"
    answer["response"]["patch"] = base64.b64encode(msgspec.json.encode(operations)).decode()
    return answer


def _allowed(request: Obj, warnings: list[str] | None = None) -> Obj:
    response: Obj = {"uid": request.get("uid", ""), "allowed": True}
    if warnings:
        response["warnings"] = [one_line(each) for each in warnings]
    return _answer(response)


def refused(request: Obj, message: str) -> Obj:
    """The answer that keeps something from being written."""
    return _answer({"uid": request.get("uid", ""), "allowed": False, "status": {"message": message}})


def _answer(response: Obj) -> Obj:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
