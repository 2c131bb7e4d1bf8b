"""Whose log `--previous` means: an earlier attempt of the pod itself, or else an earlier pod of its name and Job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hekla.node.directory import PodDirectory
from hekla.node.kept_logs import earlier_pod


@dataclass(frozen=True)
class AskedLog:
    """A container, by names. Uids are Hekla's API server's to know, others ask without: `pod_uid` is empty where there
    is no such pod at present, `job_uid` where nobody said whose it is."""

    namespace: str
    pod: str
    container: str
    pod_uid: str = ""
    job_uid: str = ""

    @classmethod
    def from_query(cls, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> AskedLog:
        return cls(namespace, pod, container, query.get("podUid", ""), query.get("jobUid", ""))


def previous_log(data_dir: Path, asked: AskedLog, newest: PodDirectory | None, back: int = 1) -> PodDirectory | None:
    """Whose log is so many `back`, attempt by attempt and then pod by pod.

    `newest` is the newest pod of that name on this node, and is given back where the attempt is one of its own.
    """
    # The newest here need not be the one that is asked for: that may not have come here yet.
    present = newest if not asked.job_uid or (newest is not None and newest.uid == asked.pod_uid) else None
    earlier_attempts = len(present.attempt_numbers(asked.container)[:-1]) if present is not None else 0
    if back <= earlier_attempts:
        return present
    job = asked.job_uid or (((present.owner().get("job") or {}).get("uid") or "") if present is not None else "")
    if not job:
        return None
    uid = present.uid if present is not None else asked.pod_uid
    return earlier_pod(
        data_dir, job, asked.namespace, asked.pod, asked.container, uid=uid, back=back - earlier_attempts
    )
