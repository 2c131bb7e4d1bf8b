"""What vcctl says of a command line that is wrong: upstream's words for what click has found."""

from __future__ import annotations

from ast import literal_eval

import click

# What click says after the word in question, as Python writes it, and what Go calls the reading of such words.
_READ = {" is not a valid integer.": "ParseInt", " is not a valid boolean.": "ParseBool"}


def asked_for_help(error: click.ClickException) -> str:
    """The help of a group that was given a verb it does not know; empty for everything else."""
    # parity: only the program itself minds a word it does not know.
    context = error.ctx if isinstance(error, click.UsageError) else None
    unknown = context is not None and isinstance(context.command, click.Group) and context.parent is not None
    return context.get_help() if context is not None and unknown and "No such command" in error.message else ""


def in_upstreams_words(error: click.ClickException) -> str:
    match error:
        case click.NoSuchOption(option_name=flag):
            return f"unknown flag: {flag}" if flag.startswith("--") else f"unknown shorthand flag: {_short(flag)}"
        case click.BadOptionUsage(option_name=flag) if "requires an argument" in error.message:
            return f"flag needs an argument: {flag if flag.startswith('--') else _short(flag)}"
        case click.BadParameter(param=click.Option() as option) if error.message.endswith(tuple(_READ)):
            said = next(said for said in _READ if error.message.endswith(said))
            given = literal_eval(error.message.removesuffix(said))
            fault = f'strconv.{_READ[said]}: parsing "{given}": invalid syntax'
            return f'invalid argument "{given}" for "{", ".join(_flags(option))}" flag: {fault}'
    return error.format_message()


def _short(flag: str) -> str:
    return f"'{flag[1:2]}' in {flag}"


def _flags(option: click.Option) -> list[str]:
    """The first short name and the long one."""
    short = [name for name in option.opts if not name.startswith("--")]
    return [*short[:1], *[name for name in option.opts if name.startswith("--")]]
