"""`hekla render`: the objects of a job, as the controller would make them, with no cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hekla.api.kinds import Obj
from hekla.cli.main import hekla, run_program

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
spec:
  plugins: {svc: [], ssh: [], env: []}
  tasks:
    - name: worker
      replicas: 2
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: main, image: any, command: [sh, -c, "date\\ntrue"]}
    - name: chief
      replicas: 1
      template: {spec: {restartPolicy: Never, containers: [{name: main, image: any}]}}
"""


def render(tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> list[Obj]:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert run_program(hekla, ["render", str(file), *flags]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_every_object_of_the_job_is_there_with_what_plugins_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = render(tmp_path, capsys)
    assert [obj["kind"] for obj in objects] == [
        *("PodGroup", "ConfigMap", "Service", "NetworkPolicy", "Secret"),
        *("Pod", "Pod", "Pod"),
    ]
    worker = objects[6]
    assert worker["metadata"]["name"] == worker["spec"]["hostname"] == "train-worker-1"
    environment = {one["name"]: one.get("value") for one in worker["spec"]["containers"][0]["env"]}
    assert environment["VC_TASK_INDEX"] == "1"
    assert worker["spec"]["containers"][0]["command"] == ["sh", "-c", "date\ntrue"]


def test_the_same_file_gives_the_same_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render(tmp_path, capsys) == render(tmp_path, capsys)


def test_one_task_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [obj["metadata"]["name"] for obj in render(tmp_path, capsys, "--task", "chief")] == ["train-chief-0"]


def test_a_task_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert run_program(hekla, ["render", str(file), "--task", "boss"]) == 3
    assert "no task is called 'boss'; there are worker, chief" in capsys.readouterr().err


def test_a_spec_that_is_no_mapping_is_told_as_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\nspec: 5\n")
    assert run_program(hekla, ["render", str(file)]) == 3
    assert capsys.readouterr().err == f"error: {file}:4: spec: must be a mapping, not 5\n"
