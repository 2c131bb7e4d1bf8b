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
    def run(plugin: str, cases: str = "", conf: str = "") -> tuple[int, str]:
        (tmp_path / "own.py").write_text(plugin)
        (tmp_path / "own.conf").write_text(conf)
        if cases:
            (tmp_path / "own.cases.yaml").write_text(cases)
        flags = ["--scheduler-conf", str(tmp_path / "own.conf")] if conf else []
        status = run_program(hekla, ["plugin", "test", str(tmp_path / "own.py"), *flags])
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


def test_a_case_in_which_a_plugin_raises_is_not_as_expected_even_where_pods_should_wait(tried: Tried) -> None:
    case = (
        "- {name: waits, nodes: [{name: n1}], groups: [{name: a, pods: 1, cpu: 9}], expect: {waiting: {a-t-0: null}}}"
    )
    status, said = tried(HEAD.replace("return []", "raise RuntimeError('what now')"), case)
    assert status == EXIT_FAILED
    assert "✘ waits\n      scheduler plugin own failed: RuntimeError: what now" in said


def test_a_plugin_that_never_ends_is_ended_in_cases_too(tried: Tried) -> None:
    case = "- {name: a, nodes: [{name: n1}], groups: [{name: a, pods: 1, cpu: 1}], expect: {bound: {a-t-0: n1}}}"
    status, said = tried(HEAD.replace("return []", "while True: pass"), case)
    assert status == EXIT_FAILED
    assert "✘ a\n      scheduler plugin own failed: a call took longer than 2 s" in said


@pytest.mark.parametrize(
    ("conf", "complaint"),
    [
        ('actions: "allocate', "own.conf: not YAML"),
        ("actions: allocate\nteirs: []\n", "own.conf: must be a mapping with `actions` and `tiers`"),
        ("actions: allocate\ntiers: [{}]\n", "own.conf: tiers: each must have a list `plugins`"),
    ],
)
def test_a_configuration_that_is_none_is_refused(tried: Tried, conf: str, complaint: str) -> None:
    status, said = tried(HEAD, conf=conf)
    assert status != 0
    assert complaint in said
    assert "This is a bug" not in said


def test_what_is_wrong_with_the_configuration_of_a_case_is_told_of_that_case(tried: Tried) -> None:
    cases = """
- {name: no tiers, config: {actions: allocate}, expect: {bound: {}}}
- {name: no such argument, arguments: {colour: red}, expect: {bound: {}}}
- {name: nothing wrong, expect: {bound: {}}}
"""
    status, said = tried(HEAD, cases)
    assert status == EXIT_FAILED
    assert "✘ no tiers\n      config: must be a mapping with `actions` and `tiers`" in said
    assert "✘ no such argument\n" in said
    assert "arguments.colour: unknown argument" in said
    assert "✔ nothing wrong" in said


def test_a_plugin_that_answers_differently_the_second_time_is_told(tried: Tried) -> None:
    status, said = tried(CAPRICIOUS)
    assert status == EXIT_FAILED
    assert "the same cluster was answered differently the second time" in said
    assert re.search("[1-9][0-9]* pods went to other nodes", said)


def test_a_job_plugin_that_loses_what_the_user_wrote_is_told(tried: Tried) -> None:
    status, said = tried(JOB_PLUGIN)
    assert status == EXIT_FAILED
    assert "pod pair-worker-2 has lost a variable that the user wrote" in said


def test_a_job_plugin_may_add_a_container(tried: Tried) -> None:
    aside = """for container in every_container(pod):
            container["env"] = [{"name": "MINE", "value": job.key.name}]"""
    assert aside in JOB_PLUGIN
    status, _ = tried(
        JOB_PLUGIN.replace(aside, 'pod["spec"]["containers"].append({"name": "aside", "image": "busybox"})')
    )
    assert status == 0


def test_the_job_of_a_case_has_what_a_server_fills_in(tried: Tried) -> None:
    _, said = tried(
        JOB_PLUGIN,
        """
- name: nameless
  job: {spec: {tasks: [{replicas: 1, template: {spec: {containers: [{name: main}]}}}]}}
  expect: [{kind: Pod, metadata: {name: demo-default0-0}}]
""",
    )
    assert "✔ nameless" in said


