"""The configuration in force, printed: what is printed is read as the same configuration."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from hekla.cli.config import as_document
from hekla.cli.connection import ClusterOptions
from hekla.cli.main import hekla, run_program
from hekla.clock import SystemClock
from hekla.local.credentials import ensure_credentials
from hekla.local.kubeconfigs import write_user_kubeconfig
from hekla.local.layout import Layout
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


def local_cluster(tmp_path: Path) -> Layout:
    """The files of one whose scheduler uses BUSY."""
    layout, file = Layout(tmp_path / "data"), tmp_path / "conf.yaml"
    layout.prepare()
    credentials = ensure_credentials(layout.pki, clock=SystemClock(), rng=random.Random(1))
    write_user_kubeconfig(layout.kubeconfig, port=1, credentials=credentials, data_dir=layout.root)
    file.write_text(BUSY)
    layout.scheduler_conf.write_text(f"{file}\n")
    return layout


@pytest.mark.parametrize("copied", [True, False])
def test_the_configuration_is_that_of_the_cluster_whose_kubeconfig_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], copied: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    layout, copy = local_cluster(tmp_path), tmp_path / "copy"
    copy.write_bytes(layout.kubeconfig.read_bytes())
    monkeypatch.setenv("KUBECONFIG", str(copy if copied else layout.kubeconfig))
    assert ClusterOptions(None, None, "", "").connection().local_layout() == layout
    assert run_program(hekla, ["config", "show"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == as_document(parse_config(BUSY))


def test_a_cluster_that_is_gone_from_here_is_looked_at_with_the_built_in_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster: dict[str, Any] = {"server": "https://127.0.0.1:1"}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    for extension in ({}, {"dataDir": str(tmp_path / "gone")}, {"dataDir": 5}, None, "odd"):
        cluster["extensions"] = [{"name": "hekla.dev/local-cluster", "extension": extension}]
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        assert run_program(hekla, ["config", "show"]) == 0
        assert yaml.safe_load(capsys.readouterr().out) == as_document(parse_config(DEFAULT_CONFIG))


def test_at_another_address_there_is_another_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["config", "show", "--data-dir", str(local_cluster(tmp_path).root)]
    for address, expected in (([], BUSY), (["-s", "https://another:6443"], DEFAULT_CONFIG)):
        assert run_program(hekla, [*command, *address]) == 0
        assert yaml.safe_load(capsys.readouterr().out) == as_document(parse_config(expected))


def test_before_a_data_dir_has_its_cluster_the_built_in_configuration_is_the_one_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(hekla, ["config", "show", "--data-dir", str(tmp_path / "new")]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == as_document(parse_config(DEFAULT_CONFIG))


def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "conf.yaml"
    file.write_text(BUSY.replace("nodeorder", "nodeodor"))
    assert run_program(hekla, ["config", "show", "--scheduler-conf", str(file)]) == 1
    assert "tiers[1].plugins[2]: no plugin named 'nodeodor'" in capsys.readouterr().err
