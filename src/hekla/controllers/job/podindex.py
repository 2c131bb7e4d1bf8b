"""The pods of every Job as records, each read once when it changes and not again whenever its Job is looked at.

A change that alters no record is no news: a pod being bound, or the copy of a pod that the answer to its creation has
already told us of. A pod whose marks are taken off stays the one it was. A pod that names a Job of another namespace as
its owner is nobody's: whoever may make pods in one namespace must not be able to fail the Jobs of another.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hekla.api.kinds import JOB, Obj
from hekla.api.meta import controller_of, name_of, namespace_of, uid_of
from hekla.client.informer import Update
from hekla.controllers.job.model import Pod, read_known_pod, read_pod

# The namespace and the uid of a Job.
_Owner = tuple[str, str]


@dataclass(slots=True)
class _Pods:
    by_name: dict[str, Pod] = field(default_factory=dict)
    ordered: list[str] | None = None

    def put(self, pod: Pod) -> None:
        if pod.name not in self.by_name:
            self.ordered = None
        self.by_name[pod.name] = pod

    def remove(self, name: str) -> Pod | None:
        self.ordered = None
        return self.by_name.pop(name, None)

    def in_order(self) -> list[Pod]:
        found = self.by_name
        if self.ordered is None:
            self.ordered = sorted(found, key=lambda name: (found[name].task, found[name].index, name))
        return [found[name] for name in self.ordered]


class PodIndex:
    def __init__(self) -> None:
        self._jobs: dict[_Owner, _Pods] = {}
        self._expected: dict[str, Pod] = {}

    def of(self, namespace: str, uid: str) -> list[Pod]:
        """The pods of the Job with this uid that carry our marks, by task and index."""
        pods = self._jobs.get((namespace, uid))
        return pods.in_order() if pods is not None else []

    def count(self, namespace: str, uid: str) -> int:
        pods = self._jobs.get((namespace, uid))
        return len(pods.by_name) if pods is not None else 0

    def expect(self, namespace: str, uid: str, pod: Pod) -> None:
        """This pod was just created for a Job: if it comes as it is here, that is no news."""
        pods = self._jobs.get((namespace, uid))
        if pods is None or pod.name not in pods.by_name:
            self._expected[pod.uid] = pod

    def update(self, update: Update) -> bool:
        """Take in a change. Whether it says anything new about a Job's pods."""
        name = name_of(update.obj)
        before, after = _job_of(update.old), _job_of(update.new)
        record = self._read(update.new, after) if update.new is not None and after is not None else None
        known = self._remove(before, name) if before is not None and (before != after or record is None) else None
        if record is None or after is None:
            return known is not None
        pods = self._jobs.setdefault(after, _Pods())
        known = known or pods.by_name.get(name) or self._expected.pop(record.uid, None)
        pods.put(record)
        return record != known

    def _read(self, obj: Obj, owner: _Owner) -> Pod | None:
        pods = self._jobs.get(owner)
        known = (pods.by_name.get(name_of(obj)) if pods is not None else None) or self._expected.get(uid_of(obj))
        return read_pod(obj) if known is None else read_known_pod(obj, known)

    def _remove(self, owner: _Owner, name: str) -> Pod | None:
        pods = self._jobs.get(owner)
        removed = pods.remove(name) if pods is not None else None
        if pods is not None and not pods.by_name:
            del self._jobs[owner]
        if removed is not None:
            self._expected.pop(removed.uid, None)
        return removed


def _job_of(obj: Obj | None) -> _Owner | None:
    owner = controller_of(obj) if obj is not None else None
    if obj is None or owner is None or not JOB.owns_reference(owner):
        return None
    return namespace_of(obj), str(owner.get("uid") or "")