@pytest.mark.parametrize("plugin", [HEAD, JOB_PLUGIN])
def test_a_file_may_hold_dataclasses(tried: Tried, plugin: str) -> None:
    head = "from __future__ import annotations\nimport dataclasses\n"
    _, said = tried(f"{head}{plugin}\n\n@dataclasses.dataclass\nclass Place:\n    zone: str\n")
    assert "AttributeError" not in said
    assert "own: a " in said


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
        ("- {name: a, expect: {}, then: {expect: {}}}", "case 'a': then: must be a list of steps"),
        ("- {name: a, expect: {}, then: [{add: {node: []}, expect: {}}]}", "then[0].add.node: unknown (known: nodes,"),
        ("- {name: a, expect: {}, nodes: [{name: n1, cpus: 1}]}", "nodes[0].cpus: unknown (known: name,"),
        ("- {name: a, expect: {}, groups: [{name: g, pods: [{mem: 1}]}]}", "groups[0].pods[0].mem: unknown"),
        ("- {name: a, expect: {}, nodes: {name: n1}}", "nodes: must be a list"),
        ("- {name: a, expect: {}}", "case 'a': expect: is empty: such a case cannot fail"),
        ("- {name: a, expect: {}, then: [{finish: [], expect: {}}]}", "case 'a': expect: is empty"),
        ("name: a", "must be a list of cases"),
        ("- [", "own.cases.yaml: "),
    ],
)
def test_a_case_that_could_not_fail_is_refused(tried: Tried, cases: str, complaint: str) -> None:
    status, said = tried(HEAD, cases)
    assert status == EXIT_BAD_FILE
    assert complaint in said


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("expect: []", "expect: is empty: such a case cannot fail"),
        ("expect: [{kind: Pod}, {}]", "expect: is empty: such a case cannot fail"),
        ("refused: never, expect: [{kind: Pod}]", "expect: nothing is made of a job that is refused"),
    ],
)
def test_a_case_of_a_job_plugin_that_could_not_fail_is_refused(tried: Tried, case: str, complaint: str) -> None:
    status, said = tried(JOB_PLUGIN, f"- {{name: a, {case}}}")
    assert status == EXIT_BAD_FILE
    assert f"case 'a': {complaint}" in said


def refusing(condition: str) -> str:
    """The job plugin, which refuses jobs of which that holds."""
    shaped = "    def shape_pod(self, pod, job):\n"
    assert shaped in JOB_PLUGIN
    refusal = f"        if {condition}:\n            raise PluginRefused('not this one')\n"
    source = JOB_PLUGIN.replace(shaped, shaped + refusal).replace('container["env"] = ', 'container["env"] += ')
    return f"from hekla.controllers.job.plugin import PluginRefused\n{source}"


def test_that_nothing_of_a_job_plugin_was_tried_because_it_refuses_every_job_is_told(tried: Tried) -> None:
    status, said = tried(refusing("True"))
    assert status == EXIT_FAILED
    assert "- master ×1, worker ×3 (refused: not this one)" in said
    assert "✘ something of it was tried\n      it refuses every made-up job" in said


def test_a_job_plugin_may_refuse_some_of_the_made_up_jobs(tried: Tried) -> None:
    status, said = tried(refusing("job.key.name == 'single'"))
    assert status == 0
    assert "- main ×1 (refused: not this one)" in said
    assert "✔ master ×1, worker ×3" in said


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


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "pod['metadata']['annotations'].clear()",
            "the annotations of pod pair-master-0 are not the plugin's to change",
        ),
        ("job.obj['spec'].clear()", "the job is not the plugin's to change"),
        ("raise SystemExit('no more')", "SystemExit: no more"),
    ],
)
def test_what_a_cluster_would_refuse_of_a_job_plugin_is_found_here(tried: Tried, line: str, complaint: str) -> None:
    shaped = "    def shape_pod(self, pod, job):\n"
    source = JOB_PLUGIN.replace('container["env"] = ', 'container["env"] += ')
    status, said = tried(source.replace(shaped, f"{shaped}        {line}\n"))
    assert status == EXIT_FAILED
    assert complaint in said


def test_a_file_that_exits_is_no_plugin(tried: Tried) -> None:
    status, said = tried("import sys\nsys.exit(0)\n")
    assert status == EXIT_BAD_FILE
    assert "SystemExit: 0" in said
