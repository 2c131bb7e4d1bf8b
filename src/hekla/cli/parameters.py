"""Kinds of command-line values that click does not know."""

from __future__ import annotations

import click

from hekla.api.duration import InvalidDuration, parse_duration


class Duration(click.ParamType[float]):
    """Go's `500ms`, `1s`, `5m`; given in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except InvalidDuration:
            self.fail(f"{value!r} is not a duration such as 500ms, 1s or 5m", param, ctx)
