"""When to stop waiting for a job on a cluster that was started for it alone.

Nobody will make room there or bring what is missing, except the job's own pods. What may pass by itself (an image that
could not be pulled, somebody who is still leaving) is given a minute.
"""

from __future__ import annotations

from collections.abc import Callable

from hekla.api.core import PodPhase
from hekla.api.kinds import Obj
from hekla.api.reasons import Reason
from hekla.cli.progress import stuck_reason, unstartable_reason, waiting_reason

ABOUT_ROOM = frozenset({Reason.NOT_ENOUGH_RESOURCES, Reason.QUEUE_OVER_QUOTA})

_ROOM_SECONDS = 1.0
_FINAL_SECONDS = 5.0
_COMPLAINT_SECONDS = 15.0  # a controller's, who tries again
_PASSING_SECONDS = 60.0
_PASSING = frozenset({"ErrImagePull", "ImagePullBackOff", Reason.WAITING_FOR_ROOM, Reason.PLUGIN_FAILED})


class Hopeless:
    """Since when, and why, a job has not been able to start."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives seconds that never go backwards."""
        self._now = now
        self.code = ""
        self.sentence = ""
        self.placed = False
        """Whether it has nodes: then it is not for want of a place."""
        self._complaint = ""
        self._group: Obj | None = None
        self._pods: list[Obj] = []
        self._since: float | None = None

    def hear(self, complaint: str) -> None:
        """What a controller says of the job."""
        self._complaint = complaint
        self.look(self._group, self._pods)

    def look(self, group: Obj | None, pods: list[Obj]) -> None:
        self._group, self._pods = group, pods
        before = self.sentence
        self.placed = any((pod.get("spec") or {}).get("nodeName") for pod in pods)
        self.code, self.sentence = self._obstacle()
        if not self.sentence:
            self._since = None
        elif self._since is None or self.sentence != before:
            self._since = self._now()

    def count_from_now(self) -> None:
        """What was missing before is no reason yet."""
        self._since = self._now() if self._since is not None else None

    def for_long(self) -> bool:
        return self._since is not None and self._now() - self._since >= self._patience()

    def _patience(self) -> float:
        if self.code in ABOUT_ROOM:
            return _ROOM_SECONDS
        if not self.code:
            return _COMPLAINT_SECONDS
        return _PASSING_SECONDS if self.code in _PASSING else _FINAL_SECONDS

    def _obstacle(self) -> tuple[str, str]:
        if not self._pods:
            return ("", self._complaint) if self._complaint else waiting_reason(self._group, [])
        running = [pod for pod in self._pods if (pod.get("status") or {}).get("phase") == PodPhase.RUNNING]
        failing = [unstartable_reason(pod) for pod in running]
        if running:
            # They may bring what the others wait for, or end the job; unless none of them ever gets to run.
            return failing[0] if all(code for code, _ in failing) else ("", "")
        return stuck_reason(self._pods) if self.placed else waiting_reason(self._group, self._pods)
