"""A Job and what belongs to it, as the informers know it: what a look at a Job decides from."""

from __future__ import annotations

from datetime import datetime

import msgspec

from hekla.api.batch import ANSWERED, WAITING_SINCE, JobPhase
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of, is_deleting
from hekla.api.scheduling import PodGroupPhase
from hekla.controllers.job.model import Job, Pod, read_moment

_GATE_CLOSED = ("", PodGroupPhase.PENDING)


class Scene(msgspec.Struct, frozen=True):
    job: Job
    pods: list[Pod]
    group: Obj | None

    @property
    def group_phase(self) -> str:
        return phase_of(self.group)

    @property
    def unanswered_phase(self) -> str:
        """The group's phase as far as it still wants an answer."""
        return "" if self.group is not None and ANSWERED in annotations_of(self.group) else self.group_phase

    @property
    def lost_since(self) -> datetime | None:
        """Since when a delayed answer waits to the group's having lost pods, where that is noted."""
        return read_moment(annotations_of(self.group).get(WAITING_SINCE)) if self.group is not None else None

    @property
    def gate_is_open(self) -> bool:
        """Whether the scheduler has let the gang in: no pod is made before."""
        return self.group is not None and not is_deleting(self.group) and self.group_phase not in _GATE_CLOSED

    @property
    def last_gang(self) -> int:
        """The gang that the status tells of, which a restart is measured against."""
        status = self.job.obj.get("status") or {}
        return int(status.get("minAvailable") or 0) if self.job.phase else self.job.min_available

    @property
    def converged_gang(self) -> int:
        """The gang to tell of after converging."""
        # parity: one of another size is told of when it may have its pods, and not while it is killed or waits.
        return self.job.min_available if self.gate_is_open else self.last_gang

    @property
    def ends_with_its_gang(self) -> bool:
        """Whether a job without retries left still stops the pods of its last attempt."""
        # parity: upstream sees the old group as long as it has pods to stop, and has failed the job before it is gone.
        return has_used_up_retries(self.job) and self.group is None and any(pod.deleting for pod in self.pods)


def phase_of(group: Obj | None) -> str:
    return str(((group or {}).get("status") or {}).get("phase") or "")


def has_used_up_retries(job: Job) -> bool:
    """Whether the restart that is under way is the one that fails the job."""
    return job.phase == JobPhase.RESTARTING and job.retry_count >= job.max_retry
