"""The verbs beside `run`, on a cluster whose nodes only pretend: what they print and how they end."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import make
from tests.e2e.local_cluster import HEKLA, HELLO_GANG, LocalCluster, clean_environment, start_cluster
from tests.eventually import eventually

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    flags = ("--nodes", "0", "--simulated-nodes", "2", "--node-cpu", "4", "--node-memory", "8Gi")
    with start_cluster(tmp_path_factory.mktemp("commands") / "data", *flags) as running:
        yield running


def vcctl(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [HEKLA.with_name("vcctl"), *arguments, "--data-dir", cluster.data_dir]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["queue", "get", "--name", "nobody"], 'Failed to get queue: queues.scheduling.volcano.sh "nobody" not found'),
        (["queue", "get"], "Failed to get queue: name is mandatory to get the particular queue details"),
        (["job", "delete", "--name", "nobody"], 'Failed to delete job: jobs.batch.volcano.sh "nobody" not found'),
        (["job", "delete"], "Failed to delete job: job name is mandatory to delete a particular job"),
        (["job", "run"], "Failed to run job: job name cannot be left blank"),
        (
            ["job", "run", "--name", "bad", "--requests", "cpu"],
            "Failed to run job: invalid argument syntax cpu, expected <resource>=<value>",
        ),
        (
            ["job", "run", "--name", "bad", "--requests", "cpu=much"],
            "Failed to run job: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            ["job", "run", "--name", "bad", "--min", "5"],
            'Failed to run job: admission webhook "validatejob.volcano.sh" denied the request: '
            "job 'minAvailable' should not be greater than total replicas in tasks;",
        ),
        (
            ["queue", "create", "--name", "root"],
            'Failed to create queue: queues.scheduling.volcano.sh "root" already exists',
        ),
        (["queue", "operate", "--name", "default"], "Failed to operate queue: action can not be null"),
    ],
)
def test_vcctl_says_what_failed_and_exits_with_255(cluster: LocalCluster, arguments: list[str], said: str) -> None:
    done = vcctl(cluster, *arguments)
    assert done.returncode == 255
    assert done.stdout.strip() == said


@pytest.mark.parametrize("flags", [[], ["--with-node"], ["--image", "hekla:1.0"]], ids=" ".join)
def test_a_local_cluster_needs_no_install_and_goes_on_when_one_is_tried(
    cluster: LocalCluster, flags: list[str]
) -> None:
    done = cluster.hekla("install", *flags, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == (
        f"error: the cluster on {cluster.data_dir} is a local one, which brings everything itself: "
        "`hekla install` is for a cluster of your own, named by --kubeconfig"
    )
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(make.new_job("goes-on", make.task("worker", 1))))
    cluster.wait_for("vcjob/goes-on", ".status.state.phase", "Running")
    cluster.hekla("job", "delete", "goes-on")
    eventually(lambda: not cluster.names("pod"))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["controllers"], "has controllers of its own: both act on the same Jobs"),
        (["scheduler"], "has a scheduler of its own: both act on the same pods, unless --scheduler-name differs"),
        (
            ["node", "--name", "lone", "--simulated-nodes", "1"],
            "does not find out when a node of this command is gone: take it away then with `kubectl delete node`, "
            "and its pods with `kubectl delete pod --force`",
        ),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_one_component_more_on_a_local_cluster_is_told_what_that_means(
    cluster: LocalCluster, command: list[str], said: str, tmp_path: Path
) -> None:
    words = [HEKLA, *command, "--kubeconfig", cluster.kubeconfig]
    home = {**clean_environment(), "HOME": str(tmp_path)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=home) as process:
        told = iter(process.stderr or ())
        found = next((line for line in told if line.startswith("note: the local") or "ready" in line), "")
        process.terminate()
        process.communicate(timeout=60)
    cluster.kubectl("delete", "node", "lone-0", "--ignore-not-found")
    assert found == f"note: the local cluster on {cluster.data_dir} {said}\n"


def test_a_queue_is_operated_with_an_action_and_those_there_are_are_told(cluster: LocalCluster) -> None:
    done = cluster.hekla("queue", "operate", "default", check=False)
    assert done.stderr.strip() == "error: Failed to operate queue: --action is missing: open, close or update"


def test_what_a_file_has_besides_is_told_by_its_own_kind(cluster: LocalCluster, tmp_path: Path) -> None:
    template = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": "step"}}
    flow = {**template, "kind": "JobFlow", "metadata": {"name": "steps"}, "spec": {"flows": [{"name": "step"}]}}
    template["spec"] = make.new_job("step", make.task("worker", 0))["spec"]
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    file = tmp_path / "flow.yaml"
    file.write_text(yaml.safe_dump_all([template, flow]))
    said = cluster.hekla("jobflow", "create", "-f", str(file)).stdout.splitlines()
    assert said == ["jobtemplate.flow.volcano.sh/step created", "jobflow.flow.volcano.sh/steps created"]
    cluster.hekla("jobflow", "delete", "steps")
    eventually(lambda: not cluster.names("vcjob"))
    file.write_text(yaml.safe_dump_all([code]))
    said = cluster.hekla("job", "run", "-f", str(file)).stdout.splitlines()
    assert said == ["configmap/code created"]


@pytest.mark.parametrize("kind", ["job", "pod", "jobflow", "jobtemplate"])
def test_lists_of_nothing_say_so(cluster: LocalCluster, kind: str) -> None:
    done = vcctl(cluster, kind, "list", "--namespace", "kube-public")
    assert (done.returncode, done.stdout.strip()) == (0, "No resources found")


def test_a_job_made_from_words_runs_and_can_be_looked_at(cluster: LocalCluster) -> None:
    words = ["--name", "words", "--image", "img", "--replicas", "2", "--min", "1", "--requests", "cpu=100m"]
    assert "run job words successfully" in vcctl(cluster, "job", "run", *words).stdout
    again = vcctl(cluster, "job", "run", *words).stdout.strip()
    assert again == 'Failed to run job: jobs.batch.volcano.sh "words" already exists'
    cluster.wait_for("vcjob/words", ".status.state.phase", "Running")
    assert "words-default0-1" in vcctl(cluster, "pod", "list", "--job", "words").stdout
    assert "Running" in vcctl(cluster, "job", "view", "--name", "words").stdout
    listed = json.loads(cluster.hekla("job", "list", "-o", "json").stdout)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["words"]
    told = eventually(lambda: "Successfully assigned" in (text := cluster.hekla("events", "words").stdout) and text)
    assert "podgroup/words-" in told
    other = vcctl(cluster, "pod", "list", "--job", "words", "--queue", "other").stdout.strip()
    assert other == "Failed to list pod: the input vcjob words does not match the queue other"
    cluster.hekla("job", "delete", "words")
    eventually(lambda: not cluster.names("pod"))


def test_pods_of_other_workloads_are_listed_by_the_queue_they_ask_for(cluster: LocalCluster) -> None:
    asks = {"scheduling.volcano.sh/queue-name": "default"}
    pod = make.pod("bare", spec={"schedulerName": "nobody"}, annotations=asks)
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    assert "bare" in vcctl(cluster, "pod", "list", "--queue", "default").stdout
    assert "bare" not in vcctl(cluster, "pod", "list").stdout
    cluster.kubectl("delete", "pod", "bare", "--now")


def test_several_jobs_are_suspended_resumed_and_deleted_at_once(cluster: LocalCluster) -> None:
    for name in ("first", "second"):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(make.new_job(name, make.task("worker", 0))))
    for verb, said in (("suspend", "{}: suspending"), ("resume", "{}: resuming"), ("delete", "{} deleted")):
        done = cluster.hekla("job", verb, "first", "nobody", "second", "first", check=False)
        told = [f"job.batch.volcano.sh/{said.format(name)}" for name in ("first", "second")]
        assert (done.returncode, done.stdout.splitlines()) == (1, told)
        assert done.stderr.strip() == f'error: Failed to {verb} job: jobs.batch.volcano.sh "nobody" not found'
    eventually(lambda: not cluster.names("vcjob"))
    done = cluster.hekla("queue", "delete", "nowhere", "nobody", check=False)
    assert done.returncode == 1
    nowhere, nobody = done.stderr.splitlines()
    assert nowhere == 'error: Failed to delete queue: queues.scheduling.volcano.sh "nowhere" not found'
    assert nobody == 'queues.scheduling.volcano.sh "nobody" not found'


@pytest.mark.parametrize("names", [("",), ("", "first"), ("first", "")])
def test_nothing_is_deleted_where_a_name_is_empty(cluster: LocalCluster, names: tuple[str, ...]) -> None:
    for name in ("first", "second"):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(make.new_job(name, make.task("worker", 0))))
    done = cluster.hekla("job", "delete", *names, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == "error: Failed to delete job: job name is mandatory to delete a particular job"
    assert {*cluster.names("vcjob")} >= {"first", "second"}
    cluster.hekla("job", "delete", "first", "second")
    eventually(lambda: not cluster.names("vcjob"))


def test_a_job_that_waits_for_a_claim_says_so_everywhere(cluster: LocalCluster) -> None:
    volumes = [{"mountPath": "/in", "volumeClaimName": "missing"}]
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(make.new_job("reader", volumes=volumes)))
    eventually(lambda: "WaitingForVolume" in cluster.hekla("job", "list").stdout)
    told = cluster.hekla("why", "reader").stdout
    assert "WaitingForVolume: Failed to create PVC, err: pvc missing is not found" in told
    cluster.hekla("job", "delete", "reader")
    eventually(lambda: not cluster.names("vcjob"))


def test_vcctl_asks_for_the_resume_of_a_job_that_has_ended_and_hekla_refuses(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(make.new_job("over", make.task("worker", 0))))
    job = json.dumps({"status": {"state": {"phase": "Completed"}}})
    cluster.kubectl("patch", "vcjob", "over", "--subresource=status", "--type=merge", "-p", job)
    done = vcctl(cluster, "job", "resume", "--name", "over")
    assert (done.returncode, done.stdout) == (0, "")
    refused = cluster.hekla("job", "resume", "over", check=False)
    assert (refused.returncode, "over has ended (Completed)" in refused.stderr) == (1, True)
    cluster.hekla("job", "delete", "over")


def test_a_queue_is_created_closed_opened_and_deleted(cluster: LocalCluster) -> None:
    cluster.hekla("queue", "create", "research", "--weight", "3")
    for action, state in (("close", "Closed"), ("open", "Open")):
        cluster.hekla("queue", "operate", "research", "--action", action)
        eventually(lambda state=state: f"research   3        {state}" in cluster.hekla("queue", "list").stdout)
    cluster.hekla("queue", "create", "physics", "--parent", "research")
    cluster.hekla("queue", "operate", "research", "--action", "close")
    eventually(lambda: cluster.hekla("queue", "list").stdout.count("Closed") == 2)
    waits = cluster.hekla("queue", "operate", "physics", "--action", "open").stdout
    assert "It opens when its parent does: queue research is Closed." in waits
    for queue in ("physics", "research"):
        cluster.hekla("queue", "delete", queue)
    refused = cluster.hekla("queue", "delete", "default", check=False)
    assert refused.returncode == 1
    assert "`default` queue can not be deleted" in refused.stderr


def test_a_queue_is_closed_whatever_namespace_the_kubeconfig_names(cluster: LocalCluster) -> None:
    elsewhere = cluster.kubeconfig.with_name("elsewhere")
    shutil.copy(cluster.kubeconfig, elsewhere)
    subprocess.run(
        [
            cluster.kubectl_program,
            "--kubeconfig",
            elsewhere,
            "config",
            "set-context",
            "--current",
            "--namespace=nowhere",
        ],
        check=True,
    )
    cluster.hekla("queue", "create", "anywhere")
    cluster.wait_for("queue/anywhere", ".status.state", "Open")
    cluster.hekla("queue", "operate", "anywhere", "--action", "close", "--kubeconfig", elsewhere)
    cluster.wait_for("queue/anywhere", ".status.state", "Closed")
    cluster.hekla("queue", "delete", "anywhere")


def test_plan_tells_placements_without_submitting(cluster: LocalCluster) -> None:
    planned = json.loads(cluster.hekla("plan", HELLO_GANG, "-o", "json").stdout)
    assert sorted(planned["placements"]) == [f"hello-gang-worker-{index}" for index in range(3)]
    assert cluster.names("vcjob") == []


def test_plan_says_why_a_job_would_wait(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    big = tmp_path_factory.mktemp("plan") / "big.yaml"
    big.write_text(HELLO_GANG.read_text().replace("cpu: 100m", "cpu: 7"))
    done = cluster.hekla("plan", big, check=False)
    assert done.returncode == 2
    assert "hello-gang would wait" in done.stdout
    assert "cpu" in done.stdout


def test_plan_looks_at_claims_as_the_scheduler_does(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    document = yaml.safe_load(HELLO_GANG.read_text())
    template = document["spec"]["tasks"][0]["template"]["spec"]
    template["volumes"] = [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]
    job = tmp_path_factory.mktemp("claims") / "job.yaml"
    job.write_text(yaml.safe_dump(document))

    done = cluster.hekla("plan", job, check=False)
    assert done.returncode == 2
    assert '"shared" not found' in done.stdout
    cluster.kubectl("apply", "-f", "-", stdin=CLAIM)
    assert "would wait" not in cluster.hekla("plan", job).stdout


def test_why_names_what_is_missing_and_where(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    job = tmp_path_factory.mktemp("why") / "job.yaml"
    job.write_text(HELLO_GANG.read_text().replace("cpu: 100m", "cpu: 2500m"))
    cluster.hekla("run", job, "--detach")

    def explained() -> dict[str, object]:
        answer: dict[str, object] = json.loads(cluster.hekla("why", "hello-gang", "-o", "json").stdout)
        assert "cpu" in str(answer["message"])
        return answer

    answer = eventually(explained)
    assert answer["phase"] == "Pending"
    cluster.hekla("job", "delete", "hello-gang")
    eventually(lambda: not cluster.names("pod"))


def waiting_job(name: str, queue: str = "default", **pod: Any) -> str:
    container = {"name": "main", "image": "img", "resources": pod.pop("resources", {"requests": {"cpu": "1"}})}
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [container], **pod}}}
    spec = {"minAvailable": 1, "schedulerName": "volcano", "queue": queue, "tasks": [task]}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    return json.dumps(job)


def queue(name: str, **spec: Any) -> str:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": {"weight": 1, **spec}})


GATE = {"schedulingGates": [{"name": "example.com/licence"}]}


def test_why_tells_the_first_true_cause(cluster: LocalCluster) -> None:
    for made in (queue("why-small", capability={"cpu": "500m"}), queue("why-shut"), queue("why-gone")):
        cluster.kubectl("create", "-f", "-", stdin=made)
    for name in ("why-small", "why-shut", "why-gone"):
        cluster.wait_for(f"queue/{name}", ".status.state", "Open")
    gpu = {"nvidia.com/gpu": "1"}
    for job in (
        waiting_job("why-gpu", resources={"requests": gpu, "limits": gpu}),
        waiting_job("why-gated", **GATE),
        waiting_job("why-too-much", "why-small"),
        waiting_job("why-closed", "why-shut", **GATE),
        waiting_job("why-orphan", "why-gone", **GATE),
    ):
        cluster.kubectl("create", "-f", "-", stdin=job)

    def says(job: str, words: str) -> None:
        eventually(lambda: words in cluster.hekla("why", job).stdout.splitlines(), what=f"{job} says {words}")

    says("why-gpu", "  NotEnoughResources: no node has nvidia.com/gpu: 1 asked")
    says("why-gated", "  WaitingForGate: 1 of 1 pods are held by scheduling gates: example.com/licence")
    says("why-too-much", "  QueueOverQuota: queue why-small: cpu: 1 asked, 500m allowed in all")
    cluster.hekla("queue", "operate", "why-shut", "--action", "close")
    opened = '[{"op": "remove", "path": "/spec/schedulingGates"}]'
    cluster.kubectl("patch", "pod", "why-closed-t-0", "--type=json", "-p", opened)
    says("why-closed", "  QueueNotOpen: queue why-shut is Closing: nothing new starts in it until it is opened")
    cluster.kubectl("delete", "queue", "why-gone")
    orphan = "  QueueUnusable: queue why-gone does not exist: make it, or name another in a new job"
    says("why-orphan", orphan)
    (listed,) = [row for row in cluster.hekla("job", "list").stdout.splitlines() if row.startswith("why-orphan ")]
    assert listed.split()[2] == "QueueUnusable"
    # The others find the cluster as they know it: what waits here has its share of the queue.
    cluster.kubectl("delete", "vcjob", "--all")
    eventually(lambda: not cluster.names("pod"))
    cluster.kubectl("delete", "queue", "why-small", "why-shut")


def test_why_and_plan_tell_what_would_help(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster.kubectl("create", "-f", "-", stdin=queue("help-small", capability={"cpu": "500m"}))
    cluster.wait_for("queue/help-small", ".status.state", "Open")
    job = tmp_path_factory.mktemp("help") / "job.json"
    job.write_text(waiting_job("helpless", "help-small"))
    helps = [
        "WHAT WOULD HELP (each was tried on a copy of the cluster)",
        "  not even an empty cluster would do",
        "  it would start now if queue help-small allowed 1 cpu (500m now)",
        "  it would start now in queue default",
    ]
    planned = cluster.hekla("plan", job, check=False)
    assert (planned.returncode, planned.stdout.splitlines()[-4:]) == (2, helps)
    cluster.kubectl("create", "-f", job)
    eventually(lambda: cluster.hekla("why", "helpless").stdout.splitlines()[-4:] == helps, what="why says the same")
    told = json.loads(cluster.hekla("why", "helpless", "-o", "json").stdout)["remedies"]
    assert [remedy["kind"] for remedy in told] == ["NotEvenEmpty", "QueueLimit", "OtherQueue"]
    # Of what is told one thing is done, and the job starts.
    raised = json.dumps({"spec": {"capability": told[1]["limits"]["help-small"]}})
    cluster.kubectl("patch", "queue", "help-small", "--type=merge", "-p", raised)
    eventually(lambda: "is running" in cluster.hekla("why", "helpless").stdout)
    assert json.loads(cluster.hekla("why", "helpless", "-o", "json").stdout)["remedies"] == []
    cluster.kubectl("delete", "vcjob", "helpless")
    eventually(lambda: not cluster.names("pod"))
    cluster.kubectl("delete", "queue", "help-small")


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        ("hekla why tab-", ["tab-one", "tab-two"]),
        ("hekla logs -f tab-t", ["tab-two"]),
        ("hekla job delete tab-o", ["tab-one"]),
        ("vcctl job view --name tab-o", ["tab-one"]),
        ("hekla queue get def", ["default"]),
        ("hekla why --kubeconfig /nowhere tab-", []),
    ],
)
def test_who_presses_tab_is_offered_the_names_there_are(cluster: LocalCluster, words: str, proposed: list[str]) -> None:
    for name in ("tab-one", "tab-two"):
        written = {**make.job(name), "metadata": {"name": name}}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(written))
    program, *rest = words.split()
    environment = {
        **clean_environment(),
        "HEKLA_DATA_DIR": str(cluster.data_dir),
        f"_{program.upper()}_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(rest)),
    }
    done = subprocess.run([HEKLA.with_name(program)], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.split() == [f"plain,{name}" for name in proposed], done.stderr
    assert not done.stderr
