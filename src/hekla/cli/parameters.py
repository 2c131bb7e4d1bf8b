"""What several commands take: options in the same words, and kinds of values that click does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hekla.api.duration import InvalidDuration, parse_duration

_Function = TypeVar("_Function", bound=Callable[..., Any])

all_namespaces_option = click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
log_level_option = click.option(
    "--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]), help="What to log."
)


def output_option(*forms: str) -> Callable[[_Function], _Function]:
    """`-o`, one of the forms; the first where it is not given."""
    return click.option("-o", "--output", type=click.Choice(forms), default=forms[0], help="In which form to print it.")


class Duration(click.ParamType[float]):
    """Go's `500ms`, `1s`, `5m`, anything above zero; given in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(str(value))
        except InvalidDuration:
            self.fail(f"{value!r} is not a duration such as 500ms, 1s or 5m", param, ctx)
        if seconds <= 0:
            # What is done again and again would be done without a pause.
            self.fail(f"{value!r} is no time at all: it must be above zero", param, ctx)
        return seconds
