"""Lines that are written over before they end are seen while they are drawn."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.e2e.local_cluster import HEKLA, LocalCluster
from tests.e2e.terminal import in_a_terminal

_WAITING = "printf '\\r 12%%' >&2; until [ -e /done ]; do sleep 0.1; done; printf '\\r100%%\\n' >&2; printf end"
_GROWING = "printf '\\r 12%%'; sleep 3; printf '\\r 57%%'; sleep 3; printf '\\r100%%\\nend'"
_POD = """
apiVersion: v1
kind: Pod
metadata: {name: bar}
spec:
  nodeName: local
  restartPolicy: Never
  containers: [{name: main, image: any, command: [sh, -c, SCRIPT]}]
"""
_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: bars}
spec:
  schedulerName: volcano
  minAvailable: 1
  tasks:
    - name: w
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: any, command: [sh, -c, SCRIPT]}]
"""


def test_a_bar_is_given_while_it_is_drawn_and_read_back_as_it_was_written(cluster: LocalCluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=_POD.replace("SCRIPT", json.dumps(_WAITING)))
    cluster.kubectl("wait", "pod/bar", "--for=condition=Ready", "--timeout=60s")
    kubectl = ["kubectl", "--kubeconfig", cluster.kubeconfig]
    # As our own commands ask on a terminal; `kubectl logs -f` waits for the end of each line by itself.
    path = "/api/v1/namespaces/default/pods/bar/log?follow=true&unfinished=true"
    with subprocess.Popen([*kubectl, "get", "--raw", path], stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        assert os.read(following.stdout.fileno(), 100) == b"\r 12%"
        assert subprocess.check_output([*kubectl, "logs", "bar"]) == b"\r 12%"
        cluster.kubectl("exec", "bar", "--", "touch", "/done")
        assert following.communicate(timeout=60)[0] == b"\r100%\nend"
    assert subprocess.check_output([*kubectl, "logs", "bar"]) == b"\r 12%\r100%\nend"
    assert subprocess.check_output([*kubectl, "logs", "-f", "bar"]) == b"\r 12%\r100%\nend"


def test_who_does_not_ask_for_unfinished_lines_is_given_each_whole(cluster: LocalCluster) -> None:
    wait = "until [ -e /done ]; do sleep 0.1; done"
    mixed = f"printf ' 12%%' >&2; {wait}; echo loss; printf '\\r100%%\\n' >&2; printf end"
    cluster.kubectl("apply", "-f", "-", stdin=_POD.replace("SCRIPT", json.dumps(mixed)).replace("bar", "mixed"))
    cluster.kubectl("wait", "pod/mixed", "--for=condition=Ready", "--timeout=60s")
    command = ["kubectl", "--kubeconfig", cluster.kubeconfig, "logs", "-f", "mixed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as following:
        cluster.kubectl("exec", "mixed", "--", "touch", "/done")
        assert following.communicate(timeout=60)[0] == b"loss\n 12%\r100%\nend"


def test_who_follows_a_job_on_a_terminal_sees_its_bar_grow(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(_JOB.replace("SCRIPT", json.dumps(_GROWING)))
    with in_a_terminal([str(HEKLA), "run", str(tmp_path / "job.yaml"), "--data-dir", str(cluster.data_dir)]) as run:
        run.until(" 12%")
        with in_a_terminal([str(HEKLA), "logs", "-f", "bars", "--data-dir", str(cluster.data_dir)]) as logs:
            logs.until("bars-w-0 |  57%")
            assert logs.exit_code() == 0
        assert run.exit_code() == 0
    assert b"bars-w-0 | 100%\r\nbars-w-0 | end\r\n" in logs.seen
    assert b"100%" in run.seen
    # Where nothing can be taken back, only what was left of the line is told.
    assert cluster.hekla("logs", "-f", "bars").stdout == "bars-w-0 | 100%\nbars-w-0 | end\n"
