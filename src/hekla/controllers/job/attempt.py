"""Whether a restart is over though nobody has written so.

The pods of a restart are made first, and the phase is written after them. In between the controller may die, or the
write be refused, and the new pods fail meanwhile; or one of them fails while the name of another is still taken. What
happens to them is an event of a new attempt and costs a retry of its own, though the phase is still Restarting, in
which none is counted. The pods tell: each carries the number of retries at which it was made.
"""

from __future__ import annotations

from hekla.api.batch import JobPhase
from hekla.controllers.job.lifecycle import is_restarted
from hekla.controllers.job.model import Pod
from hekla.controllers.job.orders import Order
from hekla.controllers.job.scene import Scene, has_used_up_retries
from hekla.controllers.job.status import count_pods


def has_begun(scene: Scene, order: Order) -> bool:
    """Whether what an order answers was done to an attempt that the Job's phase does not tell of yet."""
    job = scene.job
    if job.phase != JobPhase.RESTARTING or has_used_up_retries(job):
        return False
    made = [pod for pod in scene.pods if _is_of_this_attempt(scene, pod)]
    if order.occurrence is not None and any(pod.uid == order.occurrence.pod_uid for pod in made):
        return True
    # A Command, or an event of a pod that no restart has touched: by now converging would have written it.
    return bool(made) and is_restarted(job, count_pods(job, scene.pods), scene.converged_gang)


def _is_of_this_attempt(scene: Scene, pod: Pod) -> bool:
    job = scene.job
    return pod.version == job.version and pod.attempt == job.retry_count and not pod.marked
