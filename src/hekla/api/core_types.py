"""The types that Kubernetes reads pod templates and claims into: what their fields are called, and what they hold.

As of Kubernetes 1.36, and as far as a definition of Jobs lets a field through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hekla.api.go_types import (
    AMOUNTS,
    BOOL,
    INT32,
    INT64,
    STRING,
    IntOrString,
    ListOf,
    MapOf,
    Quantity,
    Scalar,
    Struct,
)

# One struct a row. A name in front of a field's is of the struct it stands in there, which Go names, too. A star marks
# a pointer, and what is written always ends in an exclamation mark.
_TABLE = """
AWSElasticBlockStoreVolumeSource: volumeID=string! fsType=string partition=int32 readOnly=bool
Affinity: nodeAffinity=*NodeAffinity podAffinity=*PodAffinity podAntiAffinity=*PodAntiAffinity
AppArmorProfile: type=v1.AppArmorProfileType! localhostProfile=*string
AzureDiskVolumeSource: diskName=string! diskURI=string! cachingMode=*v1.AzureDataDiskCachingMode fsType=*string
    readOnly=*bool kind=*v1.AzureDataDiskKind
AzureFileVolumeSource: secretName=string! shareName=string! readOnly=bool
CSIVolumeSource: driver=string! readOnly=*bool fsType=*string volumeAttributes=map[string]string
    nodePublishSecretRef=*LocalObjectReference
Capabilities: add=[]v1.Capability drop=[]v1.Capability
CephFSVolumeSource: monitors=[]string! path=string user=string secretFile=string secretRef=*LocalObjectReference
    readOnly=bool
CinderVolumeSource: volumeID=string! fsType=string readOnly=bool secretRef=*LocalObjectReference
ClusterTrustBundleProjection: name=*string signerName=*string labelSelector=*LabelSelector optional=*bool
    path=string!
ConfigMapEnvSource: LocalObjectReference.name=string optional=*bool
ConfigMapKeySelector: LocalObjectReference.name=string key=string! optional=*bool
ConfigMapProjection: LocalObjectReference.name=string items=[]KeyToPath optional=*bool
ConfigMapVolumeSource: LocalObjectReference.name=string items=[]KeyToPath defaultMode=*int32 optional=*bool
Container: name=string! image=string command=[]string args=[]string workingDir=string ports=[]ContainerPort
    envFrom=[]EnvFromSource env=[]EnvVar resources=ResourceRequirements resizePolicy=[]ContainerResizePolicy
    restartPolicy=*v1.ContainerRestartPolicy restartPolicyRules=[]ContainerRestartRule volumeMounts=[]VolumeMount
    volumeDevices=[]VolumeDevice livenessProbe=*Probe readinessProbe=*Probe startupProbe=*Probe lifecycle=*Lifecycle
    terminationMessagePath=string terminationMessagePolicy=v1.TerminationMessagePolicy imagePullPolicy=v1.PullPolicy
    securityContext=*SecurityContext stdin=bool stdinOnce=bool tty=bool
ContainerPort: name=string hostPort=int32 containerPort=int32! protocol=v1.Protocol hostIP=string
ContainerResizePolicy: resourceName=v1.ResourceName! restartPolicy=v1.ResourceResizeRestartPolicy!
ContainerRestartRule: action=v1.ContainerRestartRuleAction exitCodes=*ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator=v1.ContainerRestartRuleOnExitCodesOperator values=[]int32
DownwardAPIProjection: items=[]DownwardAPIVolumeFile
DownwardAPIVolumeFile: path=string! fieldRef=*ObjectFieldSelector resourceFieldRef=*ResourceFieldSelector
    mode=*int32
DownwardAPIVolumeSource: items=[]DownwardAPIVolumeFile defaultMode=*int32
EmptyDirVolumeSource: medium=v1.StorageMedium sizeLimit=*Quantity
EnvFromSource: prefix=string configMapRef=*ConfigMapEnvSource secretRef=*SecretEnvSource
EnvVar: name=string! value=string valueFrom=*EnvVarSource
EnvVarSource: fieldRef=*ObjectFieldSelector resourceFieldRef=*ResourceFieldSelector
    configMapKeyRef=*ConfigMapKeySelector secretKeyRef=*SecretKeySelector fileKeyRef=*FileKeySelector
