"""`hekla plugin test`: plugins that keep to the rules, and what is said of those that do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hekla.cli.main import EXIT_BAD_FILE, EXIT_FAILED, hekla, run_program

Tried = Callable[..., tuple[int, str]]

EXAMPLES = Path(__file__).parents[2] / "examples"
HEAD = """
import random
import numpy as np
from hekla.api.reasons import Reason
from hekla.scheduler.extension import NodeFilter, NodeScore, SchedulerPlugin
from hekla.scheduler.fit import Refusal


class Own(SchedulerPlugin, NodeFilter, NodeScore):
    def refusals(self, of):
        return []
"""
RAISING = f"""{HEAD}
    def preference(self, of, candidates):
        raise RuntimeError("what now")

    def has_preference(self, of):
        return True
"""
CAPRICIOUS = f"""{HEAD}
    def preference(self, of, candidates):
        return np.array([random.random() * 1000 for _ in candidates])

    def has_preference(self, of):
        return True
"""
JOB_PLUGIN = """
from hekla.controllers.job.plugin import every_container


class Own:
    flags = ()
    records = True

    def __init__(self, arguments):
        pass

    def shape_pod(self, pod, job):
        for container in every_container(pod):
            container["env"] = [{"name": "MINE", "value": job.key.name}]

    def objects(self, job):
        return []
"""


@pytest.fixture
def tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tried:
    def run(plugin: str, cases: str = "") -> tuple[int, str]:
        (tmp_path / "own.py").write_text(plugin)
        if cases:
            (tmp_path / "own.cases.yaml").write_text(cases)
        status = run_program(hekla, ["plugin", "test", str(tmp_path / "own.py")])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


@pytest.mark.parametrize("file", ["scheduler-plugin/plugins/maintenance.py", "plugins/rendezvous.py"])
def test_the_examples_pass(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(hekla, ["plugin", "test", str(EXAMPLES / file)]) == 0
    said = capsys.readouterr().out
    assert "✔" in said
    assert "✘" not in said


def test_what_is_not_as_expected_is_told(tried: Tried) -> None:
    case = (
        "- {name: elsewhere, nodes: [{name: n1}], groups: [{name: a, pods: 1, cpu: 1}], expect: {bound: {a-t-0: n2}}}"
    )
    status, said = tried(HEAD, case)
    assert status == EXIT_FAILED
    assert "✘ elsewhere\n      a-t-0 is on n1, not on n2" in said


def test_a_plugin_that_raises_is_told_with_its_error(tried: Tried) -> None:
    status, said = tried(RAISING)
    assert status == EXIT_FAILED
    assert "scheduler plugin own failed: RuntimeError: what now" in said


def test_a_plugin_that_answers_differently_the_second_time_is_told(tried: Tried) -> None:
    status, said = tried(CAPRICIOUS)
    assert status == EXIT_FAILED
    assert "the same cluster was answered differently the second time" in said
    assert re.search("[1-9][0-9]* pods went to other nodes", said)


def test_a_job_plugin_that_loses_what_the_user_wrote_is_told(tried: Tried) -> None:
    status, said = tried(JOB_PLUGIN)
    assert status == EXIT_FAILED
    assert "pod pair-worker-2 has lost a variable that the user wrote" in said


def test_of_a_job_plugins_cases_each_object_expected_must_be_made(tried: Tried) -> None:
    _, said = tried(
        JOB_PLUGIN,
        """
- name: told
  expect: [{kind: Pod, spec: {containers: [{env: [{value: pair}]}]}}]
- name: not told
  expect: [{kind: Pod, spec: {containers: [{env: [{value: pear}]}]}}]
""",
    )
    assert "✔ told" in said
    assert "✘ not told\n      nothing like {'kind': 'Pod'" in said


@pytest.mark.parametrize(
    ("cases", "complaint"),
    [
        ("- {name: a, expcet: {}}", "case 'a': expcet: unknown"),
        ("- {name: a, expect: {bond: {}}}", "case 'a': expect.bond: unknown (known: bound,"),
        ("- {name: a, expect: {}, then: [{finish: []}]}", "case 'a': then[0].expect: must say what is expected"),
        ("name: a", "must be a list of cases"),
        ("- [", "own.cases.yaml: "),
    ],
)
def test_a_case_that_could_not_fail_is_refused(tried: Tried, cases: str, complaint: str) -> None:
    status, said = tried(HEAD, cases)
    assert status == EXIT_BAD_FILE
    assert complaint in said


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        ("x = 1", "no plugin in it"),
        ("x = ", "SyntaxError"),
        (f"{HEAD}\n    ARGUMENTS = None\n", "ARGUMENTS must map names to Argument"),
    ],
)
def test_a_file_that_is_no_plugin_is_refused(tried: Tried, plugin: str, complaint: str) -> None:
    status, said = tried(plugin)
    assert status != 0
    assert complaint in said
    assert "Traceback" not in said
