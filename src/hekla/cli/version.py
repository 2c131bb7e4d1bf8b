"""`hekla version`, and `vcctl version`: which Hekla this is."""

from __future__ import annotations

import platform

import click

from hekla import __version__
from hekla.cli.log_flags import TakesLogFlags


@click.command(cls=TakesLogFlags)
def version() -> None:
    """Print the version.

    \b
    Example:  hekla version
    """
    click.echo(f"Version: {__version__}\nPython Version: {platform.python_version()}")
