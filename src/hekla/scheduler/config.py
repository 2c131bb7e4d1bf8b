"""Upstream's scheduler configuration file: actions, tiers of plugins with their switches, arguments.

Read strictly: every mistake in the file is reported at once, with its place, and nothing is silently ignored. What
upstream has and we have not yet is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hekla.errors import UsageError
from hekla.scheduler.actions import allocate, backfill, enqueue, preempt, reclaim
from hekla.scheduler.blame import FAILURES
from hekla.scheduler.configtext import read_document
from hekla.scheduler.extension import HIERARCHY, Argument, SchedulerPlugin
from hekla.scheduler.registry import find_plugins
from hekla.scheduler.session import Session
from hekla.scheduler.tiers import Tiers

DEFAULT_CONFIG = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
# What a cluster needs whose nodes share their cards.
CARD_SHARING_CONFIG = f"""\
{DEFAULT_CONFIG}\
  - name: deviceshare
    arguments:
      deviceshare.GPUSharingEnable: true
"""

_ACTIONS = {
    "enqueue": enqueue.execute,
    "allocate": allocate.execute,
    "backfill": backfill.execute,
    "preempt": preempt.execute,
    "reclaim": reclaim.execute,
}
_UPSTREAM_ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle", "gangpreempt", "gangreclaim")
_UPSTREAM_PLUGINS = (
    "gang", "priority", "conformance", "overcommit", "drf", "proportion", "capacity", "predicates", "nodeorder",
    "binpack", "sla", "tdm", "task-topology", "nodegroup", "numa-aware", "resourcequota", "pdb", "cdp", "usage",
    "extender", "rescheduling", "deviceshare", "network-topology-aware", "resource-strategy-fit",
)  # fmt: skip
OFF_BY_DEFAULT = (HIERARCHY, "enabledClusterOrder")
SWITCHES = (
    "enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined", "enableTaskOrder",
    "enablePreemptable", "enableReclaimable", "enablePreemptive", "enableQueueOrder", "enabledClusterOrder",
    "enablePredicate", "enableBestNode", "enableNodeOrder", "enableTargetJob", "enableReservedNodes",
    "enableJobEnqueued", "enabledVictim", "enableJobStarving", "enabledOverused", "enabledAllocatable",
    "enabledHyperNodeOrder", "enabledSubJobReady", "enabledSubJobPipelined", "enabledSubJobOrder",
    "enabledHyperNodeGradient",
)  # fmt: skip
_ACTION_ARGUMENTS: Mapping[str, Mapping[str, type]] = {
    "allocate": {"predicateErrorCacheEnable": bool},
    "preempt": {
        "predicateErrorCacheEnable": bool,
        "enableTopologyAwarePreemption": bool,
        "topologyAwarePreemptWorkerNum": int,
        "minCandidateNodesPercentage": int,
        "minCandidateNodesAbsolute": int,
        "maxCandidateNodesAbsolute": int,
    },
}
_LARGEST = 1e9
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


class _Execute(Protocol):
    def __call__(self, session: Session, tiers: Tiers) -> None: ...


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    execute: _Execute


@dataclass(frozen=True, slots=True)
class PluginEntry:
    name: str
    plugin: type[SchedulerPlugin]
    arguments: Mapping[str, Any]
    off: frozenset[str] = frozenset(OFF_BY_DEFAULT)


@dataclass(frozen=True, slots=True)
class Config:
    actions: tuple[Action, ...]
    tiers: tuple[tuple[PluginEntry, ...], ...]
    action_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(action.name for action in self.actions)


class ConfigError(UsageError):
    """The file cannot be used; `problems` lists everything wrong with it."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))
        self.problems = tuple(problems)


def default_config() -> Config:
    return parse_config(DEFAULT_CONFIG, source="built-in configuration")


def read_config(path: Path, plugins_dir: Path | None = None) -> Config:
    """A configuration file; plugins of its own are in the folder given, else in `plugins` beside the file."""
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise ConfigError(str(path), ["not text in UTF-8"]) from None
    return parse_config(text, source=str(path), plugins_dir=plugins_dir or path.parent / "plugins")


def parse_config(text: str, *, source: str = "scheduler configuration", plugins_dir: Path | None = None) -> Config:
    document, faults = read_document(text)
    if document is None and faults:
        raise ConfigError(source, faults)
    reader = _Reader(plugins_dir)
    config = reader.config(document)
    if faults or reader.problems:
        raise ConfigError(source, [*faults, *reader.problems])
    return config


