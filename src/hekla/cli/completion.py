"""Completion of commands and flags in the person's shell."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete commands and flags.

    \b
    Example:  source <(hekla completion bash)     # or put it into ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    program = root.info_name or "hekla"
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(root.command, {}, program, f"_{program.upper()}_COMPLETE").source())
