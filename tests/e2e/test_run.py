"""`hekla run`: one command from a file to its outcome, on a cluster of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.local_cluster import HEKLA, HELLO_GANG, clean_environment, mounts_of, processes_of, start_cluster
from tests.eventually import eventually

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: example
spec:
  minAvailable: {min}
  tasks:
    - name: main
      replicas: {replicas}
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: any
              command: {command}
              resources:
                requests:
                  cpu: {cpu}
"""


TINY = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n"


def run(file: Path, home: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(), "XDG_STATE_HOME": str(home), "TMPDIR": str(home)}
    done = subprocess.run([HEKLA, "run", file, *flags], capture_output=True, text=True, timeout=100, env=environment)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def write(directory: Path, text: str, **values: object) -> Path:
    path = directory / "job.yaml"
    path.write_text(text.format(**{"min": 1, "replicas": 1, "cpu": "100m", "command": '["true"]', **values}))
    return path


def test_three_pods_meet_by_name_and_add_up_their_ranks(tmp_path: Path) -> None:
    done = run(HELLO_GANG, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for index in range(3):
        assert f"hello-gang-worker-{index} | I am hello-gang-worker-{index}, rank {index} of 3" in done.stdout
        assert f"hello-gang-worker-{index} | the sum of our ranks is 3" in done.stdout
    assert "✔ hello-gang completed" in done.stdout
    assert "\x1b" not in done.stdout


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    run(HELLO_GANG, tmp_path)
    assert not processes_of(tmp_path)
    assert not mounts_of(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_failed_job_exits_with_1_and_says_which_pod_and_code(tmp_path: Path) -> None:
    done = run(write(tmp_path, JOB, command='["sh", "-c", "echo oh no; exit 7"]'), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "example-main-0 | oh no" in done.stdout
    assert "exit code 7" in done.stderr


def test_a_run_of_its_own_has_the_namespaces_its_file_and_flags_name(tmp_path: Path) -> None:
    for text, flags in ((JOB.replace("name: example", "name: example\n  namespace: team"), ()), (JOB, ("-n", "team"))):
        done = run(write(tmp_path, text), tmp_path, *flags)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kept", [False, True])
def test_a_reader_that_goes_away_ends_a_run_of_its_own_and_one_line_says_so(tmp_path: Path, kept: bool) -> None:
    file = write(tmp_path, JOB, command='["seq", "1000000"]')
    where = f" --data-dir {tmp_path}/data" if kept else ""
    status, told = without_reader(tmp_path, "run", file, *where.split())
    assert status == 130
    if kept:
        shown = f"`hekla up --detach{where}`, then `hekla job view example{where}`"
        assert told == f"nobody reads on: example is stopped with its cluster; to see it: {shown}\n"
        typed([f"hekla up --detach{where}", f"hekla job view example{where}", f"hekla down{where}"])
    else:
        stays = "`hekla up --detach`, then this run again"
        assert told == f"nobody reads on: example is taken away with its cluster; to have it stay: {stays}\n"
        assert list(tmp_path.iterdir()) == [file]


def test_a_job_whose_reader_goes_away_goes_on_where_the_cluster_stays(tmp_path: Path) -> None:
    with start_cluster(tmp_path / "data") as cluster:
        file = write(tmp_path, JOB, command='[sh, -c, "seq 100000; sleep 600"]')
        status, told = without_reader(tmp_path, "run", file, "--data-dir", str(cluster.data_dir))
        logs = f"hekla logs -f example --data-dir {cluster.data_dir}"
        assert (status, told) == (130, f"nobody reads on: example goes on; to see it: `{logs}`\n")
        cluster.wait_for("vcjob/example", ".status.state.phase", "Running")
        # To read no further is no fault of the logs, followed or not, nor of a list.
        for command in (["logs", "example"], ["logs", "-f", "example"], ["job", "list"]):
            assert without_reader(tmp_path, *command, "--data-dir", str(cluster.data_dir), lines=0) == (0, ""), command


def without_reader(home: Path, *arguments: str | Path, lines: int = 1) -> tuple[int, str]:
    """Exit status and errors of a program whose output nobody reads after so many lines."""
    environment = {**clean_environment(), "XDG_STATE_HOME": str(home), "TMPDIR": str(home)}
    with subprocess.Popen(
        [HEKLA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
        return process.wait(60), told


def test_a_job_too_big_for_the_machine_exits_with_2_and_names_the_flag(tmp_path: Path) -> None:
    done = run(write(tmp_path, JOB, cpu="64", replicas=2, min=2), tmp_path, "--node-cpu", "1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "cannot be placed" in done.stderr
    assert "--node-cpu" in done.stderr


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ("nodeSelector: {disk: fast}", 2, "1 node(s) didn't match Pod's node affinity/selector"),
        ("volumes: [{name: data, persistentVolumeClaim: {claimName: none}}]", 2, 'claim "none" not found'),
        ("schedulerName: other", 2, "no scheduler called 'other'"),
        ("priorityClassName: urgent", 1, "no PriorityClass with name urgent was found"),
    ],
)
def test_what_can_never_start_is_not_waited_for(tmp_path: Path, spec: str, status: int, expected: str) -> None:
    text = JOB.replace("restartPolicy: Never", "restartPolicy: Never\n          {spec}")
    done = run(write(tmp_path, text, spec=spec), tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert expected in done.stderr.splitlines()[1]
    assert "--node-cpu" not in done.stderr


def test_a_command_that_does_not_exist_is_the_pods_reason(tmp_path: Path) -> None:
    done = run(write(tmp_path, JOB, command='["no-such-program"]'), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no-such-program" in done.stderr + done.stdout
    # What the image would have brought may be what is missing.
    assert "not pulled, pods saw this machine's own files" in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Job\n  x: y\n", r"job\.yaml:2:\d+: not valid YAML"),
        ("- a\n", r"job\.yaml:1: expected an object"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            "exactly one batch.volcano.sh Job.*found only v1 Conf",
        ),
        (f"{TINY}---\n{TINY}", r"exactly one batch.volcano.sh Job.*found 2 \(lines 1, 5\); `hekla up`"),
        ("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {}\n", r"job\.yaml:1: metadata.name is missing"),
    ],
)
def test_a_wrong_file_exits_with_3_and_says_where(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    done = run(path, tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(expected, done.stderr)


def test_unknown_fields_are_refused_with_their_lines(tmp_path: Path) -> None:
    text = JOB.replace("  minAvailable", "  minAvailible").replace("restartPolicy", "restartPolisy")
    done = run(write(tmp_path, text), tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"job\.yaml:6: .*minAvailible", done.stderr)
    assert re.search(r"job\.yaml:12: .*restartPolisy", done.stderr)


MISTAKEN = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: mistaken
spec:
  minAvailable: 9
  zork: 1
  plugins:
    nonsense: []
  tasks:
    - name: main
      replicas: 1
      template: {spec: {containers: [{name: c, image: any}]}}
    - name: main
      replicas: 1
      template: {spec: {containers: [{name: c, image: any}]}}
"""


def test_all_mistakes_of_a_job_are_told_at_once_with_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(MISTAKEN)
    done = run(path, tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    told = [line.removeprefix("error: ").removeprefix(str(path)) for line in done.stderr.splitlines()]
    assert [": ".join(line.split(": ")[:2]) for line in told] == [
        ":6: spec.minAvailable",
        ":7: spec.zork",
        ":9: spec.plugins.nonsense",
        ":14: spec.tasks[1].name",
    ]


def test_a_queue_in_the_same_file_is_opened_before_the_job_comes(tmp_path: Path) -> None:
    queue = (
        "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: own}}\nspec: {{weight: 1}}\n"
    )
    text = JOB.replace("spec:\n  minAvailable", "spec:\n  queue: own\n  minAvailable", 1) + queue
    done = run(write(tmp_path, text), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_will_never_come_is_not_waited_for_on_a_private_cluster(tmp_path: Path) -> None:
    text = JOB + "              envFrom: [{{configMapRef: {{name: nowhere}}}}]\n"
    done = run(write(tmp_path, text), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'configmap "nowhere" not found' in done.stderr


def test_a_run_that_cannot_begin_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run(write(tmp_path, JOB), tmp_path, "--node-cpu", "many")
    assert (done.returncode, "is not a quantity" in done.stderr) == (64, True)
    assert [path.name for path in tmp_path.iterdir()] == ["job.yaml"]


def test_a_part_of_the_cluster_that_cannot_start_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "run").mkdir(parents=True)
    (data / "nodes").mkdir()
    (data / "nodes/pods").write_text("a file where the node wants its folder")
    done = run(write(tmp_path, JOB), tmp_path, "--data-dir", str(data))
    assert done.returncode == 1
    assert "node-local could not start" in done.stderr
    assert not processes_of(data)


def test_detaching_needs_a_cluster_that_stays(tmp_path: Path) -> None:
    done = run(write(tmp_path, JOB), tmp_path, "--detach")
    assert done.returncode == 1
    assert "hekla up --detach" in done.stderr


def test_help_and_version_need_no_cluster() -> None:
    for command in ([], ["run"], ["up"], ["job", "list"], ["why"], ["scheduler"]):
        done = subprocess.run([HEKLA, *command, "--help"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0
        assert "Example:" in done.stdout or "Try:" in done.stdout
    assert subprocess.run([HEKLA, "--version"], capture_output=True, timeout=60).returncode == 0


def test_a_killed_run_takes_its_private_cluster_with_it(tmp_path: Path) -> None:
    job = write(tmp_path, JOB, command='["sleep", "600"]')
    environment = {**clean_environment(), "XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([HEKLA, "run", job], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        if "1 running" in line:
            break
    process.kill()
    process.communicate()
    eventually(lambda: not processes_of(tmp_path) and not mounts_of(tmp_path), what="nothing is left")


def test_room_that_another_pod_of_the_file_will_leave_is_waited_for(tmp_path: Path) -> None:
    pod = """---
apiVersion: v1
kind: Pod
metadata: {{name: holder}}
spec:
  nodeName: local
  restartPolicy: Never
  containers: [{{name: main, image: any, command: [sleep, "4"], resources: {{requests: {{cpu: "2"}}}}}}]
"""
    done = run(write(tmp_path, JOB + pod, cpu=2), tmp_path, "--node-cpu", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NotEnoughResources" in done.stdout


def test_the_outcome_is_a_document_on_wish_with_what_was_asked_and_used(tmp_path: Path) -> None:
    busy = "import time; x = bytearray(150 << 20)\\nwhile time.process_time() < 0.5: pass"
    done = run(write(tmp_path, JOB, command=f'[python3, -c, "{busy}"]'), tmp_path, "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["job"], outcome["phase"], outcome["exitStatus"]) == ("example", "Completed", 0)
    usage = outcome["tasks"][0]["usagePerPod"]
    assert usage["cpuAsked"] == 0.1
    assert usage["cpuUsed"] > 0
    assert usage["memoryUsedBytes"] > 150 << 20
    assert outcome["pods"][0]["containers"][0]["exitCode"] == 0
    assert "example: Completed" in done.stderr


def test_a_job_that_cannot_be_placed_is_a_document_too(tmp_path: Path) -> None:
    done = run(write(tmp_path, JOB, cpu=900), tmp_path, "-o", "json")
    outcome = json.loads(done.stdout)
    assert (done.returncode, outcome["exitStatus"], outcome["phase"]) == (2, 2, "Pending")
    assert outcome["reason"] == "NotEnoughResources"
    assert "900" in outcome["message"]


def test_a_command_that_cannot_be_started_is_not_tried_for_ever(tmp_path: Path) -> None:
    text = JOB.replace("restartPolicy: Never", "restartPolicy: OnFailure")
    done = run(write(tmp_path, text, command="[no-such-program]"), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'example cannot start: example-main-0: exec: "no-such-program"' in done.stderr


def test_a_job_larger_than_a_cluster_that_stays_exits_with_2_and_starts_when_there_is_more(tmp_path: Path) -> None:
    data = tmp_path / "data"
    where = f"--data-dir {data}"
    with start_cluster(data, "--node-cpu", "1") as cluster:
        done = cluster.hekla("run", write(tmp_path, JOB, cpu=7), check=False)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "example cannot be placed on the whole of this cluster: cpu: 7 asked" in done.stderr
        assert f"`hekla down {where}`, then `hekla up {where}`" in done.stderr
        assert f"`hekla job delete example {where}`" in done.stderr
        assert cluster.names("vcjob") == ["example"]
    with start_cluster(data, "--node-cpu", "7") as cluster:
        cluster.wait_for("vcjob/example", ".status.state.phase", "Completed")


def test_room_that_others_may_leave_on_a_cluster_that_stays_is_waited_for(tmp_path: Path) -> None:
    with start_cluster(tmp_path / "data", "--node-cpu", "2") as cluster:
        cluster.hekla("run", write(tmp_path, JOB, cpu=2, command='[sleep, "6"]'), "--detach")
        cluster.wait_for("vcjob/example", ".status.state.phase", "Running")
        text = JOB.replace("name: example", "name: second")
        done = cluster.hekla("run", write(tmp_path, text, cpu=2))
        assert "NotEnoughResources" in done.stdout


def test_a_data_dir_kept_from_run_to_run_says_how_to_have_its_job_and_how_to_be_rid_of_it(tmp_path: Path) -> None:
    """What it tells to type is typed here."""
    data = tmp_path / "my data"
    file = write(tmp_path, JOB.replace("name: example", "name: example\n  namespace: team"), command="[echo, heard]")
    first = run(file, tmp_path, "--data-dir", str(data))
    assert first.returncode == 0, first.stdout + first.stderr
    commands = [line.strip() for line in first.stdout.splitlines() if line.startswith("  hekla ")]
    assert "heard" in typed([*commands, f"hekla down --data-dir '{data}'"])
    second = run(file, tmp_path, "--data-dir", str(data))
    assert second.returncode == 1
    assert f"Job 'example' exists already on {data}" in second.stderr
    assert "Completed" in second.stderr
    typed([second.stderr.partition("To delete it:")[2].splitlines()[0]])
    assert run(file, tmp_path, "--data-dir", str(data)).returncode == 0
    assert not processes_of(data)


def test_a_job_that_is_there_already_is_named_as_it_is_found(tmp_path: Path) -> None:
    with start_cluster(tmp_path / "data") as cluster:
        cluster.kubectl("create", "namespace", "team")
        file = write(tmp_path, JOB.replace("name: example", "name: example\n  namespace: team"))
        done = cluster.hekla("run", file)
        flags = f"--data-dir {cluster.data_dir} -n team"
        assert f"hekla logs example {flags}\n" in done.stdout
        done = cluster.hekla("run", file, check=False)
        assert done.returncode == 1
        assert f"(`hekla job delete example {flags}`)" in done.stderr
        typed([f"hekla job delete example {flags}"])


def typed(commands: list[str]) -> str:
    """What a shell that finds our programs says to them."""
    environment = {**clean_environment(), "PATH": f"{HEKLA.parent}:{os.environ['PATH']}", "XDG_STATE_HOME": "/dev/null"}
    script = " && ".join(commands)
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
    return done.stdout
