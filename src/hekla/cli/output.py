"""Tables and documents on standard output, as kubectl prints them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Left-aligned columns three blanks apart."""
    cells = [list(headers), *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def print_document(document: Any, style: str) -> None:
    if style == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).rstrip())


def style(text: str, colour: str) -> str:
    """Coloured, unless the person asked for none."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)


def age(since: datetime | None, now: datetime) -> str:
    """`45s`, `3m12s`, `5h`, `2d`: how kubectl writes an age."""
    if since is None:
        return "<unknown>"
    return duration((now - since).total_seconds())


def duration(total: float) -> str:
    seconds = max(0, int(total))
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, rest = divmod(hours, 24)
    return f"{days}d{rest}h" if days < 8 and rest else f"{days}d"
