"""Plugins of one's own: a file in a folder, or a package's entry point; the example works."""

from __future__ import annotations

from pathlib import Path

import pytest

from hekla.scheduler.config import ConfigError, parse_config, read_config
from hekla.scheduler.trial.miniature import Miniature

EXAMPLE = Path(__file__).parents[2] / "examples" / "scheduler-plugin"
ONE = "actions: allocate\ntiers: [{plugins: [{name: mine}]}]\n"


def test_the_example_keeps_pods_off_nodes_in_maintenance_and_says_so() -> None:
    world = Miniature(read_config(EXAMPLE / "scheduler.conf"))
    world.add({"queues": [{"name": "root"}, {"name": "default"}]})
    world.add({"nodes": [{"name": "n1", "labels": {"maintenance": "now"}}]})
    world.add({"groups": [{"name": "a", "min": 1, "pods": [{"cpu": 1}]}]})
    world.settle()
    assert world.message_of("a-t-0") == "0/1 nodes are unavailable: 1 node(s) were in maintenance."
    world.add({"nodes": [{"name": "n2", "labels": {"maintenance": "soon"}}, {"name": "n3"}]})
    world.settle()
    assert world.node_of("a-t-0") == "n3"


def test_an_installed_plugin_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_of_all.py").write_text(
        "from hekla.scheduler.extension import SchedulerPlugin\nclass Mine(SchedulerPlugin): pass\n"
    )
    metadata = tmp_path / "mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: mine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[hekla.scheduler_plugins]\nmine = mine_of_all:Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert parse_config(ONE).tiers[0][0].plugin.__name__ == "Mine"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def broken(:", "plugin 'mine' cannot be loaded: SyntaxError"),
        ("import nothing_of_that_name", "plugin 'mine' cannot be loaded: ModuleNotFoundError"),
        ("raise SystemExit(1)", "plugin 'mine' cannot be loaded: SystemExit: 1"),
        ("x = 1", "must define one SchedulerPlugin, not 0"),
    ],
)
def test_a_file_that_is_no_plugin_is_a_problem_of_the_configuration(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        parse_config(ONE, plugins_dir=tmp_path)


def test_its_arguments_are_checked() -> None:
    text = (EXAMPLE / "scheduler.conf").read_text().replace("maintenance.label: maintenance", "typo: 1")
    with pytest.raises(ConfigError, match=r"typo: unknown argument \(known: maintenance.label, maintenance.weight\)"):
        parse_config(text, plugins_dir=EXAMPLE / "plugins")


PICKY = """
from hekla.scheduler.extension import Argument, SchedulerPlugin

class Picky(SchedulerPlugin):
    ARGUMENTS = {"colour": Argument(str, "red", {"red": 1, "blue": 2}.__getitem__)}

    @classmethod
    def objections(cls, arguments):
        return [] if 6 / (arguments["colour"] != "blue") else ["impossible"]
"""


@pytest.mark.parametrize(
    ("colour", "problem"),
    [
        ("green", "arguments.colour: cannot be judged: KeyError: 'green'"),
        ("blue", "arguments: cannot be judged: ZeroDivisionError: division by zero"),
        ("5", "arguments.colour: must be text, not 5"),
    ],
)
def test_that_a_plugin_fails_over_its_arguments_is_one_problem(tmp_path: Path, colour: str, problem: str) -> None:
    (tmp_path / "mine.py").write_text(PICKY)
    with pytest.raises(ConfigError) as raised:
        parse_config(ONE.replace("mine", f"mine, arguments: {{colour: {colour}}}"), plugins_dir=tmp_path)
    assert raised.value.problems == (f"tiers[0].plugins[0].{problem}",)


FRIENDLESS = """
import numpy as np
from hekla.api.reasons import Reason
from hekla.scheduler.extension import NodeFilter, SchedulerPlugin
from hekla.scheduler.fit import Refusal

class Friendless(SchedulerPlugin, NodeFilter):
    def refusals(self, of):
        crowded = np.array([self.session.used[line].any() for line in range(len(self.session.used))])
        going = {pod.node for pod in self.session.leaving.values()}
        rows = self.session.snapshot.nodes.rows
        crowded &= np.array([row.name not in going for row in rows])
        return [Refusal("node(s) have company", Reason.NO_NODE_MATCHES, crowded, final=False)]
"""


def test_what_a_filter_says_may_depend_on_the_pods_placed_so_far(tmp_path: Path) -> None:
    (tmp_path / "friendless.py").write_text(FRIENDLESS)
    plugins = "[{name: gang}, {name: predicates}, {name: friendless}]"
    world = Miniature(parse_config(f"actions: allocate\ntiers: [{{plugins: {plugins}}}]", plugins_dir=tmp_path))
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1"}, {"name": "n2"}]})
    world.add({"groups": [{"name": "a", "min": 1, "cpu": 1, "pods": 3}]})
    world.settle()
    assert [world.node_of(f"a-t-{n}") for n in range(3)] == ["n1", "n2", None]


def test_a_filter_that_eviction_can_appease_is_appeased(tmp_path: Path) -> None:
    (tmp_path / "friendless.py").write_text(FRIENDLESS)
    plugins = "[{name: gang}, {name: priority}, {name: predicates}, {name: friendless}]"
    text = f'actions: "allocate, preempt"\ntiers: [{{plugins: {plugins}}}]'
    world = Miniature(parse_config(text, plugins_dir=tmp_path))
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 2}], "classes": {"high": 9}})
    world.add({"groups": [{"name": "low", "min": 0, "cpu": 1, "phase": "Running", "pods": [{"node": "n1"}]}]})
    world.add({"groups": [{"name": "high", "min": 1, "class": "high", "pods": [{"cpu": 1, "class": "high"}]}]})
    world.settle()
    assert list(world.evicted) == ["low-t-0"]
    assert world.node_of("high-t-0") == "n1"
