"""`hekla config show`: the scheduler's configuration as it is in force, with everything that was left to defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hekla.cli.connection import ClusterOptions, cluster_options
from hekla.cli.output import print_document
from hekla.cli.parameters import output_option
from hekla.cli.rehearse import effective_config, scheduler_conf_option
from hekla.scheduler.config import OFF_BY_DEFAULT, SWITCHES, Config, PluginEntry


@click.group()
def config() -> None:
    """Look at configuration."""


@config.command()
@cluster_options
@scheduler_conf_option
@output_option("yaml", "json")
def show(cluster: ClusterOptions, scheduler_conf: Path | None, output: str) -> None:
    """Print the scheduler's configuration in force, defaults filled in; a file that is wrong is refused.

    \b
    Example:  hekla config show --scheduler-conf conf.yaml
    """
    print_document(as_document(effective_config(cluster, scheduler_conf)), output)


def as_document(found: Config) -> dict[str, Any]:
    """What, written to a file, is read as the same configuration."""
    document: dict[str, Any] = {
        "actions": ", ".join(found.action_names),
        "tiers": [{"plugins": [_entry(entry) for entry in tier]} for tier in found.tiers],
    }
    if found.action_arguments:
        document["configurations"] = [
            {"name": name, "arguments": dict(arguments)} for name, arguments in found.action_arguments.items()
        ]
    return document


def _entry(entry: PluginEntry) -> dict[str, Any]:
    arguments = {
        name: value for name, value in entry.arguments.items() if name not in entry.plugin.OPTIONS and value is not None
    }
    switches = {
        switch: switch not in entry.off for switch in SWITCHES if (switch in entry.off) != (switch in OFF_BY_DEFAULT)
    }
    return {"name": entry.name, **switches, **({"arguments": arguments} if arguments else {})}
