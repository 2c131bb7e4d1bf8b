"""Files that a job's containers name and this machine has where pods have a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from hekla.api.kinds import Obj

_OWN_FOLDER = "/tmp"  # noqa: S108 - of each pod, an empty one


def unseen_files(pods: Sequence[Obj], own_folder: str = _OWN_FOLDER) -> str:
    """A sentence about them; empty where there are none, or what lies there was mounted."""
    named = (path for pod in pods for container in pod["spec"].get("containers") or () for path in _named(container))
    unseen = [path for path in dict.fromkeys(named) if _is_below(path, own_folder) and Path(path).exists()]
    if not unseen:
        return ""
    return (
        f"pods have a {own_folder} of their own and did not see {', '.join(unseen)}: docs/files.md tells what they see"
    )


def _named(container: Obj) -> Iterator[str]:
    """Whole paths among its words, and where it works, but for what is below a volume."""
    mounted = [str(mount.get("mountPath") or "") for mount in container.get("volumeMounts") or ()]
    words = [container.get("workingDir") or "", *(container.get("command") or ()), *(container.get("args") or ())]
    return (word for word in words if not any(_is_below(word, path) for path in mounted))


def _is_below(path: str, folder: str) -> bool:
    return PurePosixPath(folder) in (PurePosixPath(path), *PurePosixPath(path).parents)
