"""Tables and documents on standard output, as kubectl prints them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from hekla.api.duration import human_duration

_TEXT = "tag:yaml.org,2002:str"
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-_])")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Left-aligned columns three blanks apart."""
    cells = [list(headers), *[[printable(" ".join(str(cell).split("\n"))) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


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
