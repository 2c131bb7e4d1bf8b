"""The contract of a job plugin, and how the configured ones are found.

A plugin is one class in one file, named in the entry point group `hekla.job_plugins`. It is built anew for every Job
it works on and keeps nothing between calls. It never talks to the API: it changes pods before they are created and
lists the objects the job needs; the controller does the writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar, Protocol

from hekla.api.job_plugins import Arguments, Flag, UnloadablePlugin, in_order, parse_arguments
from hekla.api.kinds import JOB, Kind, Obj
from hekla.api.meta import owner_reference
from hekla.controllers.job.model import Job
from hekla.controllers.job.patience import Endless, Patience, TakesTooLong
from hekla.errors import HeklaError

# Where the plugins are that come with Hekla.
_OURS = "hekla.controllers.job.plugins."
_ENDLESS = Endless()


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


@dataclass(frozen=True, slots=True)
class Configured:
    """A plugin as a Job configures it, with its arguments as they were understood (None: it takes none).

    What it raises is a refusal: it may be anybody's code, and the Job's user has to hear that it broke. One that did
    not come with Hekla is guarded as well (`guarded.py`).
    """

    name: str
    plugin: JobPlugin
    arguments: Arguments | None

    def shape_pod(self, pod: Obj, job: Job) -> None:
        with _refusing(self.name):
            self.plugin.shape_pod(pod, job)

    def objects(self, job: Job) -> list[Wanted]:
        with _refusing(self.name):
            return self.plugin.objects(job)


class UnknownPlugin(HeklaError):
    def __init__(self, name: str) -> None:
        super().__init__(f"failed to get plugin {name}")


class PluginRefused(HeklaError):
    """A plugin cannot work on this job; the text says why."""


def configured_plugins(job: Job, registered: Mapping[str, EntryPoint]) -> list[Configured]:
    """The plugins of a Job in the order in which they act. Raises UnknownPlugin and PluginRefused."""
    found, wrong = plugins_at_hand(job, registered)
    if wrong:
        raise wrong[0]
    return found


def plugins_at_hand(
    job: Job, registered: Mapping[str, EntryPoint], patience: Patience | Endless = _ENDLESS
) -> tuple[list[Configured], list[HeklaError]]:
    """Those that can be had, in the order in which they act, and what is wrong with the others."""
    given: dict[str, list[str] | None] = job.obj["spec"].get("plugins") or {}
    found: list[Configured] = []
    wrong: list[HeklaError] = []
    for name in in_order(given):
        try:
            found.append(_configured(name, given[name] or [], registered, patience))
        except HeklaError as error:
            wrong.append(error)
    return found, wrong


def recorded_plugins(
    job: Job, registered: Mapping[str, EntryPoint], patience: Patience | Endless = _ENDLESS
) -> list[str]:
    """The plugins of a Job that its status says are at work."""
    given = job.obj["spec"].get("plugins") or {}
    return [name for name in sorted(given) if name in registered and _records(name, registered[name], patience)]


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


def _configured(
    name: str, arguments: list[str], registered: Mapping[str, EntryPoint], patience: Patience | Endless
) -> Configured:
    point = registered.get(name)
    if point is None:
        raise UnknownPlugin(name)
    patience = _ENDLESS if point.value.startswith(_OURS) else patience
    with _refusing(name):
        with patience.calling(name, loading=True):
            factory: Callable[[Arguments], JobPlugin] = point.load()
        flags: tuple[Flag, ...] | None = getattr(factory, "flags", None)
        parsed = None if flags is None else parse_arguments(flags, arguments)
        with patience.calling(name):
            plugin = factory(parsed or Arguments())
        return Configured(name, plugin if point.value.startswith(_OURS) else _guarded(name, plugin, patience), parsed)


def _guarded(name: str, plugin: JobPlugin, patience: Patience | Endless) -> JobPlugin:
    # It is made of what is declared here.
    from hekla.controllers.job.guarded import Guarded

    return Guarded(name, plugin, patience)


def _records(name: str, point: EntryPoint, patience: Patience | Endless) -> bool:
    patience = _ENDLESS if point.value.startswith(_OURS) else patience
    with suppress(PluginRefused), _refusing(name), patience.calling(name, loading=True):
        return bool(getattr(point.load(), "records", True))
    # What cannot be loaded is told of when it is needed.
    return True


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    with refusing(f"plugin {name} broke"):
        try:
            yield
        except UnloadablePlugin as error:
            raise PluginRefused(f"plugin {name} cannot be loaded: {error}") from error
        except TakesTooLong as error:
            raise PluginRefused(f"plugin {name} {error}") from error


@contextmanager
def refusing(words: str) -> Iterator[None]:
    """Makes a refusal of anything a plugin's code raises: one that exits, or cancels, ends itself and nobody else."""
    try:
        yield
    except (PluginRefused, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginRefused(f"{words}: {type(error).__name__}: {error}") from error
