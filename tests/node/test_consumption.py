"""What the processes of containers use, as the kernel tells it while they run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hekla.node import records
from hekla.node.consumption import Consumption, as_metrics, consumption
from hekla.node.directory import PodDirectory

LARGE = "x = bytearray(100 << 20)"
BUSY = "import time\nwhile time.process_time() < 0.5: pass"
SAY_SO_AND_STAY = "print(flush=True); input()"


@contextmanager
def running(folder: Path, uid: str, command: str, *, node: str = "n1") -> Iterator[subprocess.Popen[str]]:
    """A container of pod `uid` whose process has done its command, and waits."""
    directory = PodDirectory(folder, uid)
    directory.claim({"metadata": {"name": f"pod-{uid}", "namespace": "default", "uid": uid}}, node)
    directory.attempt("main", 0).mkdir(parents=True)
    command = f"{command}\n{SAY_SO_AND_STAY}"
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        identity = records.process_id(process.pid)
        record: records.StartRecord = {"shim": identity, "container": identity, "startedAt": "2030-01-01T00:00:00Z"}
        records.write(str(directory.attempt("main", 0) / "started.json"), record)
        yield process
        process.kill()


def only(folder: Path) -> Consumption:
    [found] = consumption(folder, "n1")
    return found


def test_seconds_and_bytes_of_a_container_are_told(tmp_path: Path) -> None:
    with running(tmp_path, "a", f"{LARGE}\n{BUSY}"):
        found = only(tmp_path)
    assert (found.namespace, found.pod, found.container) == ("default", "pod-a", "main")
    assert found.cpu_seconds > 0.4
    assert 100 << 20 < found.memory < 200 << 20


@pytest.mark.parametrize("waited_for", [True, False], ids=["ended", "living"])
def test_what_a_container_started_counts_too(tmp_path: Path, waited_for: bool) -> None:
    child = BUSY if waited_for else f"{LARGE}\n{BUSY}\n{SAY_SO_AND_STAY}"
    start = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=-1, stdout=-1)"
    then = "child.wait()" if waited_for else "child.stdout.readline()"
    with running(tmp_path, "a", f"{start}\n{then}"):
        found = only(tmp_path)
    assert found.cpu_seconds > 0.4
    assert (found.memory > 100 << 20) is not waited_for


def test_those_that_have_ended_and_those_of_other_nodes_are_left_out(tmp_path: Path) -> None:
    with running(tmp_path, "a", "pass"), running(tmp_path, "b", "pass", node="n2"):
        with running(tmp_path, "c", "pass") as ended:
            ended.kill()
            ended.wait()
            assert [each.pod for each in consumption(tmp_path, "n1")] == ["pod-a"]
        assert [each.pod for each in consumption(tmp_path, "n2")] == ["pod-b"]


def test_figures_are_those_of_a_kubelet() -> None:
    two = [Consumption("d", "p", "a", 1.5, 1000), Consumption("d", "p", "b", 0.25, 24)]
    told = {
        (name, labels.get("container", "")): value
        for family in text_string_to_metric_families(as_metrics(two))
        for name, labels, value, *_ in family.samples
    }
    assert told == {
        ("container_cpu_usage_seconds_total", "a"): 1.5,
        ("container_cpu_usage_seconds_total", "b"): 0.25,
        ("container_memory_working_set_bytes", "a"): 1000,
        ("container_memory_working_set_bytes", "b"): 24,
        ("node_cpu_usage_seconds_total", ""): 1.75,
        ("node_memory_working_set_bytes", ""): 1024,
    }
