"""What running pods costs: `hekla run` from the command to the end, short pods in a row, many pods at once.

    python -m benchmarks.run [--runs 5] [--short 100] [--crowd 200]

`hekla run examples/hello-gang/job.yaml` starts a cluster, runs a gang of three and clears everything away. The short
pods are one Job of pods that end at once, through a node that is up; a pod counts from the Job's creation to its last
pod's end. The crowd is one Job of pods that all run at the same time; their memory is what shims and pauses use of
their own (proportional set size), the programs they run left out. CPU is that of the node's processes per pod.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.first_look import HEKLA
from benchmarks.processes import cpu_seconds
from tests.e2e.local_cluster import HELLO_GANG, LocalCluster, start_cluster
from tests.eventually import eventually

_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  minAvailable: {pods}
  tasks:
    - name: pod
      replicas: {pods}
      template:
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: 0
          containers:
            - name: main
              image: any
              command: {command}
              resources: {{requests: {{cpu: 1m, memory: 1Mi}}}}
"""


@dataclass(frozen=True)
class Row:
    what: str
    value: str
    goal: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--short", type=int, default=100)
    parser.add_argument("--crowd", type=int, default=200)
    given: Any = parser.parse_args()
    rows = time_runs(given.runs)
    if given.short:
        with cluster("--nodes=1") as running:
            rows += short_pods(running, given.short)
    if given.crowd:
        # A node takes 110 pods, as everywhere.
        with cluster(f"--nodes={-(-given.crowd // 110)}") as running:
            rows += crowd(running, given.crowd)
    for row in rows:
        print(f"{row.what:62} {row.value:>14}   {row.goal}")


def time_runs(count: int) -> list[Row]:
    """Medians, cold: every run starts its own cluster."""
    if not count:
        return []
    firsts, totals = zip(*(time_one_run(HELLO_GANG) for _ in range(count)), strict=True)
    return [
        Row("hekla run hello-gang: to the first container", f"{statistics.median(firsts):.2f} s", "at most 1 s"),
        Row("hekla run hello-gang: to the end, all cleared away", f"{statistics.median(totals):.2f} s", "under 3 s"),
    ]


def time_one_run(job: Path) -> tuple[float, float]:
    """Seconds to the first line a container says about itself, and to the end of the command."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "XDG_STATE_HOME": home}
        for key in ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE"):
            # A person's Python keeps what it has compiled.
            environment.pop(key, None)
        began = time.perf_counter()
        first = 0.0
        with subprocess.Popen(
            [HEKLA, "run", job], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not first and (" | " in line or "│" in line):
                    first = time.perf_counter() - began
        assert process.returncode == 0
        return first, time.perf_counter() - began


@contextmanager
def cluster(nodes: str) -> Iterator[LocalCluster]:
    with (
        tempfile.TemporaryDirectory() as home,
        start_cluster(Path(home) / "data", nodes, "--node-cpu=64", "--node-memory=64Gi") as running,
    ):
        yield running


def short_pods(running: LocalCluster, count: int) -> list[Row]:
    before = node_cpu(running)
    began = time.time()
    running.kubectl("apply", "-f", "-", stdin=_JOB.format(name="short", pods=count, command='["true"]'))
    finished = "jsonpath={.status.state.phase}=Completed"
    running.kubectl("wait", "vcjob/short", f"--for={finished}", "--timeout=300s")
    took = last_end(running, "short") - began
    cpu = (node_cpu(running) - before) / count * 1000
    running.kubectl("delete", "vcjob", "short", "--wait=true")
    return [
        Row(f"{count} short pods through one node", f"{count / took:.1f} pods/s", "at least 20 pods/s"),
        Row("  CPU of the node's processes, each", f"{cpu:.0f} ms"),
    ]


def crowd(running: LocalCluster, count: int) -> list[Row]:
    began = time.perf_counter()
    running.kubectl("apply", "-f", "-", stdin=_JOB.format(name="crowd", pods=count, command='[sleep, "600"]'))
    eventually(lambda: running_pods(running) >= count, seconds=300, what="all run at once")
    took = time.perf_counter() - began
    own = sum(proportional_megabytes(pid) for pid in keepers(running.data_dir)) / count
    began = time.perf_counter()
    running.kubectl("delete", "vcjob", "crowd", "--wait=true")
    eventually(lambda: not list(running.data_dir.glob("nodes/pods/*")), seconds=300, what="all are gone")
    gone = time.perf_counter() - began
    return [
        Row(f"{count} pods until all run at once", f"{took:.1f} s", "all of them"),
        Row("  memory of shims and pauses, each", f"{own:.1f} MB"),
        Row("  until all are gone", f"{gone:.1f} s"),
    ]


def running_pods(running: LocalCluster) -> int:
    counted = running.kubectl("get", "vcjob", "crowd", "-o", "jsonpath={.status.running}")
    return int(counted or 0)


def last_end(running: LocalCluster, job: str) -> float:
    """When the last of a Job's containers ended, by the node's own records: the API rounds to seconds."""
    ends = [
        json.loads(path.read_text())["finishedAt"]
        for path in running.data_dir.glob("nodes/pods/*/containers/*/*/exit.json")
    ]
    return max(datetime.fromisoformat(each[:26] + "+00:00").timestamp() for each in ends)


def node_cpu(running: LocalCluster) -> float:
    return cpu_seconds(running.components()["node-local"]["pid"])


def keepers(data_dir: Path) -> list[int]:
    """The processes that look after pods: all that carry the data directory's name and were forked for one pod."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            name = (entry / "comm").read_text().strip()
            if name in ("hekla-shim", "hekla-pause") and str(data_dir).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def proportional_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
