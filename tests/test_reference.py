"""What can be named in a manifest, a configuration or on a command line is on its page in docs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hekla.api.job_plugins import IMPLIED, flags_of, registered
from hekla.api.kinds import BUILT_IN_KINDS, VOLCANO_KINDS
from hekla.scheduler.config import DEFAULT_CONFIG, parse_config
from hekla.scheduler.registry import find_plugins

ROOT = Path(__file__).parent.parent


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def rows(text: str) -> list[list[str]]:
    """The cells of every table's line, without their backticks."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def as_written(default: object) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None else str(default)


def test_every_job_plugin_is_described_with_its_arguments_and_their_defaults() -> None:
    sections = dict(re.findall(r"^## `([\w-]+)`\n(.*?)(?=^## |\Z)", page("job-plugins.md"), re.MULTILINE | re.DOTALL))
    assert sections.keys() == registered().keys()
    for name, point in registered().items():
        declared = {flag.name: as_written(flag.default) for flag in flags_of(point.load()) or ()}
        assert {row[0]: row[1] for row in rows(sections[name]) if row[0] != "argument"} == declared
        for other in IMPLIED.get(name, ()):
            assert re.search(rf"Brings[^.]*`{other}`", sections[name])


def test_every_scheduler_plugin_and_argument_is_described_with_its_default() -> None:
    text = page("scheduler.md")
    plugins = text[text.index("## Plugins") : text.index("## Arguments")]
    assert {row[0] for row in rows(plugins)} - {"plugin"} == find_plugins(None).keys()
    told: dict[str, dict[str, str]] = {}
    plugin = ""
    for first, argument, default, _ in rows(text[text.index("## Arguments") :])[1:]:
        plugin = first or plugin
        told.setdefault(plugin, {})[argument] = default
    for name, load in find_plugins(None).items():
        declared = {argument: as_written(given.default) for argument, given in load().ARGUMENTS.items()}
        assert told.pop(name, {}) == declared
    assert not told


@pytest.mark.parametrize("action", ["enqueue", "allocate", "backfill", "preempt", "reclaim"])
def test_every_action_is_described(action: str) -> None:
    assert parse_config(f"actions: {action}\ntiers: []")
    assert f"\n| `{action}` | " in page("scheduler.md")


def test_the_configuration_without_a_file_is_the_one_shown() -> None:
    shown = "".join(f"    {line}\n" for line in DEFAULT_CONFIG.splitlines())
    assert shown in page("scheduler.md")


def test_every_kind_is_described() -> None:
    told = {(row[0], row[1]): row[2:4] for row in rows(page("kinds.md")) if row[0] != "kind"}
    served = {
        (kind.kind, kind.api_version): [" ".join(kind.short_names), "" if kind.namespaced else "cluster"]
        for kind in (*BUILT_IN_KINDS, *VOLCANO_KINDS)
    }
    assert told == served


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "scripts" / "commands-page"], capture_output=True, text=True, check=True
    ).stdout
    assert page("commands.md") == made, "run: .venv/bin/python scripts/commands-page > docs/commands.md"
    assert not re.findall(r"^\| `-.*\|  \|$", made, re.MULTILINE), "a flag without a word of help"


def test_a_queue_can_be_named_by_a_flag_and_the_page_says_so() -> None:
    sections = re.split(r"^### ", page("commands.md"), flags=re.MULTILINE)
    named = [part.split("`")[1] for part in sections if "| `-n`, `-N`, `--name` |" in part]
    verbs = ("create [NAME]", "get [NAME]", "operate [NAME]", "delete [NAME]...")
    assert named == [f"hekla queue {verb}" for verb in verbs]
