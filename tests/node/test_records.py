from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hekla.node import records


def test_a_record_is_read_back_and_replaced_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "r.json")
    assert records.read(path) is None
    assert records.write(path, {"a": 1})
    assert records.write(path, {"b": 2})
    assert records.read(path) == {"b": 2}
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == 0o600


def test_only_the_first_of_two_claims_holds(tmp_path: Path) -> None:
    path = str(tmp_path / "started.json")
    assert records.write(path, {"who": "first"}, exclusive=True)
    assert not records.write(path, {"who": "second"}, exclusive=True)
    assert records.read(path) == {"who": "first"}


@given(cut=st.integers(0, 20))
def test_a_torn_record_counts_as_none(cut: int, tmp_path_factory: object) -> None:
    path = Path(tmp_path_factory.mktemp("r") / "r.json")  # type: ignore[attr-defined]
    path.write_bytes(b'{"code": 7, "reason":'[:cut])
    assert records.read(str(path)) is None


def test_a_process_is_known_by_more_than_its_number() -> None:
    process = subprocess.Popen(["sleep", "100"])
    named = records.process_id(process.pid)
    assert records.is_alive(named)
    assert not records.is_alive({**named, "start": named["start"] + 1})
    assert not records.is_alive({**named, "boot": "another"})
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not records.is_alive(named)
