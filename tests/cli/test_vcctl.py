"""What scripts around upstream's vcctl find in the same columns here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
import pytest

from hekla.api.meta import parse_timestamp
from hekla.cli.named import print_one
from hekla.cli.vcctl import print_fitting, print_job, print_jobs, print_pods, print_queues
from tests import make

NOW = parse_timestamp(make.CREATED) + timedelta(seconds=90)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def a_job(name: str = "demo", **status: Any) -> dict[str, Any]:
    obj = make.job(name, make.task("worker", 3), plugins={"env": ["x", "y"]})
    obj["status"] = {"state": {"phase": "Running"}, "minAvailable": 3, **status}
    return obj


def test_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    print_jobs([a_job(running=2, retryCount=1)], namespaces=True)
    assert printed(capsys) == [
        "Namespace   Name   Creation       Phase       JobType     Replicas    Min   Pending   Running   Succeeded   "
        "Failed    Unknown     RetryCount",
        "default     demo   2030-01-01     Running     Batch       3           3     0         2         0           "
        "0         0           1",
    ]


def test_queues(capsys: pytest.CaptureFixture[str]) -> None:
    print_queues([["default", 1, "Open", "root", 0, 1, 2, 0, 3]])
    assert printed(capsys) == [
        "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed",
        "default                  1       Open    root    0       1       2       0       3",
    ]


def a_pod(name: str, phase: str, state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    pod = make.pod(name, phase)
    pod["status"]["containerStatuses"] = [{"name": "main", "state": state, **fields}]
    return pod


def test_pods(capsys: pytest.CaptureFixture[str]) -> None:
    ended = {"terminated": {"exitCode": 3, "finishedAt": "2030-01-01T00:01:00Z"}}
    pods = [
        a_pod("runs", "Running", {"running": {}}, ready=True, restartCount=2, lastState=ended),
        a_pod("waits", "Pending", {"waiting": {"reason": "ImagePullBackOff"}}),
        a_pod("failed", "Failed", ended),
        make.pod("new"),
        a_pod("begins", "Pending", {"waiting": {"reason": "PodInitializing"}}),
    ]
    pods[-1]["spec"]["initContainers"] = [make.container()]
    pods[-1]["status"]["initContainerStatuses"] = [{"name": "main", "state": {"running": {}}}]
    print_pods(pods, NOW)
    rows = [line.split(maxsplit=3) for line in printed(capsys)]
    assert rows == [
        ["Name", "Ready", "Status", "Restart            Age"],
        ["runs", "1/1", "Running", "2 (30s ago)        90s"],
        ["waits", "0/1", "ImagePullBackOff", "0                  90s"],
        ["failed", "0/1", "ExitCode:3", "0                  90s"],
        ["new", "0/1", "Pending", "0                  90s"],
        ["begins", "0/1", "Init:0/1", "0                  90s"],
    ]


def test_flows(capsys: pytest.CaptureFixture[str]) -> None:
    print_fitting(["Name", "Namespace", "Phase", "Age"], [["demo", "team", "Running", "5s"]])
    assert printed(capsys) == ["Name    Namespace    Phase      Age", "demo    team         Running    5s"]


def test_one_job(capsys: pytest.CaptureFixture[str]) -> None:
    job = a_job(running=2, version=1, controlledResources={"plugin-env": "env"})
    job["status"]["conditions"] = [{"status": "Running", "lastTransitionTime": "2030-01-01T00:00:05Z"}]
    event = {
        "type": "Normal", "reason": "ExecuteAction", "message": "Start to execute action AbortJob ", "count": 2,
        "firstTimestamp": "2030-01-01T00:00:30Z", "lastTimestamp": "2030-01-01T00:01:00Z",
        "source": {"component": "vc-controller-manager"},
    }  # fmt: skip
    print_job(job, [event], NOW)
    lines = printed(capsys)
    assert lines[:4] == ["Name:       \tdemo", "Namespace:  \tdefault", "Labels:     \t<none>", "Annotations:\t<none>"]
    assert "    Env:\t[x y]" in lines
    assert lines[lines.index("Status:") :] == [
        "Status:",
        "  Running:      \t2",
        "  Min Available:\t3",
        "  Version:      \t1",
        "  State:",
        "    Phase:\tRunning",
        "  Controlled Resources:",
        "    plugin-env: \tenv",
        "  Conditions:",
        "    Status\tTransitionTime",
        "    Running \t2030-01-01 00:00:05 +0000 UTC",
        "Events:",
        f"{'Type':<15}\t{'Reason':<40}\t{'Age':<30}\t{'Form':<40}\tMessage",
        f"{'-------':<15}\t{'-------':<40}\t{'-------':<30}\t{'-------':<40}\t-------",
        f"{'Normal':<15}\t{'ExecuteAction':<40}\t{'30s (x2 over 60s)':<30}\t{'vc-controller-manager':<40}\t"
        "Start to execute action AbortJob",
    ]


def test_a_whole_template(capsys: pytest.CaptureFixture[str]) -> None:
    template = {"kind": "JobTemplate", "metadata": {"name": "one", "creationTimestamp": make.CREATED}}
    with click.Context(click.Command("x"), info_name="vcctl"):
        print_one({**template, "spec": {"tasks": [make.task("t")]}})
    assert printed(capsys) == [
        "kind: JobTemplate",
        "metadata:",
        '  creationTimestamp: "2030-01-01T00:00:00Z"',
        "  name: one",
        "spec:",
        "  tasks:",
        "  - name: t",
        "    replicas: 1",
        "    template:",
        "      metadata: {}",
        "      spec:",
        "        containers:",
        "        - image: img",
        "          name: main",
        "          resources: {}",
    ]