EphemeralContainer: EphemeralContainerCommon.name=string! EphemeralContainerCommon.image=string
    EphemeralContainerCommon.command=[]string EphemeralContainerCommon.args=[]string
    EphemeralContainerCommon.workingDir=string EphemeralContainerCommon.ports=[]ContainerPort
    EphemeralContainerCommon.envFrom=[]EnvFromSource EphemeralContainerCommon.env=[]EnvVar
    EphemeralContainerCommon.resources=ResourceRequirements
    EphemeralContainerCommon.resizePolicy=[]ContainerResizePolicy
    EphemeralContainerCommon.restartPolicy=*v1.ContainerRestartPolicy
    EphemeralContainerCommon.restartPolicyRules=[]ContainerRestartRule
    EphemeralContainerCommon.volumeMounts=[]VolumeMount EphemeralContainerCommon.volumeDevices=[]VolumeDevice
    EphemeralContainerCommon.livenessProbe=*Probe EphemeralContainerCommon.readinessProbe=*Probe
    EphemeralContainerCommon.startupProbe=*Probe EphemeralContainerCommon.lifecycle=*Lifecycle
    EphemeralContainerCommon.terminationMessagePath=string
    EphemeralContainerCommon.terminationMessagePolicy=v1.TerminationMessagePolicy
    EphemeralContainerCommon.imagePullPolicy=v1.PullPolicy EphemeralContainerCommon.securityContext=*SecurityContext
    EphemeralContainerCommon.stdin=bool EphemeralContainerCommon.stdinOnce=bool EphemeralContainerCommon.tty=bool
    targetContainerName=string
EphemeralVolumeSource: volumeClaimTemplate=*PersistentVolumeClaimTemplate
ExecAction: command=[]string
FCVolumeSource: targetWWNs=[]string lun=*int32 fsType=string readOnly=bool wwids=[]string
FileKeySelector: volumeName=string! path=string! key=string! optional=*bool
FlexVolumeSource: driver=string! fsType=string secretRef=*LocalObjectReference readOnly=bool
    options=map[string]string
FlockerVolumeSource: datasetName=string datasetUUID=string
GCEPersistentDiskVolumeSource: pdName=string! fsType=string partition=int32 readOnly=bool
GRPCAction: port=int32! service=*string!
GitRepoVolumeSource: repository=string! revision=string directory=string
GlusterfsVolumeSource: endpoints=string! path=string! readOnly=bool
HTTPGetAction: path=string port=IntOrString! host=string scheme=v1.URIScheme httpHeaders=[]HTTPHeader
HTTPHeader: name=string! value=string!
HostAlias: ip=string! hostnames=[]string
HostPathVolumeSource: path=string! type=*v1.HostPathType
ISCSIVolumeSource: targetPortal=string! iqn=string! lun=int32! iscsiInterface=string fsType=string readOnly=bool
    portals=[]string chapAuthDiscovery=bool chapAuthSession=bool secretRef=*LocalObjectReference
    initiatorName=*string
ImageVolumeSource: reference=string pullPolicy=v1.PullPolicy
KeyToPath: key=string! path=string! mode=*int32
LabelSelector: matchLabels=map[string]string matchExpressions=[]LabelSelectorRequirement
LabelSelectorRequirement: key=string! operator=v1.LabelSelectorOperator! values=[]string
Lifecycle: postStart=*LifecycleHandler preStop=*LifecycleHandler stopSignal=*v1.Signal
LifecycleHandler: exec=*ExecAction httpGet=*HTTPGetAction tcpSocket=*TCPSocketAction sleep=*SleepAction
LocalObjectReference: name=string
NFSVolumeSource: server=string! path=string! readOnly=bool
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution=*NodeSelector
    preferredDuringSchedulingIgnoredDuringExecution=[]PreferredSchedulingTerm
