"""The flags for logs that every command of upstream's has.

They are about logs that we do not write, and change nothing; scripts set them all the same.
"""

from __future__ import annotations

import click

_OF_LOGS = (("--log-flush-frequency",), ("-v", "--v"), ("--vmodule",))


def is_upstreams(ctx: click.Context) -> bool:
    """Whether the program was called by upstream's name."""
    return ctx.find_root().info_name == "vcctl"


class TakesLogFlags(click.Command):
    """A command that has these flags, where the program was called by upstream's name."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return [*params, *map(_hidden, _OF_LOGS)] if is_upstreams(ctx) else params


def _hidden(names: tuple[str, ...]) -> click.Option:
    return click.Option(names, hidden=True, expose_value=False)
