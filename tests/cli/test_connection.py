"""Which cluster a command means, and what it says when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from hekla.cli.connection import ClusterOptions
from hekla.errors import UsageError


def test_a_data_dir_on_the_command_line_comes_before_the_environments_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "other"))
    assert ClusterOptions(None, None, "", "").names_a_cluster()
    assert not ClusterOptions(None, tmp_path, "", "").names_a_cluster()
    assert ClusterOptions(tmp_path / "one", tmp_path, "", "").names_a_cluster()


def test_a_data_dir_without_a_cluster_is_told_with_the_command_that_starts_one_there(tmp_path: Path) -> None:
    folder = tmp_path / "my cluster"
    with pytest.raises(UsageError) as told:
        ClusterOptions(None, folder, "", "").connection()
    assert str(told.value) == (
        f"no cluster has been started on {folder}: start one with `hekla up --data-dir '{folder}'`, "
        "or name one with --kubeconfig"
    )


def test_a_component_in_a_pod_reaches_its_cluster_though_it_has_a_data_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a node keeps there is pods, not a cluster."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    try:
        said = ClusterOptions(None, tmp_path, "", "").connection().access.source
    except UsageError as error:
        # There is none outside of pods; but it was looked for.
        said = str(error)
    assert "serviceaccount" in said
