from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hekla.api.kinds import VOLCANO_KINDS
from hekla.client.kubeconfig import client_from_files
from tests.cluster.components import HEKLA
from tests.cluster.control_plane import ControlPlane, find_binaries, start_control_plane
from tests.eventually import eventually


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


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A Kubernetes of its own, for tests that compare what they find with what was recorded on an empty one."""
    binaries = find_binaries()
    if binaries is None:
        raise RuntimeError("set HEKLA_ENVTEST, or run `make test-cluster`, which builds what is needed")
    with start_control_plane(binaries, tmp_path_factory.mktemp("own-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def bare_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A kube-apiserver with our kinds and nothing that acts beside the scheduler."""
    binaries = find_binaries()
    if binaries is None:
        raise RuntimeError("set HEKLA_ENVTEST: the recordings want a server with nothing else on it")
    with start_control_plane(binaries, tmp_path_factory.mktemp("bare"), bare=True) as plane:
        subprocess.run(
            [HEKLA, "install", "--kubeconfig", plane.kubeconfig], check=True, timeout=180, capture_output=True
        )
        asyncio.run(_list_all(plane))
        listing = [plane.kubectl, "--kubeconfig", plane.kubeconfig, "get", "podgroups,queues", "-A"]
        eventually(lambda: not subprocess.run(listing, capture_output=True).returncode, what="our kinds are served")
        yield plane


async def _list_all(plane: ControlPlane) -> None:
    """What `hekla install` has promised: nobody need wait for the kinds it brought."""
    async with client_from_files([plane.kubeconfig]) as client:
        for kind in VOLCANO_KINDS:
            await client.list(kind)
