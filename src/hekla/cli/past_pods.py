"""What a follower remembers of a job's pods, which a policy may delete for the very reason one asks about."""

from __future__ import annotations

from hekla.api.kinds import Obj
from hekla.api.meta import is_deleting, is_owned_by, name_of, uid_of
from hekla.cli.progress import attempts_of, failures
from hekla.cli.usage import used_by_container
from hekla.client.informer import Update


class PastPods:
    """The last pod of each name."""

    def __init__(self, job: Obj) -> None:
        self._job = job
        self._last: dict[str, Obj] = {}
        self._measured: dict[str, Obj] = {}
        self._before_deletion: dict[str, Obj] = {}

    def hear(self, update: Update) -> None:
        pod = update.obj
        if not is_owned_by(pod, self._job):
            return
        name = name_of(pod)
        before = self._last.get(name)
        self._last[name] = pod
        if used_by_container(pod):
            self._measured[name] = pod
        if not is_deleting(pod) and update.new is not None:
            self._before_deletion[name] = pod
        elif before is not None and uid_of(before) != uid_of(pod):
            self._before_deletion.pop(name, None)

    def all(self) -> list[Obj]:
        """As each was seen last, those that are there included; of each name the last that is known to have used
        something, where there was one."""
        return sorted({**self._last, **self._measured}.values(), key=pod_order)

    def failures(self, job: Obj) -> list[str]:
        """A line for each container that ended badly by itself, and for each pod that others failed.

        `job` is the job as it is now.
        """
        return failures(sorted(self._before_deletion.values(), key=pod_order), attempts_of(job))


def pod_order(pod: Obj) -> tuple[str, int, str]:
    """By the index at the end of their names."""
    name = name_of(pod)
    stem, _, index = name.rpartition("-")
    return (stem, int(index), name) if index.isdigit() else (name, 0, name)
