"""When a Job is told of for the first time: as Pending.

Most gangs are let in at once, and most have their pods a moment later. So the first status may wait for both, and one
write tells that the Job is there and what pods it has. It does not wait where somebody needs it before, or would wait
for it long. Where each write is a request of its own, and thousands of Jobs come at once, it waits as well until fewer
have pods to be made: nobody's pod gets a node later because another's Job was told of.
"""

from __future__ import annotations

from hekla.api.core import PodPhase
from hekla.controllers.job.model import Job
from hekla.controllers.job.policy import answers_waiting_pods
from hekla.controllers.job.scene import Scene

# How long a gang is given to be let in.
LONGEST_WAIT = 1.0
# As many as are made within that time wherever they are made.
_MOST_PODS = 100


def is_due(scene: Scene, *, kills: bool) -> bool:
    """Whether a Job must be Pending before it is converged, or before what is running of it is killed."""
    job = scene.job
    if job.phase:
        return False
    if kills:
        # parity: one that is ended before it has a gang was never Pending.
        return scene.group is not None
    return (
        # What plugins will make is noted before it is made, so that it is always cleaned up.
        bool(job.obj["spec"].get("plugins"))
        # Pods in great number take their time.
        or job.replicas > _MOST_PODS
        # What is found may be enough for it to run, and it was Pending before that.
        or any(pod.phase != PodPhase.PENDING or pod.deleting for pod in scene.pods)
        or job.min_available <= 0
    )


def may_wait(scene: Scene) -> bool:
    """Whether a Job whose gang was just asked for may go on without a status, at the longest for LONGEST_WAIT."""
    return not scene.job.phase and scene.group is None


def may_be_told_last(job: Job) -> bool:
    """Whether a Job whose first pods were just made may be told of when nobody's pods wait to be made."""
    return not job.phase and not answers_waiting_pods(job)
