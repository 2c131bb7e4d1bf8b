"""The flags that every command of upstream's has, and what it prints of a group of commands: `vcctl job`.

They are about logs that we do not write, and change nothing; scripts set them all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

# What upstream says of the commands that people know from it; of the others our own words stand there.
_TITLES: Mapping[str, str] = {"job": "vcctl command line operation job"}
_WORDS: Mapping[str, Mapping[str, str]] = {
    "job": {
        "delete": "delete a job",
        "list": "list job information",
        "resume": "resume a job",
        "run": "run job by parameters from the command line",
        "suspend": "abort a job",
        "view": "show job information",
    }
}
_OF_LOGS = (("--log-flush-frequency",), ("-v", "--v"), ("--vmodule",))
_HELP = """\
{title}

Usage:
  {path} [command]

Available Commands:
{commands}

Flags:
  -h, --help   help for {name}

Global Flags:
      --log-flush-frequency duration   Maximum number of seconds between log flushes (default 5s)
  -v, --v Level                        number for the log level verbosity
      --vmodule moduleSpec             comma-separated list of pattern=N settings for file-filtered logging \
(only works for the default text log format)

Use "{path} [command] --help" for more information about a command."""


def is_upstreams(ctx: click.Context) -> bool:
    """Whether the program was called by upstream's name."""
    return ctx.find_root().info_name == "vcctl"


class TakesLogFlags(click.Command):
    """A command that has upstream's flags for logs, where it is called by upstream's name."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return [*params, *map(_hidden, _OF_LOGS)] if is_upstreams(ctx) else params


def group_help(group: click.Group, ctx: click.Context) -> str:
    name = group.name or ""
    words = {verb: command.get_short_help_str(100) for verb, command in group.commands.items()}
    words |= _WORDS.get(name, {})
    return _HELP.format(
        title=_TITLES.get(name) or group.get_short_help_str(100),
        path=ctx.command_path,
        commands="\n".join(f"  {verb:<11} {text}" for verb, text in sorted(words.items())),
        name=name,
    )


def _hidden(names: tuple[str, ...]) -> click.Option:
    return click.Option(names, hidden=True, expose_value=False)
