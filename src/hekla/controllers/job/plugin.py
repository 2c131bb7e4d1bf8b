"""The contract of a job plugin, and what helps to write one.

A plugin is one class in one file, named in the entry point group `hekla.job_plugins`. It is built anew for every Job
it works on and keeps nothing between calls. It never talks to the API: it changes pods before they are created and
lists the objects the job needs; the controller does the writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import JOB, Kind, Obj
from hekla.api.meta import owner_reference
from hekla.controllers.job.model import Job
from hekla.errors import HeklaError


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object the job needs.

    `followed` names the top-level maps whose entries are kept as they are in `obj`; entries that are not in `obj` are
    left alone. `once` gives content that is made only when the object is created, such as a key pair; it is called on
    a thread of its own. `mounted_in_part` says that pods mount a directory within it (`subPath`): where a change would
    take that from containers that run, it is followed only when none of them do.
    """

    kind: Kind
    obj: Obj
    followed: tuple[str, ...] = ()
    once: Callable[[], Obj] | None = None
    mounted_in_part: bool = False


class JobPlugin(Protocol):
    flags: ClassVar[tuple[Flag, ...] | None]
    """The arguments it takes; None takes any and ignores them."""

    records: ClassVar[bool]
    """Whether `status.controlledResources` says that it is at work."""

    def __init__(self, arguments: Arguments) -> None: ...

    def shape_pod(self, pod: Obj, job: Job) -> None:
        """Change a pod of the job before it is created."""

    def objects(self, job: Job) -> list[Wanted]:
        """What the job needs besides pods. Names must not depend on anything that can change."""


class PluginRefused(HeklaError):
    """A plugin cannot work on this job; the text says why."""


def owned(job: Job, kind: Kind, name: str, **content: object) -> Obj:
    """An object in the job's namespace that goes when the job goes."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": job.key.namespace,
            "ownerReferences": [owner_reference(job.obj, JOB)],
        },
        **content,
    }


def every_container(pod: Obj) -> list[Obj]:
    """Containers and init containers."""
    spec = pod["spec"]
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def open_port(container: Obj, name: str, number: int) -> None:
    """Declare a container port, unless the number is declared already."""
    ports = container.get("ports") or []
    declared = as_port(number)
    if all(port.get("containerPort") != declared for port in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": declared}]


def as_port(number: int) -> int:
    """parity: what does not fit 32 bits is cut to them, not refused."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


@contextmanager
def refusing(words: str) -> Iterator[None]:
    """Makes a refusal of anything a plugin's code raises: one that exits, or cancels, ends itself and nobody else."""
    try:
        yield
    except (PluginRefused, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginRefused(f"{words}: {type(error).__name__}: {error}") from error
