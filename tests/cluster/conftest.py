from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane, find_binaries, start_control_plane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real Kubernetes: the one KUBECONFIG names, or one started from the built binaries."""
    if os.environ.get("KUBECONFIG"):
        yield ControlPlane(Path(os.environ["KUBECONFIG"]), None, Path("kubectl"))
        return
    binaries = find_binaries()
    if binaries is None:
        raise RuntimeError("set HEKLA_ENVTEST or KUBECONFIG, or run `make test-cluster`, which builds what is needed")
    with start_control_plane(binaries, tmp_path_factory.mktemp("control-plane")) as running:
        yield running
