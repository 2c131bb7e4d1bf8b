"""The types that upstream reads Jobs, Queues and PodGroups into.

Names, fields and what they hold.
"""

from __future__ import annotations

from hekla.api.core_types import CLAIM, LABEL_SELECTOR, TEMPLATE
from hekla.api.go_types import (
    AMOUNTS,
    BOOL,
    INT32,
    INT64,
    STRING,
    STRINGS,
    Duration,
    ListOf,
    MapOf,
    Scalar,
    Struct,
)

TOPOLOGY = Struct(
    "NetworkTopologySpec",
    {
        "mode": Scalar("v1alpha1.NetworkTopologyMode"),
        "highestTierAllowed": Scalar("int", INT64.integers),
        "highestTierName": STRING,
    },
    pointers={"highestTierAllowed"},
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
    pointers={"exitCode", "timeout"},
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
            always={"totalPartitions", "partitionSize", "minPartitions"},
            pointers={"networkTopology"},
        ),
    },
    pointers={"minAvailable", "dependsOn", "partitionPolicy"},
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
_CLUSTER = Struct("Cluster", {"name": STRING, "weight": INT32, "capacity": AMOUNTS}, package="v1beta1")
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
                "capability": AMOUNTS,
                "deserved": AMOUNTS,
                "guarantee": Struct("Guarantee", {"resource": AMOUNTS}, package="v1beta1"),
                "reclaimable": BOOL,
                "extendClusters": ListOf(_CLUSTER, "[]v1beta1.Cluster"),
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
                "minResources": AMOUNTS,
                "networkTopology": _GROUP_TOPOLOGY,
                "subGroupPolicy": ListOf(
                    Struct(
                        "SubGroupPolicySpec",
                        {
                            "name": STRING,
                            "networkTopology": _GROUP_TOPOLOGY,
                            "subGroupSize": INT32,
                            "minSubGroups": INT32,
                            "labelSelector": LABEL_SELECTOR,
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
