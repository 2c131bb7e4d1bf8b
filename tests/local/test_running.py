from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hekla.errors import UsageError
from hekla.local.cluster import stop_cluster
from hekla.local.layout import Layout
from hekla.local.running import inspect

HOLD = """
import sys
from pathlib import Path
from hekla.local.layout import Layout
from hekla.local.running import locked
with locked(Layout(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_who_holds_a_data_dir_is_named_before_it_has_written_of_itself(tmp_path: Path) -> None:
    Layout(tmp_path).run.mkdir(parents=True)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holding:
        assert holding.stdin is not None
        assert holding.stdout is not None
        assert holding.stdout.readline() == "held\n"
        found = inspect(tmp_path)
        assert found is not None
        assert (found.supervisor, found.holder) == (0, holding.pid)
        with pytest.raises(UsageError, match=f"still starting, or by `hekla node` .process {holding.pid}.: stop that"):
            stop_cluster(tmp_path)
        holding.stdin.close()
        holding.wait()
    assert inspect(tmp_path) is None
