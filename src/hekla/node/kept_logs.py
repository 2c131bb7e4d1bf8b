"""Logs of pods that are gone, kept for as long as the Job is there that they were pods of.

A lifecycle policy deletes a pod and has it made anew under the same name: what the one before said is what people ask
for. `kept/<uid of the Job>` is laid out as a data directory is, so what reads the logs of pods reads these as well. All
nodes that share a data directory share it. `log_keeper.py` knows which Jobs are there.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hekla.log import get_logger
from hekla.node.directory import PodDirectory, all_pods, checked, remove_tree
from hekla.node.shim_streams import LOG_FILES
from hekla.node.storage import runs_out

log = get_logger("node")

PODS_KEPT = 5  # of each name
BYTES_KEPT = 1 << 20  # of each container's log
_ROOM_FOR_NOTE = 200


def keep_logs(directory: PodDirectory) -> bool:
    """Put the pod's place away, where it is a Job's and has logs; False when it is still where it was.

    Nothing runs in it any more. Whatever is in the way, the caller may go on and remove the pod.
    """
    owner = directory.owner()
    job = (owner.get("job") or {}).get("uid")
    if not job or not any(_last_log(directory, name) for name in directory.container_names()):
        return False
    told = {"pod": owner["name"], "namespace": owner["namespace"]}
    try:
        if lacking := runs_out(directory.data_dir):
            log.warning("log not kept", **told, error=f"too little {lacking}")
            return False
        directory.remove_scratch()
        _put_away(directory, job)
        return True
    except OSError as error:
        log.warning("log not kept", **told, error=error)
        return False


def earlier_pod(
    data_dir: Path, job: str, namespace: str, name: str, container: str, *, uid: str = "", back: int = 1
) -> PodDirectory | None:
    """The last pod of that name of that Job with a log of the container, but for the one of this uid; or the one that
    is so many `back`."""
    while True:
        # In this order: what is put away meanwhile is found in one place or in both.
        everywhere = itertools.chain(all_pods(data_dir), _kept_pods(data_dir, job))
        others = [each for each in _namesakes(everywhere, namespace, name, job) if each.uid != uid]
        found = [each for each in others if _last_log(each, container)]
        if all(each.path.exists() for each in others):
            return found[back - 1] if len(found) >= back else None


def jobs_with_logs(data_dir: Path) -> list[str]:
    """Uids of the Jobs that logs are kept of."""
    folder = data_dir / "kept"
    return [place.name for place in folder.iterdir()] if folder.is_dir() else []


def kept_for(data_dir: Path, job: str) -> dict[str, Any]:
    """Who owns what is kept of a Job (`PodDirectory.owner`), as the first of its pods tells; empty where none does."""
    return next((owner for pod in _kept_pods(data_dir, job) if (owner := pod.owner())), {})


def bound_all(data_dir: Path) -> None:
    """Cut what a node could not cut any more that was killed."""
    try:
        for job in jobs_with_logs(data_dir):
            for pod in _kept_pods(data_dir, job):
                _bound(pod)
    except OSError as error:
        log.warning("kept logs not cut", error=error)


def forget(data_dir: Path, job: str) -> bool:
    """Remove what is kept of a Job; False when it would not go."""
    return _remove(_place(data_dir, job))


def tail_of(files: Iterable[Path], limit: int) -> bytes | None:
    """The last whole lines of a log (its files, newest first) with a note of what is missing; None if it is no longer
    than `limit`."""
    present = [file for file in files if file.exists()]
    size = sum(file.stat().st_size for file in present)
    if size <= limit:
        return None
    wanted, data = limit - _ROOM_FOR_NOTE, b""
    for file in present:
        with file.open("rb") as opened:
            missing = wanted - len(data)
            opened.seek(max(0, file.stat().st_size - missing))
            data = opened.read() + data
        if len(data) >= wanted:
            break
    data = data[data.find(b"\n") + 1 :]
    moment = data.partition(b" ")[0]
    return b"%b stdout F [of this log the first %d bytes were not kept]\n%b" % (moment, size - len(data), data)


def _place(data_dir: Path, job: str) -> Path:
    return data_dir / "kept" / checked(job)


def _put_away(directory: PodDirectory, job: str) -> None:
    kept, owner = PodDirectory(_place(directory.data_dir, job), directory.uid), directory.owner()
    kept.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Whoever still reads the log has its files open: they are cut where nobody looks for them by their old names.
    directory.path.rename(kept.path)
    _bound(kept)
    for old in _namesakes(all_pods(kept.data_dir), owner["namespace"], owner["name"], job)[PODS_KEPT:]:
        _remove(old.path)


def _kept_pods(data_dir: Path, job: str) -> Iterator[PodDirectory]:
    """Looked for when the first is asked for, and not before."""
    yield from all_pods(_place(data_dir, job))


def _namesakes(pods: Iterable[PodDirectory], namespace: str, name: str, job: str) -> list[PodDirectory]:
    """Those of that name and Job, the newest first."""
    found = {}
    for pod in pods:
        owner = pod.owner()
        same_job = (owner.get("job") or {}).get("uid") == job
        if same_job and (owner.get("namespace"), owner.get("name")) == (namespace, name):
            found[pod.uid] = (pod.claimed_at(), pod)
    return [pod for _, pod in sorted(found.values(), key=lambda each: each[0], reverse=True)]


def _last_log(directory: PodDirectory, container: str) -> Path | None:
    numbers = directory.attempt_numbers(container)
    path = directory.log(container, numbers[-1]) if numbers else None
    return path if path is not None and path.exists() else None


def _bound(kept: PodDirectory) -> None:
    """Leave the last attempt of each container, and the end of its log."""
    for name in kept.container_names():
        for number in kept.attempt_numbers(name)[:-1]:
            _remove(kept.attempt(name, number))
        newest = _last_log(kept, name)
        if newest is not None:
            _cut(newest)


def _cut(newest: Path) -> None:
    older = [newest.with_name(f"{newest.name}.{number}") for number in range(1, LOG_FILES)]
    shorter = newest.with_name("log.shorter")
    try:
        tail = tail_of([newest, *older], BYTES_KEPT)
        if tail is None:
            return
        shorter.touch(mode=0o600)
        shorter.write_bytes(tail)
        for file in older:
            file.unlink(missing_ok=True)
        shorter.rename(newest)
    except OSError as error:
        # Better none than one that nothing bounds.
        log.warning("log not kept", log=newest, error=error)
        for file in (*older, newest, shorter):
            file.unlink(missing_ok=True)


def _remove(path: Path) -> bool:
    """False when it would not go."""
    try:
        remove_tree(path)
    except OSError as error:
        # Another node may be putting something in or taking it away: it looks again when it has done so.
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            log.warning("kept log not removed", place=path, error=error)
            return False
    return True
