"""Which cluster a command means, and what it says when there is none."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from hekla.api.kinds import POD
from hekla.cli.connection import ClusterOptions, NotRunning, with_client
from hekla.clock import SystemClock
from hekla.errors import UsageError
from hekla.local.credentials import ensure_credentials
from hekla.local.kubeconfigs import write_user_kubeconfig
from hekla.local.layout import Layout


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


def test_a_local_cluster_that_was_stopped_is_told_with_the_command_that_starts_it_again(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.prepare()
    credentials = ensure_credentials(layout.pki, clock=SystemClock(), rng=random.SystemRandom())
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        port = nobody_listens.getsockname()[1]
        write_user_kubeconfig(layout.kubeconfig, port=port, credentials=credentials, data_dir=layout.root)
        connection = ClusterOptions(None, tmp_path, "", "").connection()
        with pytest.raises(NotRunning) as told:
            with_client(connection, lambda client: client.list(POD, "default"))
    assert (
        str(told.value)
        == f"the cluster on {tmp_path} is not running: start it again with `hekla up --data-dir {tmp_path}`"
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
