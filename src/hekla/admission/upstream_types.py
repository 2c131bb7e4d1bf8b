"""The types that upstream reads Jobs, Queues and PodGroups into, as far as a person can get them wrong.

Names, fields and what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_INT32, _INT64 = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class Scalar:
    """A value of one JSON type; `name` is what it is called upstream.

    It holds `integers`, a `truth`, or else text.
    """

    name: str
    integers: range | None = None
    truth: bool = False


@dataclass(frozen=True)
class Struct:
    struct: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    package: str = "v1alpha1"

    @property
    def name(self) -> str:
        return f"{self.package}.{self.struct}"


@dataclass(frozen=True)
class ListOf:
    item: Any
    name: str


@dataclass(frozen=True)
class MapOf:
    value: Any
    name: str


@dataclass(frozen=True)
class Quantity:
    """An amount, as text or as a number."""


@dataclass(frozen=True)
class Duration:
    name: str = "v1.Duration"


STRING = Scalar("string")
BOOL = Scalar("bool", truth=True)
INT32 = Scalar("int32", _INT32)
INT64 = Scalar("int64", _INT64)
STRINGS = ListOf(STRING, "[]string")
TEXTS = MapOf(STRING, "map[string]string")


def _core(struct: str, **fields: Any) -> Struct:
    return Struct(struct, fields, package="v1")


def _list_of(item: Struct) -> ListOf:
    return ListOf(item, f"[]{item.name}")


_PORT = _core(
    "ContainerPort", name=STRING, hostPort=INT32, containerPort=INT32, protocol=Scalar("v1.Protocol"), hostIP=STRING
)
_AMOUNTS = MapOf(Quantity(), "v1.ResourceList")
_HANDLERS = {
    "exec": _core("ExecAction", command=STRINGS),
    "httpGet": _core("HTTPGetAction", path=STRING, host=STRING, scheme=Scalar("v1.URIScheme")),
    "tcpSocket": _core("TCPSocketAction", host=STRING),
}
_HOOK = _core("LifecycleHandler", **_HANDLERS, sleep=_core("SleepAction", seconds=INT64))
_PROBE = _core(
    "Probe",
    **_HANDLERS,
    grpc=_core("GRPCAction", port=INT32, service=STRING),
    initialDelaySeconds=INT32,
    timeoutSeconds=INT32,
    periodSeconds=INT32,
    successThreshold=INT32,
    failureThreshold=INT32,
    terminationGracePeriodSeconds=INT64,
)
CONTAINER = _core(
    "Container",
    name=STRING,
    image=STRING,
    command=STRINGS,
    args=STRINGS,
    workingDir=STRING,
    ports=_list_of(_PORT),
    env=_list_of(_core("EnvVar", name=STRING, value=STRING)),
    resources=_core("ResourceRequirements", limits=_AMOUNTS, requests=_AMOUNTS),
    volumeMounts=_list_of(_core("VolumeMount", name=STRING, readOnly=BOOL, mountPath=STRING, subPath=STRING)),
    livenessProbe=_PROBE,
    readinessProbe=_PROBE,
    startupProbe=_PROBE,
    lifecycle=_core("Lifecycle", postStart=_HOOK, preStop=_HOOK),
    imagePullPolicy=Scalar("v1.PullPolicy"),
    securityContext=_core("SecurityContext"),
    stdin=BOOL,
    tty=BOOL,
)
_TOLERATION = _core(
    "Toleration",
    key=STRING,
    operator=Scalar("v1.TolerationOperator"),
    value=STRING,
    effect=Scalar("v1.TaintEffect"),
    tolerationSeconds=INT64,
)
POD_SPEC = _core(
    "PodSpec",
    volumes=_list_of(_core("Volume", name=STRING)),
    initContainers=_list_of(CONTAINER),
    containers=_list_of(CONTAINER),
    restartPolicy=Scalar("v1.RestartPolicy"),
    terminationGracePeriodSeconds=INT64,
    activeDeadlineSeconds=INT64,
    dnsPolicy=Scalar("v1.DNSPolicy"),
    nodeSelector=TEXTS,
    serviceAccountName=STRING,
    automountServiceAccountToken=BOOL,
    nodeName=STRING,
    hostNetwork=BOOL,
    hostPID=BOOL,
    hostIPC=BOOL,
    securityContext=_core("PodSecurityContext"),
    affinity=_core("Affinity"),
    dnsConfig=_core("PodDNSConfig"),
    imagePullSecrets=_list_of(_core("LocalObjectReference", name=STRING)),
    hostname=STRING,
    subdomain=STRING,
    schedulerName=STRING,
    tolerations=_list_of(_TOLERATION),
    priorityClassName=STRING,
    priority=INT32,
)
TEMPLATE = _core(
    "PodTemplateSpec", metadata=_core("ObjectMeta", name=STRING, labels=TEXTS, annotations=TEXTS), spec=POD_SPEC
)
TOPOLOGY = Struct(
    "NetworkTopologySpec",
    {
        "mode": Scalar("v1alpha1.NetworkTopologyMode"),
        "highestTierAllowed": Scalar("int", _INT64),
        "highestTierName": STRING,
    },
)
POLICY = Struct(
    "LifecyclePolicy",
    {
        "action": Scalar("v1alpha1.Action"),
        "event": Scalar("v1alpha1.Event"),
        "events": ListOf(Scalar("v1alpha1.Event"), "[]v1alpha1.Event"),
        "exitCode": INT32,
        "timeout": Duration(),
    },
)
POLICIES = ListOf(POLICY, "[]v1alpha1.LifecyclePolicy")
TASK = Struct(
    "TaskSpec",
    {
        "name": STRING,
        "replicas": INT32,
        "minAvailable": INT32,
        "template": TEMPLATE,
        "policies": POLICIES,
        "topologyPolicy": Scalar("v1alpha1.NumaPolicy"),
        "maxRetry": INT32,
        "dependsOn": Struct("DependsOn", {"name": STRINGS, "iteration": Scalar("v1alpha1.Iteration")}),
        "partitionPolicy": Struct(
            "PartitionPolicySpec",
            {"totalPartitions": INT32, "partitionSize": INT32, "minPartitions": INT32, "networkTopology": TOPOLOGY},
        ),
    },
)
CLAIM = _core(
    "PersistentVolumeClaimSpec",
    accessModes=ListOf(Scalar("v1.PersistentVolumeAccessMode"), "[]v1.PersistentVolumeAccessMode"),
    resources=_core("VolumeResourceRequirements", limits=_AMOUNTS, requests=_AMOUNTS),
    storageClassName=STRING,
    volumeName=STRING,
)
VOLUME = Struct("VolumeSpec", {"mountPath": STRING, "volumeClaimName": STRING, "volumeClaim": CLAIM})
JOB = Struct(
    "Job",
    {
        "spec": Struct(
            "JobSpec",
            {
                "schedulerName": STRING,
                "minAvailable": INT32,
                "volumes": ListOf(VOLUME, "[]v1alpha1.VolumeSpec"),
                "tasks": ListOf(TASK, "[]v1alpha1.TaskSpec"),
                "policies": POLICIES,
                "plugins": MapOf(STRINGS, "map[string][]string"),
                "runningEstimate": Duration(),
                "queue": STRING,
                "maxRetry": INT32,
                "ttlSecondsAfterFinished": INT32,
                "priorityClassName": STRING,
                "minSuccess": INT32,
                "networkTopology": TOPOLOGY,
            },
        )
    },
)
_GROUP_TOPOLOGY = Struct(
    "NetworkTopologySpec",
    {**TOPOLOGY.fields, "mode": Scalar("v1beta1.NetworkTopologyMode")},
    package="v1beta1",
)
_NODE_GROUPS = Struct(
    "NodeGroupAffinity",
    {
        "requiredDuringSchedulingIgnoredDuringExecution": STRINGS,
        "preferredDuringSchedulingIgnoredDuringExecution": STRINGS,
    },
    package="v1beta1",
)
QUEUE = Struct(
    "Queue",
    {
        "spec": Struct(
            "QueueSpec",
            {
                "weight": INT32,
                "capability": _AMOUNTS,
                "deserved": _AMOUNTS,
                "guarantee": Struct("Guarantee", {"resource": _AMOUNTS}, package="v1beta1"),
                "reclaimable": BOOL,
                "affinity": Struct(
                    "Affinity",
                    {
                        "nodeGroupAffinity": _NODE_GROUPS,
                        "nodeGroupAntiAffinity": Struct("NodeGroupAntiAffinity", _NODE_GROUPS.fields, "v1beta1"),
                    },
                    package="v1beta1",
                ),
                "type": STRING,
                "parent": STRING,
                "priority": INT32,
                "dequeueStrategy": Scalar("v1beta1.DequeueStrategy"),
            },
            package="v1beta1",
        )
    },
    package="v1beta1",
)
POD_GROUP = Struct(
    "PodGroup",
    {
        "spec": Struct(
            "PodGroupSpec",
            {
                "minMember": INT32,
                "minTaskMember": MapOf(INT32, "map[string]int32"),
                "queue": STRING,
                "priorityClassName": STRING,
                "minResources": _AMOUNTS,
                "networkTopology": _GROUP_TOPOLOGY,
                "subGroupPolicy": ListOf(
                    Struct(
                        "SubGroupPolicySpec",
                        {
                            "name": STRING,
                            "networkTopology": _GROUP_TOPOLOGY,
                            "subGroupSize": INT32,
                            "minSubGroups": INT32,
                            "matchLabelKeys": STRINGS,
                        },
                        package="v1beta1",
                    ),
                    "[]v1beta1.SubGroupPolicySpec",
                ),
            },
            package="v1beta1",
        )
    },
    package="v1beta1",
)
