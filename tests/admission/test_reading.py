from __future__ import annotations

from typing import Any

import pytest

from hekla.admission.reading import unreadable
from hekla.api.upstream_types import POD_GROUP, QUEUE
from tests import make

CONTAINERS = "spec.tasks.template.spec.containers"
FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"


def read(**spec: Any) -> str:
    return unreadable({"spec": {"tasks": [], **spec}})


def template(**spec: Any) -> dict[str, Any]:
    return {"tasks": [{"template": {"spec": spec}}]}


def with_container(**fields: Any) -> dict[str, Any]:
    return template(containers=[make.container(**fields)])


def test_a_good_job_is_readable() -> None:
    policies = [make.policy("PodFailed", "RestartJob", timeout="1h30m"), {"exitCode": 3, "action": "AbortJob"}]
    job = make.job("demo", make.task("a", 2, policies=policies), plugins={"svc": [], "env": ["--x"]}, minSuccess=1)
    job["spec"]["volumes"] = [{"mountPath": "/x", "volumeClaim": {"accessModes": []}}]
    job["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    resources = {"limits": {"cpu": 1, "memory": "1Gi"}}
    main = make.container(
        resources=resources, env=[{"name": "X", "value": "5"}], tty=True, ports=[{"containerPort": 80}]
    )
    job["spec"]["tasks"][0]["template"]["spec"] = {
        "containers": [main],
        "nodeSelector": {"a": "b"},
        "hostNetwork": True,
    }
    assert unreadable(job) == ""


@pytest.mark.parametrize(
    ("spec", "found", "place", "name"),
    [
        ({"minAvailable": "two"}, "string", "JobSpec.spec.minAvailable", "int32"),
        ({"minAvailable": 1.5}, "number 1.5", "JobSpec.spec.minAvailable", "int32"),
        ({"maxRetry": 1 << 31}, "number 2147483648", "JobSpec.spec.maxRetry", "int32"),
        ({"queue": 5}, "number", "JobSpec.spec.queue", "string"),
        ({"queue": True}, "bool", "JobSpec.spec.queue", "string"),
        ({"plugins": {"svc": "x"}}, "string", "JobSpec.spec.plugins", "[]string"),
        ({"plugins": []}, "array", "JobSpec.spec.plugins", "map[string][]string"),
        ({"tasks": {}}, "object", "JobSpec.spec.tasks", "[]v1alpha1.TaskSpec"),
        ({"tasks": ["x"]}, "string", "JobSpec.spec.tasks", "v1alpha1.TaskSpec"),
        ({"tasks": [{"replicas": "1"}]}, "string", "TaskSpec.spec.tasks.replicas", "int32"),
        ({"tasks": [{"template": "x"}]}, "string", "TaskSpec.spec.tasks.template", "v1.PodTemplateSpec"),
        ({"tasks": [{"dependsOn": {"name": "x"}}]}, "string", "DependsOn.spec.tasks.dependsOn.name", "[]string"),
        ({"policies": [{"exitCode": "1"}]}, "string", "LifecyclePolicy.spec.policies.exitCode", "int32"),
        ({"policies": [{"event": 1}]}, "number", "LifecyclePolicy.spec.policies.event", "v1alpha1.Event"),
        (template(hostNetwork="yes"), "string", "PodSpec.spec.tasks.template.spec.hostNetwork", "bool"),
        (template(restartPolicy=1), "number", "PodSpec.spec.tasks.template.spec.restartPolicy", "v1.RestartPolicy"),
        (
            template(terminationGracePeriodSeconds="1"),
            "string",
            "PodSpec.spec.tasks.template.spec.terminationGracePeriodSeconds",
            "int64",
        ),
        (template(nodeSelector={"a": 1}), "number", "PodSpec.spec.tasks.template.spec.nodeSelector", "string"),
        (
            template(containers=[make.container(env=[{"name": "X", "value": 5}])]),
            "number",
            "EnvVar.spec.tasks.template.spec.containers.env.value",
            "string",
        ),
        (
            template(containers=[make.container(command="sleep")]),
            "string",
            "Container.spec.tasks.template.spec.containers.command",
            "[]string",
        ),
        (
            template(containers=[make.container(ports=[{"containerPort": "80"}])]),
            "string",
            "ContainerPort.spec.tasks.template.spec.containers.ports.containerPort",
            "int32",
        ),
        (
            template(containers=[make.container(resources={"limits": []})]),
            "array",
            "ResourceRequirements.spec.tasks.template.spec.containers.resources.limits",
            "v1.ResourceList",
        ),
        (with_container(lifecycle=[]), "array", f"Container.{CONTAINERS}.lifecycle", "v1.Lifecycle"),
        (
            with_container(lifecycle={"preStop": []}),
            "array",
            f"Lifecycle.{CONTAINERS}.lifecycle.preStop",
            "v1.LifecycleHandler",
        ),
        (
            with_container(lifecycle={"preStop": {"sleep": {"seconds": "x"}}}),
            "string",
            f"SleepAction.{CONTAINERS}.lifecycle.preStop.sleep.seconds",
            "int64",
        ),
        (with_container(readinessProbe=[]), "array", f"Container.{CONTAINERS}.readinessProbe", "v1.Probe"),
        (with_container(securityContext=[]), "array", f"Container.{CONTAINERS}.securityContext", "v1.SecurityContext"),
        (template(affinity=[]), "array", "PodSpec.spec.tasks.template.spec.affinity", "v1.Affinity"),
        (template(dnsConfig=[]), "array", "PodSpec.spec.tasks.template.spec.dnsConfig", "v1.PodDNSConfig"),
        (
            template(securityContext=[]),
            "array",
            "PodSpec.spec.tasks.template.spec.securityContext",
            "v1.PodSecurityContext",
        ),
        ({"networkTopology": "hard"}, "string", "JobSpec.spec.networkTopology", "v1alpha1.NetworkTopologySpec"),
        (
            with_container(securityContext={"runAsUser": "x"}),
            "string",
            f"SecurityContext.{CONTAINERS}.securityContext.runAsUser",
            "int64",
        ),
        (
            with_container(securityContext={"capabilities": {"add": "ALL"}}),
            "string",
            f"Capabilities.{CONTAINERS}.securityContext.capabilities.add",
            "[]v1.Capability",
        ),
        (
            with_container(env=[{"name": "X", "valueFrom": {"fieldRef": "metadata.name"}}]),
            "string",
            f"EnvVarSource.{CONTAINERS}.env.valueFrom.fieldRef",
            "v1.ObjectFieldSelector",
        ),
        (
            with_container(envFrom=[{"configMapRef": {"name": 5}}]),
            "number",
            f"ConfigMapEnvSource.{CONTAINERS}.envFrom.configMapRef.LocalObjectReference.name",
            "string",
        ),
        (
            with_container(livenessProbe={"httpGet": []}),
            "array",
            f"Probe.{CONTAINERS}.livenessProbe.ProbeHandler.httpGet",
            "v1.HTTPGetAction",
        ),
        (
            with_container(livenessProbe={"httpGet": {"port": 1.5}}),
            "number 1.5",
            f"HTTPGetAction.{CONTAINERS}.livenessProbe.ProbeHandler.httpGet.port",
            "int32",
        ),
        (
            template(volumes=[{"name": "x", "emptyDir": "y"}]),
            "string",
            "Volume.spec.tasks.template.spec.volumes.VolumeSource.emptyDir",
            "v1.EmptyDirVolumeSource",
        ),
        (
            template(volumes=[{"name": "x", "configMap": {"defaultMode": "0644"}}]),
            "string",
            "ConfigMapVolumeSource.spec.tasks.template.spec.volumes.VolumeSource.configMap.defaultMode",
            "int32",
        ),
        (
            template(securityContext={"runAsNonRoot": "true"}),
            "string",
            "PodSecurityContext.spec.tasks.template.spec.securityContext.runAsNonRoot",
            "bool",
        ),
        (
            template(affinity={"nodeAffinity": []}),
            "array",
            "Affinity.spec.tasks.template.spec.affinity.nodeAffinity",
            "v1.NodeAffinity",
        ),
        (
            template(topologySpreadConstraints=[{"maxSkew": "1"}]),
            "string",
            "TopologySpreadConstraint.spec.tasks.template.spec.topologySpreadConstraints.maxSkew",
            "int32",
        ),
        (
            template(dnsConfig={"nameservers": "1.1.1.1"}),
            "string",
            "PodDNSConfig.spec.tasks.template.spec.dnsConfig.nameservers",
            "[]string",
        ),
        (
            {"volumes": [{"volumeClaim": {"selector": "x"}}]},
            "string",
            "PersistentVolumeClaimSpec.spec.volumes.volumeClaim.selector",
            "v1.LabelSelector",
        ),
    ],
)
def test_a_wrong_type_is_named_with_its_place(spec: dict[str, Any], found: str, place: str, name: str) -> None:
    assert read(**spec) == FIELD.format(found, place, name)


@pytest.mark.parametrize(
    ("timeout", "text"),
    [
        ("soon", 'time: invalid duration "soon"'),
        ("", 'time: invalid duration ""'),
        ("5", 'time: missing unit in duration "5"'),
        ("5 m", 'time: unknown unit " m" in duration "5 m"'),
        (5, FIELD.format("number", "LifecyclePolicy.spec.policies.timeout", "string")),
        ([], FIELD.format("array", "LifecyclePolicy.spec.policies.timeout", "string")),
    ],
)
def test_a_timeout_that_is_none_is_refused(timeout: Any, text: str) -> None:
    assert read(policies=[{"event": "PodFailed", "action": "AbortJob", "timeout": timeout}]) == text


def test_queues_and_pod_groups_are_read_to_the_last_field() -> None:
    clusters = {"spec": {"extendClusters": [{"weight": "x"}]}}
    assert unreadable(clusters, QUEUE) == FIELD.format("string", "Cluster.spec.extendClusters.weight", "int32")
    group = {"spec": {"subGroupPolicy": [{"labelSelector": {"matchLabels": {"a": 5}}}]}}
    where = "LabelSelector.spec.subGroupPolicy.labelSelector.matchLabels"
    assert unreadable(group, POD_GROUP) == FIELD.format("number", where, "string")


def test_a_port_that_is_none_ends_the_reading() -> None:
    with_probe = template(containers=[make.container(livenessProbe={"httpGet": {"port": True}})])
    assert "HTTPGetAction" in read(maxRetry="x", **with_probe)
    for port in ("http", 80):
        assert read(**template(containers=[make.container(livenessProbe={"tcpSocket": {"port": port}})])) == ""


def test_of_several_the_one_that_ends_the_reading_is_told_else_the_first_by_name() -> None:
    assert "maxRetry" in read(queue=1, maxRetry="x")
    assert read(maxRetry="x", policies=[{"timeout": "soon"}]) == 'time: invalid duration "soon"'


@pytest.mark.parametrize("amount", ["much", "", True, [], "1e1.5"])
def test_an_amount_that_is_none_is_refused_wherever_it_stands(amount: Any) -> None:
    text = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    resources = {"requests": {"storage": amount}}
    assert read(**template(containers=[make.container(resources=resources)])) == text
    assert read(volumes=[{"mountPath": "/x", "volumeClaim": {"resources": resources}}]) == text
