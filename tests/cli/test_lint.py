"""`hekla lint`: all mistakes of a file at once, with line, field and remedy, and what will not do what was hoped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hekla.cli.main import hekla, run_program

# Without the one that names a job plugin which has to be installed first.
EXAMPLES = [
    file
    for file in sorted((Path(__file__).parents[2] / "examples").glob("*/*.yaml"))
    if file.parent.name != "plugins" and "kind: Job\n" in file.read_text()
]
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: example
spec:
  minAvailable: 1
  queue: research
  tasks:
    - name: main
      replicas: 1
      {task}
      template:
        spec:
          restartPolicy: {restart}
          containers:
            - name: main
              image: any
"""


PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: research}
spec: {serviceAccountName: robot, containers: [{name: main, image: any}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, namespace: research}
spec: {containers: [{name: main, image: any}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: research}
"""


def lint(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[tuple[str, int, str]]]:
    """The exit status, and each finding's severity, line and field."""
    file = tmp_path / "job.yaml"
    file.write_text(text)
    status = run_program(hekla, ["lint", str(file), "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    return status, [(one["severity"], one["line"], one["field"]) for one in found]


def job(*, task: str = "maxRetry: 3", restart: str = "Never") -> str:
    return JOB.format(task=task, restart=restart)


def test_a_good_file_needs_no_cluster_and_no_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(tmp_path, job(), capsys) == (0, [])


def test_mistakes_of_every_stage_are_told_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = job().replace("minAvailable: 1", "minAvailable: 7").replace("image: any", "imgae: any")
    text = text.replace("name: main\n      rep", "name: Main_1\n      rep")
    status, found = lint(tmp_path, text, capsys)
    assert status == 3
    # The first is admission's, the second the schema's, the third a field nobody knows: a server tells one kind a time.
    assert found == [
        ("error", 6, "spec.minAvailable"),
        ("error", 9, "spec.tasks[0].name"),
        ("error", 17, "spec.tasks[0].template.spec.containers[0].imgae"),
    ]


@pytest.mark.parametrize(
    ("wrong", "right"), [("imgae: any", "'image'"), ("image: any\n              comand: []", "'command'")]
)
def test_the_field_that_was_meant_is_suggested(
    wrong: str, right: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(job().replace("image: any", wrong))
    assert run_program(hekla, ["lint", str(file)]) == 3
    assert f"unknown field (did you mean {right}?)" in capsys.readouterr().out


def test_the_plugin_that_was_meant_is_suggested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(job().replace("  queue: research\n", "  plugins: {pytroch: []}\n"))
    assert run_program(hekla, ["lint", str(file)]) == 3
    assert "unable to find job plugin: pytroch (did you mean 'pytorch'?)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("kind: Job", "kind: Jobs"), "Jobs is not a kind Hekla knows (did you mean batch.volcano.sh/v1alpha1 Job?)"),
        (("kind: Job", "kind: job"), "job is not a kind Hekla knows (did you mean batch.volcano.sh/v1alpha1 Job?)"),
        (("v1alpha1", "v1"), "Job is not a kind Hekla knows (did you mean batch.volcano.sh/v1alpha1 Job?)"),
        (("kind: Job", "kind: Whale"), "batch.volcano.sh/v1alpha1 Whale is not a kind Hekla knows\n"),
        (("batch.volcano.sh/v1alpha1", "batch/v1"), "job.yaml:1: error: apiVersion: a Job with tasks is Volcano's"),
    ],
)
def test_the_kind_that_was_meant_is_suggested(
    wrong: tuple[str, str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(job().replace(*wrong))
    assert run_program(hekla, ["lint", str(file)]) == 3
    assert told in capsys.readouterr().out


def test_a_file_that_is_no_yaml_is_a_finding_like_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(tmp_path, "kind: Job\nspec: {event: *}\n", capsys) == (3, [("error", 2, "")])


def test_a_closed_door_in_the_same_file_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects of one file see each other: the job's queue has a child here, so it takes no jobs."""
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {}}}\nspec: {}\n---\n"
    text = queue.format("research", "{}") + queue.format("inner", "{parent: research}") + job()
    status, found = lint(tmp_path, text, capsys)
    assert (status, [(severity, field) for severity, _, field in found]) == (3, [("error", "spec.queue")])


@pytest.mark.parametrize(
    ("task", "restart", "field"),
    [
        ("maxRetry: 3", "Always", "spec.tasks[0].template.spec.restartPolicy"),
        ("policies: [{event: PodFailed, action: RestartJob}]", "OnFailure", "spec.tasks[0].policies[0]"),
        ("policies: [{exitCode: 3, action: RestartJob}]", "OnFailure", "spec.tasks[0].policies[0]"),
        ("policies: [{event: TaskCompleted, action: CompleteJob}]", "Always", "spec.tasks[0].policies[0]"),
        ("policies: [{event: PodEvicted, action: RestartPartition}]", "Never", "spec.tasks[0].policies[0]"),
        (
            "policies: [{event: PodFailed, action: RestartPod}, {exitCode: 3, action: AbortJob}]",
            "Never",
            "spec.tasks[0].policies[1]",
        ),
    ],
)
def test_what_will_not_do_what_was_hoped_is_a_warning(
    task: str, restart: str, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = lint(tmp_path, job(task=task, restart=restart), capsys)
    assert status == 0
    assert [(severity, where) for severity, _, where in found] == [("warning", field)]


def test_all_that_is_wrong_with_a_cron_job_is_told_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = job().partition("spec:\n")[2].replace("\n", "\n    ")
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n"
    text = f'{head}  schedule: "61 * * * *"\n  scheduel: x\n  jobTemplate:\n    spec:\n    {template}'
    found = [("error", 5, "spec.schedule"), ("error", 6, "spec.scheduel")]
    assert lint(tmp_path, text, capsys) == (3, found)
    zone = text.replace('"61 * * * *"', '"1 * * * *"').replace("scheduel: x", "timeZone: Mars/Base")
    assert lint(tmp_path, zone, capsys) == (3, [("error", 6, "spec.timeZone")])


def test_what_jobs_will_be_made_of_is_looked_at_as_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = job(restart="Always").partition("spec:\n")[2].replace("minAvailable: 1", "minAvailable: 5")
    template = f"apiVersion: flow.volcano.sh/v1alpha1\nkind: JobTemplate\nmetadata: {{name: step}}\nspec:\n{few}"
    assert lint(tmp_path, template, capsys) == (3, [("error", 5, "spec.minAvailable")])
    restarted = ("warning", 13, "spec.tasks[0].template.spec.restartPolicy")
    assert lint(tmp_path, template.replace("minAvailable: 5", "minAvailable: 1"), capsys) == (0, [restarted])
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n"
    inner = few.replace("\n", "\n    ")
    text = f'{head}  schedule: "1 * * * *"\n  jobTemplate:\n    spec:\n    {inner}'
    assert lint(tmp_path, text, capsys) == (3, [("error", 8, "spec.jobTemplate.spec.minAvailable")])


def test_the_jobs_of_a_cron_job_are_looked_at_under_the_names_they_will_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def cron_job(name: str, task: str) -> list[str]:
        spec = job(task=task).partition("spec:\n")[2].replace("\n", "\n    ")
        head = f"apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {{name: {name}}}\n"
        (tmp_path / "job.yaml").write_text(f"{head}spec:\n  schedule: 0 3 * * *\n  jobTemplate:\n    spec:\n    {spec}")
        run_program(hekla, ["lint", str(tmp_path / "job.yaml")])
        return capsys.readouterr().out.splitlines()

    odd = "partitionPolicy: {totalPartitions: 3, partitionSize: 2}"
    (told, _) = cron_job("nightly", odd)
    assert "job: nightly-31557600" in told
    # A name that is refused keeps nothing else from being found.
    told, other, _ = cron_job("Nightly", odd)
    assert "metadata.name: " in told
    assert "job: job" in other
    # With the time and the task's name it is longer than a pod's may be.
    (told, _) = cron_job("n" * 52, odd.replace("3", "1").replace("2", "1"))
    assert f"{'n' * 52}-31557600-" in told


def test_one_that_a_server_will_name_is_looked_at_like_any_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unnamed = job().replace("  name: example", "  generateName: example-", 1)
    assert lint(tmp_path, unnamed, capsys) == (0, [])
    spec = job(task="minAvailable: 5").partition("spec:\n")[2].replace("\n", "\n    ")
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {generateName: nightly-}\nspec:\n"
    for schedule, more in (("0 3 * * *", []), ("never", [("error", 5, "spec.schedule")])):
        text = f"{head}  schedule: {schedule}\n  jobTemplate:\n    spec:\n    {spec}"
        code, found = lint(tmp_path, text, capsys)
        assert (code, [one for one in found if one[2] == "spec.schedule"]) == (3, more)
        assert [one for one in found if one[2].startswith("spec.jobTemplate.")]


def test_an_exit_code_before_any_failure_has_its_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = "policies: [{event: PodEvicted, action: RestartJob}, {exitCode: 3, action: AbortJob}, "
    assert lint(tmp_path, job(task=policies + "{event: PodFailed, action: RestartPod}]"), capsys) == (0, [])


def test_every_misspelt_word_of_policies_is_told_with_the_one_that_was_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    wrong = "policies: [{event: PodFaild, action: RestartJb}, {event: PodEvicted, action: AbortJobb}]"
    file.write_text(job(task=wrong))
    assert run_program(hekla, ["lint", str(file)]) == 3
    told = capsys.readouterr().out
    for meant in ("'PodFailed'", "'RestartJob'", "'AbortJob'"):
        assert f"(did you mean {meant}?)" in told
    assert told.endswith("job.yaml: 3 errors\n")


def test_one_misspelt_action_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = lint(tmp_path, job(task="policies: [{event: PodFailed, action: Restart}]"), capsys)
    assert found == (3, [("error", 11, "spec.tasks[0].policies[0].action")])


@pytest.mark.parametrize(
    ("task", "restart"),
    [
        ("policies: [{event: PodFailed, action: RestartJob}]", "Never"),
        ("policies: [{event: TaskCompleted, action: CompleteJob}]", "OnFailure"),
        ("policies: [{event: PodEvicted, action: RestartJob}]", "OnFailure"),
    ],
)
def test_policies_that_can_fire_are_not_doubted(
    task: str, restart: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint(tmp_path, job(task=task, restart=restart), capsys) == (0, [])


def test_a_scheduler_that_is_not_ours_is_a_warning_where_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job().replace("queue: research", "schedulerName: default-scheduler")
    assert lint(tmp_path, text, capsys) == (0, [("warning", 7, "spec.schedulerName")])
    text = job().replace("restartPolicy: Never", "restartPolicy: Never\n          schedulerName: other")
    assert lint(tmp_path, text, capsys) == (0, [("warning", 15, "spec.tasks[0].template.spec.schedulerName")])


def test_an_argument_a_plugin_does_not_know_is_a_warning_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job().replace("  queue: research\n", "  plugins:\n    svc: [--publish-not-raedy]\n")
    assert lint(tmp_path, text, capsys) == (0, [("warning", 8, "spec.plugins[svc]")])


def test_values_of_the_wrong_type_are_told_where_they_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = job(task="policies: [{event: PodFailed, action: AbortJob, timeout: soon}]").replace(
        "replicas: 1", "replicas: one"
    )
    status, found = lint(tmp_path, text, capsys)
    assert (status, found) == (3, [
        ("error", 10, "spec.tasks[0].replicas"),
        ("error", 11, "spec.tasks[0].policies[0].timeout"),
    ])  # fmt: skip


def test_what_the_file_is_warned_about_is_told_beside_its_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = lint(tmp_path, job().replace("replicas: 1", "replicas: 1 // one"), capsys)
    assert (status, found) == (3, [("warning", 10, ""), ("error", 10, "spec.tasks[0].replicas")])


def test_a_value_that_cannot_be_read_hides_no_other_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = job(task="policies: [{event: PodFailed, action: AbortJob, timeout: soon}]")
    text = text.replace("minAvailable: 1", "minAvailable: 7")
    text = text.replace("image: any", "resources: {limits: {cpu: lots}}")
    status, found = lint(tmp_path, text, capsys)
    assert (status, found) == (3, [
        ("error", 6, "spec.minAvailable"),
        ("error", 11, "spec.tasks[0].policies[0].timeout"),
        ("error", 16, "spec.tasks[0].template.spec.containers[0].image"),
        ("error", 17, "spec.tasks[0].template.spec.containers[0].resources.limits[cpu]"),
    ])  # fmt: skip


def test_nothing_is_made_of_a_count_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = job().replace("minAvailable: 1", "minAvailable: 7").replace("replicas: 1", "replicas: seven")
    assert lint(tmp_path, text, capsys) == (3, [("error", 10, "spec.tasks[0].replicas")])


def test_neither_misspelt_fields_nor_values_of_the_wrong_type_hide_what_is_wrong_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job(task="policies: [{event: PodFailled, action: AbortJob}]").replace("replicas: 1", "replicas: seven")
    text = text.replace("name: example", "name: Ex_ample")
    text += "              comand: [echo]\n              args: [--epochs, 3]\n"
    text = text.replace("queue: research", "plugins: {pytroch: []}")
    status, found = lint(tmp_path, text, capsys)
    assert (status, found) == (3, [
        ("error", 4, "metadata.name"),
        ("error", 7, "spec.plugins.pytroch"),
        ("error", 10, "spec.tasks[0].replicas"),
        ("error", 11, "spec.tasks[0].policies[0].event"),
        ("error", 18, "spec.tasks[0].template.spec.containers[0].comand"),
        ("error", 19, "spec.tasks[0].template.spec.containers[0].args[1]"),
    ])  # fmt: skip


def test_a_mapping_in_place_of_a_list_is_told_as_that_and_not_by_its_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job().replace("image: any", "image: any\n              env: {EPOCHS: 3, RATE: 1}")
    assert lint(tmp_path, text, capsys) == (3, [("error", 18, "spec.tasks[0].template.spec.containers[0].env")])
    run_program(hekla, ["lint", str(tmp_path / "job.yaml")])
    assert "env: must be a list, not {'EPOCHS': 3, 'RATE': 1}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ("{name: 1234}", "metadata.name: must be text, not 1234: put it in quotes"),
        ("{name: a, namespace: 5}", "metadata.namespace: must be text, not 5: put it in quotes"),
        ("{name: a, labels: {on: true}}", "metadata.labels[on]: must be text, not true: put it in quotes"),
        ("{name: a, annotations: {x: [w]}}", "metadata.annotations[x]: must be text, not ['w']"),
        ("{name: a, labels: [w]}", "metadata.labels: must be a mapping, not ['w']"),
        ("[]", "metadata: must be a mapping, not []"),
        ("{name: a, namespace: A B}", "metadata.namespace: no namespace can be called 'A B': a lowercase RFC 1123"),
    ],
)
def test_metadata_of_the_wrong_type_is_told_where_it_stands(
    metadata: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(job().replace("metadata:\n  name: example", f"metadata: {metadata}"))
    assert run_program(hekla, ["lint", str(file)]) == 3
    assert capsys.readouterr().out.splitlines()[0].startswith(f"{file}:3: error: {told}")


@pytest.mark.parametrize("wrong", ["5", "words", "[null]"])
@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_a_spec_that_is_no_mapping_is_told_as_that(
    kind: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"apiVersion: batch.volcano.sh/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {wrong}\n"
    status, (first, *_) = lint(tmp_path, text, capsys)
    assert (status, first) == (3, ("error", 4, "spec"))


def test_a_job_template_that_is_no_mapping_is_told_as_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {name: a}\n"
    status, found = lint(tmp_path, text + "spec: {schedule: '* * * * *', jobTemplate: 5}\n", capsys)
    assert status == 3
    assert ("error", 4, "spec.jobTemplate") in found


def test_each_mistake_of_one_template_has_its_own_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = job(restart="Nver").replace("- name: main\n              im", "- name: Ma_in\n              im")
    text += "              volumeMounts: [{name: data, mountPath: /data}]\n"
    assert lint(tmp_path, text, capsys) == (3, [
        ("error", 14, "spec.tasks[0].template.spec.restartPolicy"),
        ("error", 16, "spec.tasks[0].template.spec.containers[0].name"),
        ("error", 18, "spec.tasks[0].template.spec.containers[0].volumeMounts[0].name"),
    ])  # fmt: skip
    run_program(hekla, ["lint", str(tmp_path / "job.yaml")])
    told = capsys.readouterr().out
    assert 'supported values: "Always", "OnFailure", "Never" (did you mean \'Never\'?)\n' in told
    assert "template.spec.restartPolicy" not in told.splitlines()[1]


@pytest.mark.parametrize(
    ("wrong", "line", "field", "words"),
    [
        ("resources: {requests: {cpu: 1 core}}", 18, "resources.requests[cpu]", "'1 core' is not an amount"),
        (
            "resources: {requests: {cpu: 4}, limits: {cpu: 2}}",
            18,
            "resources.requests",
            "less than or equal to cpu limit",
        ),
        ("volumeMounts: [{name: data, mountPath: /data}]", 18, "volumeMounts[0].name", 'Not found: "data"'),
    ],
)
def test_mistakes_in_a_template_are_told_where_they_are(
    wrong: str, line: int, field: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job().replace("image: any\n", f"image: any\n              {wrong}\n")
    container = "spec.tasks[0].template.spec.containers[0]"
    assert lint(tmp_path, text, capsys) == (3, [("error", line, f"{container}.{field}")])
    run_program(hekla, ["lint", str(tmp_path / "job.yaml")])
    assert words in capsys.readouterr().out


def test_a_dependency_on_a_task_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = job(task="dependsOn: {name: [other]}")
    assert lint(tmp_path, text, capsys) == (3, [("error", 11, "spec.tasks[0].dependsOn")])
    run_program(hekla, ["lint", str(tmp_path / "job.yaml")])
    assert "no task is called 'other'" in capsys.readouterr().out


def test_every_warning_of_admission_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugins = 'plugins: {pytorch: ["--master=boss"], svc: ["--nope"]}\n  queue: research'
    status, found = lint(tmp_path, job().replace("queue: research", plugins), capsys)
    assert status == 0
    assert {field for _, _, field in found} == {"spec.plugins[pytorch]", "spec.plugins[svc]"}


def test_the_service_accounts_of_pods_are_taken_for_granted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(tmp_path, PODS, capsys) == (0, [])


def test_a_kind_that_nobody_acts_on_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """\
apiVersion: batch/v1
kind: Job
metadata: {name: plain}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: any}]}}}
"""
    status, found = lint(tmp_path, text, capsys)
    assert (status, [severity for severity, _, _ in found]) == (0, ["warning"])
    run_program(hekla, ["lint", str(tmp_path / "job.yaml")])
    assert "nobody acts on a Job of batch/v1 here" in capsys.readouterr().out


@pytest.mark.parametrize("above", ["", "jobTemplate"])
def test_a_queue_of_an_impossible_name_is_told_at_its_field(
    above: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job().replace("queue: research", "queue: A B")
    if above:
        spec = text.partition("spec:\n")[2].replace("\n", "\n    ")
        head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {name: nightly}\n"
        text = f"{head}spec:\n  schedule: 0 3 * * *\n  jobTemplate:\n    spec:\n    {spec.rstrip()}\n"
    file = tmp_path / "job.yaml"
    file.write_text(text)
    assert run_program(hekla, ["lint", str(file)]) == 3
    told = capsys.readouterr().out.splitlines()
    assert "spec.queue: " in told[0]
    assert 'Invalid value: "A B"' in told[0]
    assert told[1] == f"{file}: 1 error"


def test_a_key_of_nothing_is_an_unknown_field_and_its_mapping_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job().replace("name: example", 'name: example\n  "": x')
    assert lint(tmp_path, text, capsys) == (3, [("error", 3, "metadata.")])


def test_of_an_impossible_name_is_not_told_again_what_is_made_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint(tmp_path, job().replace("name: example", "name: a b"), capsys) == (3, [("error", 4, "metadata.name")])


def test_of_a_value_too_long_to_read_the_beginning_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(job(restart="x" * 5000))
    assert run_program(hekla, ["lint", str(file)]) == 3
    told = capsys.readouterr().out
    assert f'"{"x" * 100}' in told
    assert len(told) < 1000


@pytest.mark.parametrize("spec", ["x", "[x]", "3"])
def test_the_spec_of_a_pod_that_is_no_mapping_is_a_finding(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: one}}\nspec: {spec}\n"
    assert lint(tmp_path, text, capsys) == (3, [("error", 4, "spec")])


def test_a_dot_in_a_name_that_becomes_a_hosts_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = job().replace("name: example", "name: v1.5").replace("  queue: research\n", "  plugins: {pytorch: []}\n")
    status, found = lint(tmp_path, text, capsys)
    assert status == 0
    assert ("warning", 7, "spec.plugins[svc]") in found


def test_a_key_that_only_looks_like_a_number_is_an_unknown_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job().replace("spec:\n", "spec:\n  \N{SUPERSCRIPT TWO}: 2\n", 1)
    assert lint(tmp_path, text, capsys) == (3, [("error", 6, "spec.\N{SUPERSCRIPT TWO}")])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_nothing_is_wrong_with_the_examples(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(hekla, ["lint", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: nothing to complain about\n"
