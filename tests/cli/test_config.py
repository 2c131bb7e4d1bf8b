"""The configuration in force, printed: what is printed is read as the same configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hekla.cli.config import as_document
from hekla.cli.main import hekla, run_program
from hekla.scheduler.config import DEFAULT_CONFIG, parse_config

BUSY = """
actions: "enqueue, allocate, preempt, reclaim"
tiers:
- plugins:
  - name: priority
    enableTaskOrder: false
  - name: gang
    enablePreemptable: false
- plugins:
  - name: drf
    enableHierarchy: true
  - name: binpack
    arguments: {binpack.weight: 7, binpack.resources: "nvidia.com/gpu", binpack.resources.nvidia.com/gpu: 3}
  - name: nodeorder
    arguments: {leastrequested.weight: 0}
configurations:
- name: preempt
  arguments: {minCandidateNodesAbsolute: 20}
"""


@pytest.mark.parametrize("text", [DEFAULT_CONFIG, BUSY])
def test_what_is_shown_is_read_as_the_same(text: str) -> None:
    read = parse_config(text)
    assert parse_config(yaml.safe_dump(as_document(read))) == read


def test_defaults_are_filled_in_and_switches_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "conf.yaml"
    file.write_text(BUSY)
    assert run_program(hekla, ["config", "show", "--scheduler-conf", str(file)]) == 0
    first, second = yaml.safe_load(capsys.readouterr().out)["tiers"]
    assert first["plugins"][1] == {"name": "gang", "enablePreemptable": False}
    by_name = {plugin["name"]: plugin for plugin in second["plugins"]}
    assert by_name["drf"]["enableHierarchy"] is True
    assert by_name["nodeorder"]["arguments"]["leastrequested.weight"] == 0
    assert by_name["nodeorder"]["arguments"]["balancedresource.weight"] == 1


def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "conf.yaml"
    file.write_text(BUSY.replace("nodeorder", "nodeodor"))
    assert run_program(hekla, ["config", "show", "--scheduler-conf", str(file)]) == 1
    assert "tiers[1].plugins[2]: no plugin named 'nodeodor'" in capsys.readouterr().err
