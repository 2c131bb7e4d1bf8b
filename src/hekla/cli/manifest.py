"""Reading manifests from files: every object with the line each of its fields stands on.

The parser's events are walked with a budget for depth, aliases and size, so that a hostile or broken file is refused
and never takes the process down. A key given twice counts as its last value, as with kubectl, and is a warning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hekla.api.kinds import Obj
from hekla.api.meta import count_of
from hekla.cli.scalars import read_scalar
from hekla.errors import UsageError

_MAX_BYTES = 3 << 20
_MAX_DEPTH = 100
_MAX_NODES = 200_000
_SLASHES = re.compile(r"(^|[\s\"'])//")
_STAR = re.compile(r"(^|[:\-\[,])\s*\*($|[\s,\]])")
_COMMENT = re.compile(r"\s#.*")
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_LONG = re.compile(r"\S{400,}")
_SHOWN = 160  # characters of a line, or of a value
# Where people write texts that may hold anything; the last two parts of the path are looked at.
_FREE_TEXT = frozenset({"value", "annotations", "data", "stringData"})

FieldPath = tuple[str | int, ...]
Mistake = tuple[str, str]
"""The field's path as API servers write it, and what is wrong there."""


class BadFile(UsageError):
    """The file cannot be used; the text says where and why."""

    bad_file = True