NodeSelector: nodeSelectorTerms=[]NodeSelectorTerm!
NodeSelectorRequirement: key=string! operator=v1.NodeSelectorOperator! values=[]string
NodeSelectorTerm: matchExpressions=[]NodeSelectorRequirement matchFields=[]NodeSelectorRequirement
ObjectFieldSelector: apiVersion=string fieldPath=string!
ObjectMeta: name=string namespace=string labels=map[string]string annotations=map[string]string finalizers=[]string
PersistentVolumeClaimSpec: accessModes=[]v1.PersistentVolumeAccessMode selector=*LabelSelector
    resources=VolumeResourceRequirements volumeName=string storageClassName=*string
    volumeMode=*v1.PersistentVolumeMode dataSource=*TypedLocalObjectReference dataSourceRef=*TypedObjectReference
    volumeAttributesClassName=*string
PersistentVolumeClaimTemplate: metadata=ObjectMeta spec=PersistentVolumeClaimSpec!
PersistentVolumeClaimVolumeSource: claimName=string! readOnly=bool
PhotonPersistentDiskVolumeSource: pdID=string! fsType=string
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution=[]PodAffinityTerm
    preferredDuringSchedulingIgnoredDuringExecution=[]WeightedPodAffinityTerm
PodAffinityTerm: labelSelector=*LabelSelector namespaces=[]string topologyKey=string!
    namespaceSelector=*LabelSelector matchLabelKeys=[]string mismatchLabelKeys=[]string
PodAntiAffinity: requiredDuringSchedulingIgnoredDuringExecution=[]PodAffinityTerm
    preferredDuringSchedulingIgnoredDuringExecution=[]WeightedPodAffinityTerm
PodCertificateProjection: signerName=string keyType=string maxExpirationSeconds=*int32 credentialBundlePath=string
    keyPath=string certificateChainPath=string userAnnotations=map[string]string
PodDNSConfig: nameservers=[]string searches=[]string options=[]PodDNSConfigOption
PodDNSConfigOption: name=string value=*string
PodOS: name=v1.OSName!
PodReadinessGate: conditionType=v1.PodConditionType!
PodResourceClaim: name=string! resourceClaimName=*string resourceClaimTemplateName=*string
PodSchedulingGate: name=string!
PodSchedulingGroup: podGroupName=*string
PodSecurityContext: seLinuxOptions=*SELinuxOptions windowsOptions=*WindowsSecurityContextOptions runAsUser=*int64
    runAsGroup=*int64 runAsNonRoot=*bool supplementalGroups=[]int64
    supplementalGroupsPolicy=*v1.SupplementalGroupsPolicy fsGroup=*int64 sysctls=[]Sysctl
    fsGroupChangePolicy=*v1.PodFSGroupChangePolicy seccompProfile=*SeccompProfile appArmorProfile=*AppArmorProfile
    seLinuxChangePolicy=*v1.PodSELinuxChangePolicy
PodSpec: volumes=[]Volume initContainers=[]Container containers=[]Container!
    ephemeralContainers=[]EphemeralContainer restartPolicy=v1.RestartPolicy terminationGracePeriodSeconds=*int64
    activeDeadlineSeconds=*int64 dnsPolicy=v1.DNSPolicy nodeSelector=map[string]string serviceAccountName=string
    serviceAccount=string automountServiceAccountToken=*bool nodeName=string hostNetwork=bool hostPID=bool
    hostIPC=bool shareProcessNamespace=*bool securityContext=*PodSecurityContext
    imagePullSecrets=[]LocalObjectReference hostname=string subdomain=string affinity=*Affinity schedulerName=string
    tolerations=[]Toleration hostAliases=[]HostAlias priorityClassName=string priority=*int32
    dnsConfig=*PodDNSConfig readinessGates=[]PodReadinessGate runtimeClassName=*string enableServiceLinks=*bool
    preemptionPolicy=*v1.PreemptionPolicy overhead=ResourceList topologySpreadConstraints=[]TopologySpreadConstraint
    setHostnameAsFQDN=*bool os=*PodOS hostUsers=*bool schedulingGates=[]PodSchedulingGate
    resourceClaims=[]PodResourceClaim resources=*ResourceRequirements hostnameOverride=*string
    schedulingGroup=*PodSchedulingGroup
