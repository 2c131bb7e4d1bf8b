"""Facts about job plugins that admission and the job controller share: which exist, what they imply, their arguments.

Plugins are found through the entry point group `hekla.job_plugins`; a plugin's class declares its `flags`. The
arguments of a plugin follow the grammar of Go's flag package, because that is what people's manifests are written
for: parsing stops at the first mistake and what came before it stays in force. Mistakes are returned, to be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hekla.errors import HeklaError

GROUP = "hekla.job_plugins"
# The order in which plugins shape a pod; what is not listed follows by name.
ORDER = ("env", "svc", "ssh", "tensorflow", "mpi", "pytorch", "ray", "hcclrank")
# Enabling the first enables the others, as their work depends on them.
IMPLIED: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("svc",),
    "mpi": ("svc", "ssh"),
    "pytorch": ("svc",),
    "ray": ("svc",),
}

DEFAULT_SSH_PORT = 22

FlagValue = str | int | bool
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER = re.compile(r"[+-]?(0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO]?(_?[0-7])+|0|[1-9](_?[0-9])*)")
_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Flag:
    """An argument a plugin takes; the type of the default is the type of the flag."""

    name: str
    default: FlagValue
    help: str = ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Every flag's value, and what was wrong with the list (empty when nothing was)."""

    values: Mapping[str, FlagValue] = field(default_factory=dict)
    problem: str = ""

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    def switch(self, name: str) -> bool:
        return bool(self.values[name])


# Where the plugins are that come with Hekla.
_OURS = "hekla.controllers.job.plugins."


class _Ambiguous(EntryPoint):
    """A name under which several plugins are installed: none of them is taken, as nobody knows which was meant."""

    def load(self) -> Any:
        raise UnloadablePlugin(f"several are installed under this name, {self.value}: uninstall all but one")


def registered() -> dict[str, EntryPoint]:
    """Every installed job plugin by name, none of them loaded yet."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, {}).setdefault(point.value, point)
    return {name: _only(name, points) for name, points in found.items()}


def is_ours(point: EntryPoint) -> bool:
    return point.value.startswith(_OURS)


def runs_others_code(point: EntryPoint) -> bool:
    """Whether to load it is to run what did not come with Hekla."""
    return not is_ours(point) and not isinstance(point, _Ambiguous)


def flags_of(plugin: Any) -> tuple[Flag, ...] | None:
    """The flags a plugin class declares; None means it takes any arguments and ignores them."""
    flags: tuple[Flag, ...] | None = getattr(plugin, "flags", None)
    return flags


class UnloadablePlugin(HeklaError):
    """What is installed under a plugin's name cannot be loaded; the text says why."""


def load_flags(point: EntryPoint) -> tuple[Flag, ...] | None:
    """`flags_of` an installed plugin. Raises UnloadablePlugin, whatever its author's code raises."""
    try:
        flags = flags_of(point.load())
        wrong = [flag for flag in flags or () if not isinstance(flag, Flag)]
    except (UnloadablePlugin, KeyboardInterrupt):
        raise
    except BaseException as error:
        # A module may exit when it is imported; that is its own end only.
        raise UnloadablePlugin(f"{type(error).__name__}: {error}") from error
    if wrong:
        raise UnloadablePlugin(f"its flags are not of type Flag: {wrong[0]!r}")
    return flags


def in_order(names: Iterable[str]) -> list[str]:
    """Plugin names in the order in which they act."""
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def is_port(number: int) -> bool:
    return 0 < number < 65536


def ssh_port(ssh: Arguments) -> int:
    """The port that the pods' sshd is looked for at: 22, where the one that was given is none."""
    given = ssh.number("ssh-port")
    return given if is_port(given) else DEFAULT_SSH_PORT


def parse_arguments(flags: Sequence[Flag], arguments: Sequence[str]) -> Arguments:
    """Read an argument list as Go's flag package does."""
    known = {flag.name: flag for flag in flags}
    values: dict[str, FlagValue] = {flag.name: flag.default for flag in flags}
    position = 0
    while position < len(arguments):
        element = arguments[position]
        position += 1
        if len(element) < 2 or not element.startswith("-"):
            return Arguments(values, f"unexpected argument {element!r}: it and what follows is ignored")
        if element == "--":
            if position < len(arguments):
                return Arguments(values, "what follows -- is ignored")
            return Arguments(values)
        body = element[2:] if element.startswith("--") else element[1:]
        if body[:1] in ("", "-", "="):
            return Arguments(values, f"bad flag syntax: {element}")
        name, equals, value = body.partition("=")
        flag = known.get(name)
        if flag is None:
            return Arguments(values, _unknown(name))
        if isinstance(flag.default, bool):
            if not equals:
                value = "true"
        elif not equals:
            if position == len(arguments):
                return Arguments(values, f"flag needs an argument: -{name}")
            value = arguments[position]
            position += 1
        # parity: a value that does not convert leaves the zero value (0, false), not the default.
        values[name], problem = _convert(flag, value)
        if problem:
            return Arguments(values, problem)
    return Arguments(values)


def _only(name: str, points: Mapping[str, EntryPoint]) -> EntryPoint:
    if len(points) == 1:
        return next(iter(points.values()))
    sources = sorted(f"{value} by {_package(point)}" for value, point in points.items())
    return _Ambiguous(name, " and ".join(sources), GROUP)


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "a package of no name"


def _unknown(name: str) -> str:
    if name in ("h", "help"):
        return "flag: help requested"
    return f"flag provided but not defined: -{name}"


def _convert(flag: Flag, value: str) -> tuple[FlagValue, str]:
    if isinstance(flag.default, bool):
        if value in _TRUE or value in _FALSE:
            return value in _TRUE, ""
        return False, f'invalid boolean value "{value}" for -{flag.name}: parse error'
    if isinstance(flag.default, int):
        return _convert_integer(flag, value)
    return value, ""


def _convert_integer(flag: Flag, value: str) -> tuple[int, str]:
    if not _INTEGER.fullmatch(value):
        return 0, f'invalid value "{value}" for flag -{flag.name}: parse error'
    number = _magnitude(value.lstrip("+-").replace("_", ""))
    number = -number if value.startswith("-") else number
    if not -_INT64 <= number < _INT64:
        return (
            max(-_INT64, min(number, _INT64 - 1)),
            f'invalid value "{value}" for flag -{flag.name}: value out of range',
        )
    return number, ""


def _magnitude(digits: str) -> int:
    if not digits.startswith("0"):
        # Twenty digits are out of range whatever follows, and Python refuses to read thousands.
        return int(digits[:20])
    return int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
