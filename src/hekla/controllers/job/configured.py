"""The plugins of a Job as it configures them: found, opened, and kept from harming anybody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from hekla.api.job_plugins import Arguments, Flag, UnloadablePlugin, in_order, is_ours, parse_arguments
from hekla.api.kinds import Obj
from hekla.controllers.job.guarded import Guarded
from hekla.controllers.job.model import Job
from hekla.controllers.job.patience import Endless, Patience, TakesTooLong
from hekla.controllers.job.plugin import JobPlugin, PluginRefused, Wanted, refusing
from hekla.errors import HeklaError

_ENDLESS = Endless()


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


def _configured(
    name: str, arguments: list[str], registered: Mapping[str, EntryPoint], patience: Patience | Endless
) -> Configured:
    point = registered.get(name)
    if point is None:
        raise UnknownPlugin(name)
    patience = _ENDLESS if is_ours(point) else patience
    with _refusing(name):
        with patience.calling(name, loading=True):
            factory: Callable[[Arguments], JobPlugin] = point.load()
        flags: tuple[Flag, ...] | None = getattr(factory, "flags", None)
        parsed = None if flags is None else parse_arguments(flags, arguments)
        with patience.calling(name):
            plugin = factory(parsed or Arguments())
        return Configured(name, plugin if is_ours(point) else Guarded(name, plugin, patience), parsed)


def _records(name: str, point: EntryPoint, patience: Patience | Endless) -> bool:
    patience = _ENDLESS if is_ours(point) else patience
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