PodTemplateSpec: metadata=ObjectMeta spec=PodSpec
PortworxVolumeSource: volumeID=string! fsType=string readOnly=bool
PreferredSchedulingTerm: weight=int32! preference=NodeSelectorTerm!
Probe: ProbeHandler.exec=*ExecAction ProbeHandler.httpGet=*HTTPGetAction ProbeHandler.tcpSocket=*TCPSocketAction
    ProbeHandler.grpc=*GRPCAction initialDelaySeconds=int32 timeoutSeconds=int32 periodSeconds=int32
    successThreshold=int32 failureThreshold=int32 terminationGracePeriodSeconds=*int64
ProjectedVolumeSource: sources=[]VolumeProjection! defaultMode=*int32
QuobyteVolumeSource: registry=string! volume=string! readOnly=bool user=string group=string tenant=string
RBDVolumeSource: monitors=[]string! image=string! fsType=string pool=string user=string keyring=string
    secretRef=*LocalObjectReference readOnly=bool
ResourceClaim: name=string! request=string
ResourceFieldSelector: containerName=string resource=string! divisor=Quantity
ResourceRequirements: limits=ResourceList requests=ResourceList claims=[]ResourceClaim
SELinuxOptions: user=string role=string type=string level=string
ScaleIOVolumeSource: gateway=string! system=string! secretRef=*LocalObjectReference! sslEnabled=bool
    protectionDomain=string storagePool=string storageMode=string volumeName=string fsType=string readOnly=bool
SeccompProfile: type=v1.SeccompProfileType! localhostProfile=*string
SecretEnvSource: LocalObjectReference.name=string optional=*bool
SecretKeySelector: LocalObjectReference.name=string key=string! optional=*bool
SecretProjection: LocalObjectReference.name=string items=[]KeyToPath optional=*bool
SecretVolumeSource: secretName=string items=[]KeyToPath defaultMode=*int32 optional=*bool
SecurityContext: capabilities=*Capabilities privileged=*bool seLinuxOptions=*SELinuxOptions
    windowsOptions=*WindowsSecurityContextOptions runAsUser=*int64 runAsGroup=*int64 runAsNonRoot=*bool
    readOnlyRootFilesystem=*bool allowPrivilegeEscalation=*bool procMount=*v1.ProcMountType
    seccompProfile=*SeccompProfile appArmorProfile=*AppArmorProfile
ServiceAccountTokenProjection: audience=string expirationSeconds=*int64 path=string!
SleepAction: seconds=int64!
StorageOSVolumeSource: volumeName=string volumeNamespace=string fsType=string readOnly=bool
    secretRef=*LocalObjectReference
Sysctl: name=string! value=string!
TCPSocketAction: port=IntOrString! host=string
Toleration: key=string operator=v1.TolerationOperator value=string effect=v1.TaintEffect tolerationSeconds=*int64
TopologySpreadConstraint: maxSkew=int32! topologyKey=string! whenUnsatisfiable=v1.UnsatisfiableConstraintAction!
    labelSelector=*LabelSelector minDomains=*int32 nodeAffinityPolicy=*v1.NodeInclusionPolicy
    nodeTaintsPolicy=*v1.NodeInclusionPolicy matchLabelKeys=[]string
