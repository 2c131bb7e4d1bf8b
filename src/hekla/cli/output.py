"""Tables and documents on standard output, as kubectl prints them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from hekla.api.duration import human_duration

_LEAST_BESIDE = 32  # characters of a text that is read more easily there than below
_BELOW = " " * 4
_TEXT = "tag:yaml.org,2002:str"
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-_])")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, breaks_last: bool = False) -> None:
    """Left-aligned columns three blanks apart, or two where a terminal is narrow.

    `breaks_last`: what is last in a row is text, which such a terminal shows on several lines.
    """
    cells = [list(headers), *[[printable(" ".join(str(cell).split("\n"))) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    gap = " " * (2 if room and sum(widths) + 3 * (len(widths) - 1) > room else 3)
    for row in cells:
        line = gap.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        before = gap.join(cell.ljust(width) for cell, width in zip(row[:-1], widths)) + gap
        click.echo(_broken(before, row[-1], room) if breaks_last and room and len(line) > room else line)


def _broken(before: str, text: str, room: int) -> str:
    """A row of a table whose last cell has no room on its line: it goes on below itself, else below the others."""
    beside = room - len(before)
    if beside >= _LEAST_BESIDE:
        return before + f"\n{' ' * len(before)}".join(_lines(text, beside))
    return f"\n{_BELOW}".join([before.rstrip(), *_lines(text, room - len(_BELOW))])


def _lines(text: str, width: int) -> list[str]:
    """Broken between words; names stay whole where they can."""
    return textwrap.wrap(text, max(1, width), break_on_hyphens=False)


def print_document(document: Any, style: str, *, sort_keys: bool = False) -> None:
    if style == "json":
        click.echo(json.dumps(document, indent=2, sort_keys=sort_keys))
    else:
        click.echo(_yaml_text(document, sort_keys).rstrip())


def _yaml_text(document: Any, sort_keys: bool) -> str:
    """YAML in which text of several lines stands as it is, and what looks like something else is in double quotes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """A dumper of its own, so that nobody else's changes."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        resolve: Any = dumper.resolve
        plain = resolve(yaml.ScalarNode, text, (True, False)) == _TEXT
        return dumper.represent_scalar(_TEXT, text, style="|" if "\n" in text else None if plain else '"')

    Dumper.add_representer(str, represent)
    return yaml.dump(document, Dumper=Dumper, sort_keys=sort_keys, allow_unicode=True, width=1000)


def style(text: str, colour: str) -> str:
    """Coloured, unless the person asked for none."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)


def age(since: datetime | None, now: datetime) -> str:
    """`45s`, `3m12s`, `5h`, `2d`: how kubectl writes an age."""
    if since is None:
        return "<unknown>"
    return duration((now - since).total_seconds())


def duration(total: float) -> str:
    return human_duration(max(0, int(total)))


def printable(line: str) -> str:
    """A container's line without what could drive the terminal (colours go, too); tabs stay.

    Of a progress bar, written over and over with carriage returns, the last state is left, as on a terminal.
    """
    line = _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2]
    return "".join(c if c.isprintable() or c == "\t" else "�" for c in line)


def printable_lines(text: str) -> str:
    """The same of a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))
