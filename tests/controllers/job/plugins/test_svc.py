from __future__ import annotations

from typing import Any

from hekla.api.job_plugins import parse_arguments
from hekla.controllers.job.model import Job, read_job
from hekla.controllers.job.plugins.env import Env
from hekla.controllers.job.plugins.svc import Svc
from tests import make

SCRATCH = {"name": "scratch", "mountPath": "/scratch"}


def example() -> Job:
    server = {
        "initContainers": [make.container("prep")],
        "containers": [make.container(env=[{"name": "MODE", "value": "ps"}], volumeMounts=[dict(SCRATCH)])],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    return read_job(
        make.job(
            "demo",
            make.task("param-server", 1, pod=server),
            make.task("worker", 2),
            make.task("spare", 0),
            make.task("pinned", 3, pod={"hostname": "box", "subdomain": "lab"}),
            namespace="team-a",
        )
    )


def svc(*arguments: str) -> Svc:
    assert Svc.flags is not None
    return Svc(parse_arguments(Svc.flags, arguments))


def reference(key: str) -> dict[str, Any]:
    return {"name": key, "valueFrom": {"configMapKeyRef": {"name": "demo-svc", "key": key}}}


HOSTS = [
    reference(f"VC_{task}_{what}")
    for task in ("PARAM_SERVER", "WORKER", "SPARE", "PINNED")
    for what in ("HOSTS", "NUM")
]


def test_b24_the_host_lists_name_every_pod_of_every_task() -> None:
    config_map = svc().objects(example())[0].obj
    assert config_map["metadata"]["name"] == "demo-svc"
    assert config_map["data"] == {
        "param_server.host": "demo-param-server-0.demo",
        "VC_PARAM_SERVER_HOSTS": "demo-param-server-0.demo",
        "VC_PARAM_SERVER_NUM": "1",
        "worker.host": "demo-worker-0.demo\ndemo-worker-1.demo",
        "VC_WORKER_HOSTS": "demo-worker-0.demo,demo-worker-1.demo",
        "VC_WORKER_NUM": "2",
        "spare.host": "",
        "VC_SPARE_HOSTS": "",
        "VC_SPARE_NUM": "0",
        "pinned.host": "box.lab",
        "VC_PINNED_HOSTS": "box.lab",
        "VC_PINNED_NUM": "1",
    }


def test_a_task_without_pods_has_no_host_even_where_its_hostname_is_fixed() -> None:
    job = read_job(make.job("demo", make.task("pinned", 0, pod={"hostname": "box"}), make.task("worker")))
    data = svc().objects(job)[0].obj["data"]
    assert (data["pinned.host"], data["VC_PINNED_HOSTS"], data["VC_PINNED_NUM"]) == ("", "", "0")


def test_the_service_is_headless_and_the_policy_lets_the_job_in() -> None:
    _, service, policy = (wanted.obj for wanted in svc().objects(example()))
    ours = {"volcano.sh/job-name": "demo", "volcano.sh/job-namespace": "team-a"}
    assert service["metadata"]["name"] == policy["metadata"]["name"] == "demo"
    assert service["spec"] == {"clusterIP": "None", "selector": ours}
    assert policy["spec"] == {
        "podSelector": {"matchLabels": ours},
        "ingress": [{"from": [{"podSelector": {"matchLabels": ours}}]}],
        "policyTypes": ["Ingress"],
    }


def test_flags_change_the_objects() -> None:
    wanted = svc("--publish-not-ready-addresses", "--disable-network-policy=true").objects(example())
    assert [one.kind.kind for one in wanted] == ["ConfigMap", "Service"]
    assert wanted[1].obj["spec"]["publishNotReadyAddresses"] is True


def shaped(job: Job, *arguments: str) -> dict[str, Any]:
    pod = make.pod("demo-param-server-0", annotations={"volcano.sh/task-index": "0"})
    pod["spec"] = job.tasks[0].obj["template"]["spec"]
    Env(parse_arguments((), ())).shape_pod(pod, job)
    svc(*arguments).shape_pod(pod, job)
    spec: dict[str, Any] = pod["spec"]
    return spec


def test_a_pod_gets_index_names_files_and_variables_in_this_order() -> None:
    spec = shaped(example())
    index = [{"name": "VK_TASK_INDEX", "value": "0"}, {"name": "VC_TASK_INDEX", "value": "0"}]
    assert (spec["hostname"], spec["subdomain"]) == ("demo-param-server-0", "demo")
    assert spec["containers"][0]["env"] == [{"name": "MODE", "value": "ps"}, *index, *HOSTS]
    assert spec["containers"][0]["volumeMounts"] == [SCRATCH, {"name": "demo-svc", "mountPath": "/etc/volcano"}]
    assert spec["initContainers"][0]["env"] == [*index, *HOSTS]
    assert spec["volumes"][1] == {"name": "demo-svc", "configMap": {"name": "demo-svc"}}


def test_b27_the_variables_can_be_left_out() -> None:
    spec = shaped(example(), "--inject-hosts-env=false")
    assert [one["name"] for one in spec["containers"][0]["env"]] == ["MODE", "VK_TASK_INDEX", "VC_TASK_INDEX"]


def test_a_pods_own_hostname_is_kept() -> None:
    job = example()
    pod = make.pod("demo-pinned-1", spec={"hostname": "box", "subdomain": "lab"})
    svc().shape_pod(pod, job)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("box", "lab")