class _Reader:
    """Collects every problem instead of stopping at the first."""

    def __init__(self, plugins_dir: Path | None) -> None:
        self.problems: list[str] = []
        self._available = find_plugins(plugins_dir)

    def config(self, document: Any) -> Config:
        if not isinstance(document, dict):
            self.problems.append("must be a mapping with `actions` and `tiers`")
            return Config((), ())
        self._known("", document, ("actions", "tiers", "configurations", "metrics"))
        if document.get("metrics"):
            self.problems.append("metrics: sources of usage figures are not supported yet")
        return Config(
            actions=self._actions(document.get("actions")),
            tiers=self._tiers(document.get("tiers")),
            action_arguments=self._configurations(document.get("configurations")),
        )

    def _actions(self, text: Any) -> tuple[Action, ...]:
        if not isinstance(text, str):
            self.problems.append("actions: must be names separated by commas")
            return ()
        found = []
        for name in (part.strip() for part in text.split(",")):
            if name in _ACTIONS:
                found.append(Action(name, _ACTIONS[name]))
            elif name:
                self.problems.append(f"actions: {_unknown('action', name, _UPSTREAM_ACTIONS, _ACTIONS)}")
        if not text.strip(" ,"):
            self.problems.append("actions: names none, so nothing would ever be scheduled")
        return tuple(found)

    def _tiers(self, tiers: Any) -> tuple[tuple[PluginEntry, ...], ...]:
        if not isinstance(tiers, list):
            self.problems.append("tiers: must be a list of tiers")
            return ()
        found = []
        for number, tier in enumerate(tiers):
            place = f"tiers[{number}]"
            plugins = tier.get("plugins") if isinstance(tier, dict) else None
            if not isinstance(plugins, list):
                self.problems.append(f"{place}: must have a list `plugins`")
                continue
            self._known(place, tier, ("plugins",))
            entries = [self._plugin(f"{place}.plugins[{index}]", entry) for index, entry in enumerate(plugins)]
            found.append(tuple(entry for entry in entries if entry is not None))
            self._check_together(place, found[-1])
        return tuple(found)

    def _check_together(self, place: str, tier: Sequence[PluginEntry]) -> None:
        names = {entry.name for entry in tier}
        if "proportion" in names and any(entry.name == "drf" and HIERARCHY not in entry.off for entry in tier):
            self.problems.append(f"{place}: proportion and drf with {HIERARCHY} may not share a tier")

    def _plugin(self, place: str, entry: Any) -> PluginEntry | None:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            self.problems.append(f"{place}: must have a `name`")
            return None
        name = entry["name"]
        self._known(place, entry, ("name", "arguments", *SWITCHES))
        off = self._switches(place, entry)
        if name not in self._available:
            self.problems.append(f"{place}: {_unknown('plugin', name, _UPSTREAM_PLUGINS, self._available)}")
            return None
        plugin = self._load(place, name)
        if plugin is None:
            return None
        declared: Any = plugin.ARGUMENTS
        if not isinstance(declared, Mapping) or not all(isinstance(each, Argument) for each in declared.values()):
            self.problems.append(f"{place}: plugin {name!r} cannot be used: its ARGUMENTS must map names to Argument")
            return None
        for switch in OFF_BY_DEFAULT:
            if switch not in off and switch not in plugin.OPTIONS:
                self.problems.append(f"{place}.{switch}: {name} does not support this")
        known = len(self.problems)
        arguments = self._arguments(f"{place}.arguments", entry.get("arguments"), plugin)
        if len(self.problems) == known:
            self._check_all(f"{place}.arguments", plugin, arguments)
        return PluginEntry(name, plugin, {**arguments, **{name: name not in off for name in plugin.OPTIONS}}, off)

    def _load(self, place: str, name: str) -> type[SchedulerPlugin] | None:
        try:
            return self._available[name]()
        except FAILURES as error:
            # Somebody else's file: whatever is wrong with it is a problem of the configuration that names it.
            self.problems.append(f"{place}: plugin {name!r} cannot be loaded: {type(error).__name__}: {error}")
            return None

    def _switches(self, place: str, entry: Mapping[str, Any]) -> frozenset[str]:
        off = set(OFF_BY_DEFAULT)
        for switch in SWITCHES:
            value = entry.get(switch)
            if value is None:
                continue
            if not isinstance(value, bool):
                self.problems.append(f"{place}.{switch}: must be true or false")
            elif not value:
                off.add(switch)
            elif switch in OFF_BY_DEFAULT:
                off.discard(switch)
        return frozenset(off)

    def _arguments(self, place: str, given: Any, plugin: type[SchedulerPlugin]) -> Mapping[str, Any]:
        arguments = {name: argument.default for name, argument in plugin.ARGUMENTS.items()}
        if given is None:
            return arguments
        if not isinstance(given, dict):
            self.problems.append(f"{place}: must be a mapping")
            return arguments
        for name, value in given.items():
            declared = plugin.ARGUMENTS.get(name)
            prefixed = plugin.ARGUMENT_PREFIX and str(name).startswith(plugin.ARGUMENT_PREFIX)
            if declared is None and not prefixed:
                known = ", ".join(plugin.ARGUMENTS) or "none"
                self.problems.append(f"{place}.{name}: unknown argument (known: {known})")
                continue
            arguments[name] = self._value(f"{place}.{name}", value, declared.type if declared else float)
            if arguments[name] is not None and declared is not None and declared.check is not None:
                self._check(f"{place}.{name}", declared.check, arguments[name])
        return arguments

    def _configurations(self, given: Any) -> Mapping[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        if given is None:
            return found
        if not isinstance(given, list):
            self.problems.append("configurations: must be a list")
            return found
        for index, entry in enumerate(given):
            place = f"configurations[{index}]"
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or name not in _ACTIONS:
                said = _unknown("action", name, _UPSTREAM_ACTIONS, _ACTIONS) if isinstance(name, str) else ""
                self.problems.append(f"{place}: {said or '`name` must be an action'}")
                continue
            known = _ACTION_ARGUMENTS.get(str(name), {})
            self._known(place, entry, ("name", "arguments"))
            arguments = entry.get("arguments") or {}
            if not isinstance(arguments, dict):
                self.problems.append(f"{place}.arguments: must be a mapping")
                continue
            self._known(f"{place}.arguments", arguments, tuple(known))
            found[str(name)] = {
                key: self._value(f"{place}.arguments.{key}", value, known[key])
                for key, value in arguments.items()
                if key in known
            }
            if found[str(name)].get("enableTopologyAwarePreemption"):
                self.problems.append(f"{place}.arguments.enableTopologyAwarePreemption: not supported yet")
        return found

    def _value(self, place: str, value: Any, wanted: type) -> Any:
        if wanted is bool and isinstance(value, str) and value in _TRUE + _FALSE:
            return value in _TRUE
        if wanted is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST:
            return float(value)
        if isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
            if isinstance(value, int | float) and not abs(value) <= _LARGEST:
                self.problems.append(f"{place}: {value!r} is no number to reckon with")
            return value
        self.problems.append(f"{place}: must be {_TYPE_NAMES[wanted]}, not {value!r}")
        return None

    def _check(self, place: str, check: Callable[[Any], object], value: Any) -> None:
        try:
            check(value)
        except (ValueError, TypeError) as error:
            self.problems.append(f"{place}: {error}")
        except FAILURES as error:
            # Somebody else's code again, and it has to say what it thinks of the value.
            self.problems.append(f"{place}: cannot be judged: {type(error).__name__}: {error}")

    def _check_all(self, place: str, plugin: type[SchedulerPlugin], arguments: Mapping[str, Any]) -> None:
        try:
            self.problems += [f"{place}: {problem}" for problem in plugin.objections(arguments)]
        except FAILURES as error:
            self.problems.append(f"{place}: cannot be judged: {type(error).__name__}: {error}")

    def _known(self, place: str, mapping: Mapping[str, Any], names: Sequence[str]) -> None:
        for name in mapping:
            if name not in names:
                self.problems.append(f"{place}{'.' if place else ''}{name}: unknown field")


_TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


def _unknown(what: str, name: str, upstream: Sequence[str], ours: Mapping[str, Any]) -> str:
    if name in upstream:
        return f"{what} {name!r} is not supported yet (supported: {', '.join(sorted(ours))})"
    return f"no {what} named {name!r} (known: {', '.join(sorted(ours))})"