@dataclass(slots=True)
class Document:
    obj: Obj
    file: str
    line: int  # from 1; 0 for what is in no file
    lines: dict[FieldPath, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def line_of(self, path: str) -> int:
        """The line of a field path as API servers write them (`spec.tasks[0].name`), or of its nearest parent."""
        parts = parse_field_path(path)
        while parts and parts not in self.lines:
            parts = parts[:-1]
        return self.lines.get(parts, self.line)


def read_manifest(source: str) -> list[Document]:
    """All documents of a file (`-`: standard input); empty ones are left out."""
    text = _read(source)
    source = "standard input" if source == "-" else source
    try:
        documents = list(_Composer(text, source).documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise BadFile(f"{where}: not valid YAML: {error.problem or error.context}{_remedy(text, mark)}") from None
    except yaml.YAMLError as error:
        raise BadFile(f"{source}: not valid YAML: {error}") from None
    if not documents:
        raise BadFile(f"{source}: holds no object")
    return documents


def locate(document: Document, path: str, message: str) -> str:
    """A mistake as a line that editors and people can follow."""
    line = document.line_of(path)
    where = f"{document.file}:{line}: " if line else f"{document.file}: "
    return shortened(f"{where}{path}: {message}" if path else where + message)


def shortened(message: str) -> str:
    """Without most of a value that nobody could read."""
    return _LONG.sub(lambda match: f"{match[0][:_SHOWN]}…", message)


def parse_field_path(path: str) -> FieldPath:
    parts: list[str | int] = []
    for part in path.replace("]", "").replace("[", ".").split("."):
        if part:
            number = count_of(part)
            parts.append(part if number is None else number)
    return tuple(parts)


def _read(source: str) -> str:
    try:
        if source == "-":
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise BadFile(f"{source}: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise BadFile(f"{source}: larger than {_MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{source}: not UTF-8 text (byte {error.start})") from None
    # JSON is YAML but for the characters it writes as two: Python's json does, and kubectl takes it.
    return _PAIR.sub(_as_one, text) if text.lstrip()[:1] == "{" else text


def _as_one(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return f"{pair[1]}\\U{0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00:08x}"


def _remedy(text: str, mark: yaml.Mark | None) -> str:
    """What to write instead, for mistakes people copy from guides. The parser may notice them a line late."""
    lines = text.splitlines()
    shown = _around(lines[mark.line], mark.column) if mark and mark.line < len(lines) else ""
    for number in (mark.line, mark.line - 1) if mark else ():
        whole = lines[number] if 0 <= number < len(lines) else ""
        line = whole.strip()
        if _STAR.search(_COMMENT.sub("", whole)):
            return '\n  a lone * starts an alias in YAML: write "*" in quotes'
        if line == "...":
            return f"\n  line {number + 1}: ... stands for something left out: write it, or remove the line"
        if _SLASHES.search(line):
            return f"\n  line {number + 1}: // does not start a comment in YAML: write #"
        if "\t" in whole[: len(whole) - len(whole.lstrip())]:
            return "\n  YAML does not allow tabs for indentation: use blanks"
    return f"\n  {shown}" if shown else ""


def _around(line: str, column: int) -> str:
    """The line, or of a long one what is about the place."""
    start = max(0, column - _SHOWN // 2) if len(line) > _SHOWN else 0
    end = start + _SHOWN
    return ("…" if start else "") + line[start:end].strip() + ("…" if line[end:] else "")


class _Composer:
    """Builds plain values from parser events, noting lines, within the budgets."""

    def __init__(self, text: str, source: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._source = source
        self._nodes = 0
        self._anchors: dict[str, Any] = {}
        self._lines: dict[FieldPath, int] = {}
        self._warnings: list[str] = []

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            self._anchors, self._lines, self._warnings = {}, {}, []
            first = next(self._events)
            line = first.start_mark.line + 1
            value = self._value(first, ())
            if value is None:
                continue
            if not isinstance(value, dict):
                raise BadFile(f"{self._source}:{line}: expected an object with apiVersion, kind and metadata")
            yield Document(value, self._source, line, self._lines, self._warnings)

    def _value(self, event: Any, path: FieldPath) -> Any:
        self._nodes += 1
        line = event.start_mark.line + 1
        if self._nodes > _MAX_NODES or len(path) > _MAX_DEPTH:
            raise BadFile(f"{self._source}:{line}: nested too deeply or too large")
        self._lines.setdefault(path, line)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, line)
        if isinstance(event, yaml.ScalarEvent):
            value: Any = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path)
        else:
            value = self._mapping(path)
        if getattr(event, "anchor", None):
            self._anchors[event.anchor] = value
        return value

    def _alias(self, event: yaml.AliasEvent, line: int) -> Any:
        if event.anchor not in self._anchors:
            raise BadFile(f"{self._source}:{line}: *{event.anchor} is not defined before this line")
        value = self._anchors[event.anchor]
        # An alias counts as much as what it stands for: aliases of aliases must not explode later.
        self._nodes += _size(value)
        return value

    def _scalar(self, event: Any) -> Any:
        try:
            return read_scalar(event.value, event.tag or "", plain=not event.style)
        except ValueError as error:
            raise BadFile(f"{self._source}:{event.start_mark.line + 1}: {error}") from None

    def _sequence(self, path: FieldPath) -> list[Any]:
        values: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            values.append(self._value(event, (*path, len(values))))
        return values

    def _mapping(self, path: FieldPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            line = event.start_mark.line + 1
            if not isinstance(event, yaml.ScalarEvent):
                raise BadFile(f"{self._source}:{line}: a key must be plain text")
            key = event.value
            if key in values:
                first = self._lines.get((*path, key), line)
                self._warnings.append(
                    f"{self._source}:{line}: {key!r} is given twice (first on line {first}); the last one counts"
                )
            self._lines[(*path, key)] = line
            following = next(self._events)
            if _looks_commented(following) and not _FREE_TEXT & {key, *path[-1:]}:
                self._warnings.append(
                    f"{self._source}:{line}: // does not start a comment in YAML, so all of it is the value: write #"
                )
            value = self._value(following, (*path, key))
            if key == "<<":
                values = {**self._merged(value, line), **values}
            else:
                values[key] = value
        return values

    def _merged(self, value: Any, line: int) -> dict[str, Any]:
        """What << brings: a mapping, or several, of which the first that has a key counts."""
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in several):
            raise BadFile(f"{self._source}:{line}: << takes a mapping, or a list of them: write <<: *name")
        return {key: held for each in reversed(several) for key, held in each.items()}


def _looks_commented(event: Any) -> bool:
    """Whether a value goes on after slashes that stand where a comment would: without quotes, after a blank."""
    plain = isinstance(event, yaml.ScalarEvent) and not event.style
    return plain and " //" in event.value


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(_size(item) for item in value.values())
    if isinstance(value, list):
        return 1 + sum(_size(item) for item in value)
    return 1
