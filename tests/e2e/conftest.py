from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster, start_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One `hekla up` for the tests of a module that leave it as they found it."""
    with start_cluster(tmp_path_factory.mktemp("cluster") / "data") as running:
        yield running


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"