TypedLocalObjectReference: apiGroup=*string! kind=string! name=string!
TypedObjectReference: apiGroup=*string! kind=string! name=string! namespace=*string
Volume: name=string! VolumeSource.hostPath=*HostPathVolumeSource VolumeSource.emptyDir=*EmptyDirVolumeSource
    VolumeSource.gcePersistentDisk=*GCEPersistentDiskVolumeSource
    VolumeSource.awsElasticBlockStore=*AWSElasticBlockStoreVolumeSource VolumeSource.gitRepo=*GitRepoVolumeSource
    VolumeSource.secret=*SecretVolumeSource VolumeSource.nfs=*NFSVolumeSource VolumeSource.iscsi=*ISCSIVolumeSource
    VolumeSource.glusterfs=*GlusterfsVolumeSource
    VolumeSource.persistentVolumeClaim=*PersistentVolumeClaimVolumeSource VolumeSource.rbd=*RBDVolumeSource
    VolumeSource.flexVolume=*FlexVolumeSource VolumeSource.cinder=*CinderVolumeSource
    VolumeSource.cephfs=*CephFSVolumeSource VolumeSource.flocker=*FlockerVolumeSource
    VolumeSource.downwardAPI=*DownwardAPIVolumeSource VolumeSource.fc=*FCVolumeSource
    VolumeSource.azureFile=*AzureFileVolumeSource VolumeSource.configMap=*ConfigMapVolumeSource
    VolumeSource.vsphereVolume=*VsphereVirtualDiskVolumeSource VolumeSource.quobyte=*QuobyteVolumeSource
    VolumeSource.azureDisk=*AzureDiskVolumeSource
    VolumeSource.photonPersistentDisk=*PhotonPersistentDiskVolumeSource
    VolumeSource.projected=*ProjectedVolumeSource VolumeSource.portworxVolume=*PortworxVolumeSource
    VolumeSource.scaleIO=*ScaleIOVolumeSource VolumeSource.storageos=*StorageOSVolumeSource
    VolumeSource.csi=*CSIVolumeSource VolumeSource.ephemeral=*EphemeralVolumeSource
    VolumeSource.image=*ImageVolumeSource
VolumeDevice: name=string! devicePath=string!
VolumeMount: name=string! readOnly=bool recursiveReadOnly=*v1.RecursiveReadOnlyMode mountPath=string! subPath=string
    mountPropagation=*v1.MountPropagationMode subPathExpr=string
VolumeProjection: secret=*SecretProjection downwardAPI=*DownwardAPIProjection configMap=*ConfigMapProjection
    serviceAccountToken=*ServiceAccountTokenProjection clusterTrustBundle=*ClusterTrustBundleProjection
    podCertificate=*PodCertificateProjection
VolumeResourceRequirements: limits=ResourceList requests=ResourceList
VsphereVirtualDiskVolumeSource: volumePath=string! fsType=string storagePolicyName=string storagePolicyID=string
WeightedPodAffinityTerm: weight=int32! podAffinityTerm=PodAffinityTerm!
WindowsSecurityContextOptions: gmsaCredentialSpecName=*string gmsaCredentialSpec=*string runAsUserName=*string
    hostProcess=*bool
"""
_PLAIN: Mapping[str, Any] = {
    "bool": BOOL, "int32": INT32, "int64": INT64, "string": STRING,
    "IntOrString": IntOrString(), "Quantity": Quantity(), "ResourceList": AMOUNTS,
}  # fmt: skip


def _read_table() -> dict[str, Struct]:
    rows = [row.split() for row in _TABLE.replace("\n    ", " ").strip().splitlines()]
    structs = {name.removesuffix(":"): Struct(name.removesuffix(":"), package="v1") for name, *_ in rows}
    for name, *fields in rows:
        struct = structs[name.removesuffix(":")]
        for field, _, kind in (each.partition("=") for each in fields):
            inside, _, name = field.rpartition(".")
            struct.fields[name] = _kind(kind.strip("*!"), structs)
            struct.inside.update({name: inside} if inside else {})
            struct.always.update({name} if kind.endswith("!") else ())
            struct.pointers.update({name} if kind.startswith("*") else ())
    return structs


def _kind(text: str, structs: Mapping[str, Struct]) -> Any:
    if text in structs or text in _PLAIN:
        return structs.get(text) or _PLAIN[text]
    if text.startswith("[]"):
        item = _kind(text.removeprefix("[]"), structs)
        return ListOf(item, f"[]{item.name}")
    if text.startswith("map[string]"):
        return MapOf(_kind(text.removeprefix("map[string]"), structs), text)
    return Scalar(text)


_STRUCTS = _read_table()
CLAIM = _STRUCTS["PersistentVolumeClaimSpec"]
LABEL_SELECTOR = _STRUCTS["LabelSelector"]
TEMPLATE = _STRUCTS["PodTemplateSpec"]
