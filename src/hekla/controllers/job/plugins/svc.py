"""`svc`: the pods of a job find each other by name.

A headless Service gives each pod a DNS name (`<pod>.<job>`), a ConfigMap lists the names of every task for files under
/etc/volcano and for environment variables, and a NetworkPolicy lets only the job's own pods in.
"""

from __future__ import annotations

from typing import ClassVar

from hekla.api.batch import JOB_NAME, JOB_NAMESPACE
from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import CONFIG_MAP, NETWORK_POLICY, SERVICE, Obj
from hekla.api.meta import name_of
from hekla.controllers.job.hosts import task_hosts
from hekla.controllers.job.model import Job, Task
from hekla.controllers.job.plugin import Wanted, every_container, owned

_MOUNT_PATH = "/etc/volcano"


class Svc:
    flags: ClassVar[tuple[Flag, ...] | None] = (
        Flag("publish-not-ready-addresses", False, "give pods their DNS names before they are ready"),
        Flag("disable-network-policy", False, "let others than the job's own pods connect"),
        Flag("inject-hosts-env", True, "set VC_<TASK>_HOSTS and VC_<TASK>_NUM in every container"),
    )
    records: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        self._publish_not_ready = arguments.switch("publish-not-ready-addresses")
        self._network_policy = not arguments.switch("disable-network-policy")
        self._inject_hosts = arguments.switch("inject-hosts-env")

    def shape_pod(self, pod: Obj, job: Job) -> None:
        spec = pod["spec"]
        spec["hostname"] = spec.get("hostname") or name_of(pod)
        spec["subdomain"] = spec.get("subdomain") or job.key.name
        name = _config_map_name(job)
        for container in every_container(pod):
            if self._inject_hosts:
                container.setdefault("env", []).extend(_variables(job))
            container.setdefault("volumeMounts", []).append({"name": name, "mountPath": _MOUNT_PATH})
        spec.setdefault("volumes", []).append({"name": name, "configMap": {"name": name}})

    def objects(self, job: Job) -> list[Wanted]:
        wanted = [
            Wanted(CONFIG_MAP, owned(job, CONFIG_MAP, _config_map_name(job), data=_host_lists(job)), ("data",)),
            Wanted(SERVICE, owned(job, SERVICE, job.key.name, spec=self._service_spec(job))),
        ]
        if self._network_policy:
            policy = owned(job, NETWORK_POLICY, job.key.name, spec=_network_policy_spec(job))
            wanted.append(Wanted(NETWORK_POLICY, policy))
        return wanted

    def _service_spec(self, job: Job) -> Obj:
        spec: Obj = {"clusterIP": "None", "selector": _selector(job)}
        if self._publish_not_ready:
            spec["publishNotReadyAddresses"] = True
        return spec


def _config_map_name(job: Job) -> str:
    return f"{job.key.name}-svc"


def _selector(job: Job) -> dict[str, str]:
    return {JOB_NAME: job.key.name, JOB_NAMESPACE: job.key.namespace}


def _network_policy_spec(job: Job) -> Obj:
    return {
        "podSelector": {"matchLabels": _selector(job)},
        "ingress": [{"from": [{"podSelector": {"matchLabels": _selector(job)}}]}],
        "policyTypes": ["Ingress"],
    }


def _host_lists(job: Job) -> dict[str, str]:
    data = {}
    for task in job.tasks:
        hosts = task_hosts(job, task)
        data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
        data[f"{_prefix(task)}_HOSTS"] = ",".join(hosts)
        data[f"{_prefix(task)}_NUM"] = str(len(hosts))
    return data


def _variables(job: Job) -> list[Obj]:
    keys = [f"{_prefix(task)}_{suffix}" for task in job.tasks for suffix in ("HOSTS", "NUM")]
    source = _config_map_name(job)
    return [{"name": key, "valueFrom": {"configMapKeyRef": {"name": source, "key": key}}} for key in keys]


def _prefix(task: Task) -> str:
    return f"VC_{task.name.replace('-', '_').upper()}"
