"""Go's shape of a pod template: names, order and types of the fields, as upstream's structs declare them.

The pod template hash is taken over a dump of the Go value, so the dump has to show every field in
its place. One line per type: `Type: Field type, ...`. A field's JSON name is its own name in lower
camel case unless given after `=`; `=` alone marks an embedded struct. Upstream: k8s.io/api/core/v1
and apimachinery/pkg/apis/meta/v1, release 1.36.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

_TABLE = """
PodTemplateSpec: ObjectMeta v1.ObjectMeta=metadata, Spec v1.PodSpec
ObjectMeta: Name string, GenerateName string, Namespace string, SelfLink string, UID types.UID, \
ResourceVersion string, Generation int64, CreationTimestamp v1.Time, DeletionTimestamp *v1.Time, \
DeletionGracePeriodSeconds *int64, Labels map[string]string, Annotations map[string]string, \
OwnerReferences []v1.OwnerReference, Finalizers []string, ManagedFields []v1.ManagedFieldsEntry
OwnerReference: APIVersion string, Kind string, Name string, UID types.UID, Controller *bool, \
BlockOwnerDeletion *bool
PodSpec: Volumes []v1.Volume, InitContainers []v1.Container, Containers []v1.Container, \
EphemeralContainers []v1.EphemeralContainer, RestartPolicy v1.RestartPolicy, \
TerminationGracePeriodSeconds *int64, ActiveDeadlineSeconds *int64, DNSPolicy v1.DNSPolicy, \
NodeSelector map[string]string, ServiceAccountName string, \
DeprecatedServiceAccount string=serviceAccount, AutomountServiceAccountToken *bool, \
NodeName string, HostNetwork bool, HostPID bool, HostIPC bool, ShareProcessNamespace *bool, \
SecurityContext *v1.PodSecurityContext, ImagePullSecrets []v1.LocalObjectReference, \
Hostname string, Subdomain string, Affinity *v1.Affinity, SchedulerName string, \
Tolerations []v1.Toleration, HostAliases []v1.HostAlias, PriorityClassName string, \
Priority *int32, DNSConfig *v1.PodDNSConfig, ReadinessGates []v1.PodReadinessGate, \
RuntimeClassName *string, EnableServiceLinks *bool, PreemptionPolicy *v1.PreemptionPolicy, \
Overhead v1.ResourceList, TopologySpreadConstraints []v1.TopologySpreadConstraint, \
SetHostnameAsFQDN *bool, OS *v1.PodOS, HostUsers *bool, SchedulingGates []v1.PodSchedulingGate, \
ResourceClaims []v1.PodResourceClaim, Resources *v1.ResourceRequirements, \
HostnameOverride *string, SchedulingGroup *v1.PodSchedulingGroup
Container: Name string, Image string, Command []string, Args []string, WorkingDir string, \
Ports []v1.ContainerPort, EnvFrom []v1.EnvFromSource, Env []v1.EnvVar, \
Resources v1.ResourceRequirements, ResizePolicy []v1.ContainerResizePolicy, \
RestartPolicy *v1.ContainerRestartPolicy, RestartPolicyRules []v1.ContainerRestartRule, \
VolumeMounts []v1.VolumeMount, VolumeDevices []v1.VolumeDevice, LivenessProbe *v1.Probe, \
ReadinessProbe *v1.Probe, StartupProbe *v1.Probe, Lifecycle *v1.Lifecycle, \
TerminationMessagePath string, TerminationMessagePolicy v1.TerminationMessagePolicy, \
ImagePullPolicy v1.PullPolicy, SecurityContext *v1.SecurityContext, Stdin bool, StdinOnce bool, \
TTY bool
ResourceRequirements: Limits v1.ResourceList, Requests v1.ResourceList, Claims []v1.ResourceClaim
VolumeResourceRequirements: Limits v1.ResourceList, Requests v1.ResourceList
ResourceClaim: Name string, Request string
ContainerPort: Name string, HostPort int32, ContainerPort int32, Protocol v1.Protocol, HostIP string
EnvFromSource: Prefix string, ConfigMapRef *v1.ConfigMapEnvSource, SecretRef *v1.SecretEnvSource
ConfigMapEnvSource: LocalObjectReference v1.LocalObjectReference=, Optional *bool
SecretEnvSource: LocalObjectReference v1.LocalObjectReference=, Optional *bool
LocalObjectReference: Name string
EnvVar: Name string, Value string, ValueFrom *v1.EnvVarSource
EnvVarSource: FieldRef *v1.ObjectFieldSelector, ResourceFieldRef *v1.ResourceFieldSelector, \
ConfigMapKeyRef *v1.ConfigMapKeySelector, SecretKeyRef *v1.SecretKeySelector, \
FileKeyRef *v1.FileKeySelector
ObjectFieldSelector: APIVersion string, FieldPath string
EndpointSubset: Addresses []v1.EndpointAddress, NotReadyAddresses []v1.EndpointAddress, \
Ports []v1.EndpointPort
EndpointAddress: IP string, Hostname string, NodeName *string, TargetRef *v1.ObjectReference
EndpointPort: Name string, Port int32, Protocol v1.Protocol, AppProtocol *string
ObjectReference: Kind string, Namespace string, Name string, UID types.UID, APIVersion string, \
ResourceVersion string, FieldPath string
ResourceFieldSelector: ContainerName string, Resource string, Divisor resource.Quantity
ConfigMapKeySelector: LocalObjectReference v1.LocalObjectReference=, Key string, Optional *bool
SecretKeySelector: LocalObjectReference v1.LocalObjectReference=, Key string, Optional *bool
FileKeySelector: VolumeName string, Path string, Key string, Optional *bool
ContainerResizePolicy: ResourceName v1.ResourceName, RestartPolicy v1.ResourceResizeRestartPolicy
ContainerRestartRule: Action v1.ContainerRestartRuleAction, \
ExitCodes *v1.ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: Operator v1.ContainerRestartRuleOnExitCodesOperator, Values []int32
VolumeMount: Name string, ReadOnly bool, RecursiveReadOnly *v1.RecursiveReadOnlyMode, \
MountPath string, SubPath string, MountPropagation *v1.MountPropagationMode, SubPathExpr string
VolumeDevice: Name string, DevicePath string
Probe: ProbeHandler v1.ProbeHandler=, InitialDelaySeconds int32, TimeoutSeconds int32, \
PeriodSeconds int32, SuccessThreshold int32, FailureThreshold int32, \
TerminationGracePeriodSeconds *int64
ProbeHandler: Exec *v1.ExecAction, HTTPGet *v1.HTTPGetAction, TCPSocket *v1.TCPSocketAction, \
GRPC *v1.GRPCAction
Lifecycle: PostStart *v1.LifecycleHandler, PreStop *v1.LifecycleHandler, StopSignal *v1.Signal
LifecycleHandler: Exec *v1.ExecAction, HTTPGet *v1.HTTPGetAction, TCPSocket *v1.TCPSocketAction, \
Sleep *v1.SleepAction
ExecAction: Command []string
HTTPGetAction: Path string, Port intstr.IntOrString, Host string, Scheme v1.URIScheme, \
HTTPHeaders []v1.HTTPHeader
HTTPHeader: Name string, Value string
TCPSocketAction: Port intstr.IntOrString, Host string
GRPCAction: Port int32, Service *string
SleepAction: Seconds int64
SecurityContext: Capabilities *v1.Capabilities, Privileged *bool, \
SELinuxOptions *v1.SELinuxOptions, WindowsOptions *v1.WindowsSecurityContextOptions, \
RunAsUser *int64, RunAsGroup *int64, RunAsNonRoot *bool, ReadOnlyRootFilesystem *bool, \
AllowPrivilegeEscalation *bool, ProcMount *v1.ProcMountType, SeccompProfile *v1.SeccompProfile, \
AppArmorProfile *v1.AppArmorProfile
Capabilities: Add []v1.Capability, Drop []v1.Capability
SELinuxOptions: User string, Role string, Type string, Level string
WindowsSecurityContextOptions: GMSACredentialSpecName *string, GMSACredentialSpec *string, \
RunAsUserName *string, HostProcess *bool
SeccompProfile: Type v1.SeccompProfileType, LocalhostProfile *string
AppArmorProfile: Type v1.AppArmorProfileType, LocalhostProfile *string
PodSecurityContext: SELinuxOptions *v1.SELinuxOptions, \
WindowsOptions *v1.WindowsSecurityContextOptions, RunAsUser *int64, RunAsGroup *int64, \
RunAsNonRoot *bool, SupplementalGroups []int64, \
SupplementalGroupsPolicy *v1.SupplementalGroupsPolicy, FSGroup *int64, Sysctls []v1.Sysctl, \
FSGroupChangePolicy *v1.PodFSGroupChangePolicy, SeccompProfile *v1.SeccompProfile, \
AppArmorProfile *v1.AppArmorProfile, SELinuxChangePolicy *v1.PodSELinuxChangePolicy
Sysctl: Name string, Value string
Affinity: NodeAffinity *v1.NodeAffinity, PodAffinity *v1.PodAffinity, \
PodAntiAffinity *v1.PodAntiAffinity
NodeAffinity: RequiredDuringSchedulingIgnoredDuringExecution *v1.NodeSelector, \
PreferredDuringSchedulingIgnoredDuringExecution []v1.PreferredSchedulingTerm
PodAffinity: RequiredDuringSchedulingIgnoredDuringExecution []v1.PodAffinityTerm, \
PreferredDuringSchedulingIgnoredDuringExecution []v1.WeightedPodAffinityTerm
PodAntiAffinity: RequiredDuringSchedulingIgnoredDuringExecution []v1.PodAffinityTerm, \
PreferredDuringSchedulingIgnoredDuringExecution []v1.WeightedPodAffinityTerm
NodeSelector: NodeSelectorTerms []v1.NodeSelectorTerm
NodeSelectorTerm: MatchExpressions []v1.NodeSelectorRequirement, \
MatchFields []v1.NodeSelectorRequirement
NodeSelectorRequirement: Key string, Operator v1.NodeSelectorOperator, Values []string
PreferredSchedulingTerm: Weight int32, Preference v1.NodeSelectorTerm
WeightedPodAffinityTerm: Weight int32, PodAffinityTerm v1.PodAffinityTerm
PodAffinityTerm: LabelSelector *v1.LabelSelector, Namespaces []string, TopologyKey string, \
NamespaceSelector *v1.LabelSelector, MatchLabelKeys []string, MismatchLabelKeys []string
LabelSelector: MatchLabels map[string]string, MatchExpressions []v1.LabelSelectorRequirement
LabelSelectorRequirement: Key string, Operator v1.LabelSelectorOperator, Values []string
Toleration: Key string, Operator v1.TolerationOperator, Value string, Effect v1.TaintEffect, \
TolerationSeconds *int64
HostAlias: IP string, Hostnames []string
PodDNSConfig: Nameservers []string, Searches []string, Options []v1.PodDNSConfigOption
PodDNSConfigOption: Name string, Value *string
PodReadinessGate: ConditionType v1.PodConditionType
PodOS: Name v1.OSName
PodSchedulingGate: Name string
PodResourceClaim: Name string, ResourceClaimName *string, ResourceClaimTemplateName *string
PodSchedulingGroup: PodGroupName *string
TopologySpreadConstraint: MaxSkew int32, TopologyKey string, \
WhenUnsatisfiable v1.UnsatisfiableConstraintAction, LabelSelector *v1.LabelSelector, \
MinDomains *int32, NodeAffinityPolicy *v1.NodeInclusionPolicy, \
NodeTaintsPolicy *v1.NodeInclusionPolicy, MatchLabelKeys []string
Volume: Name string, VolumeSource v1.VolumeSource=
VolumeSource: HostPath *v1.HostPathVolumeSource, EmptyDir *v1.EmptyDirVolumeSource, \
GCEPersistentDisk *v1.GCEPersistentDiskVolumeSource, \
AWSElasticBlockStore *v1.AWSElasticBlockStoreVolumeSource, GitRepo *v1.GitRepoVolumeSource, \
Secret *v1.SecretVolumeSource, NFS *v1.NFSVolumeSource, ISCSI *v1.ISCSIVolumeSource, \
Glusterfs *v1.GlusterfsVolumeSource, \
PersistentVolumeClaim *v1.PersistentVolumeClaimVolumeSource, RBD *v1.RBDVolumeSource, \
FlexVolume *v1.FlexVolumeSource, Cinder *v1.CinderVolumeSource, \
CephFS *v1.CephFSVolumeSource=cephfs, Flocker *v1.FlockerVolumeSource, \
DownwardAPI *v1.DownwardAPIVolumeSource, FC *v1.FCVolumeSource, \
AzureFile *v1.AzureFileVolumeSource, ConfigMap *v1.ConfigMapVolumeSource, \
VsphereVolume *v1.VsphereVirtualDiskVolumeSource, Quobyte *v1.QuobyteVolumeSource, \
AzureDisk *v1.AzureDiskVolumeSource, \
PhotonPersistentDisk *v1.PhotonPersistentDiskVolumeSource, \
Projected *v1.ProjectedVolumeSource, PortworxVolume *v1.PortworxVolumeSource, \
ScaleIO *v1.ScaleIOVolumeSource, StorageOS *v1.StorageOSVolumeSource=storageos, \
CSI *v1.CSIVolumeSource, Ephemeral *v1.EphemeralVolumeSource, Image *v1.ImageVolumeSource
HostPathVolumeSource: Path string, Type *v1.HostPathType
EmptyDirVolumeSource: Medium v1.StorageMedium, SizeLimit *resource.Quantity
GCEPersistentDiskVolumeSource: PDName string, FSType string, Partition int32, ReadOnly bool
AWSElasticBlockStoreVolumeSource: VolumeID string, FSType string, Partition int32, ReadOnly bool
GitRepoVolumeSource: Repository string, Revision string, Directory string
SecretVolumeSource: SecretName string, Items []v1.KeyToPath, DefaultMode *int32, Optional *bool
NFSVolumeSource: Server string, Path string, ReadOnly bool
ISCSIVolumeSource: TargetPortal string, IQN string, Lun int32, ISCSIInterface string, \
FSType string, ReadOnly bool, Portals []string, DiscoveryCHAPAuth bool=chapAuthDiscovery, \
SessionCHAPAuth bool=chapAuthSession, SecretRef *v1.LocalObjectReference, InitiatorName *string
GlusterfsVolumeSource: EndpointsName string=endpoints, Path string, ReadOnly bool
PersistentVolumeClaimVolumeSource: ClaimName string, ReadOnly bool
RBDVolumeSource: CephMonitors []string=monitors, RBDImage string=image, FSType string, \
RBDPool string=pool, RadosUser string=user, Keyring string, SecretRef *v1.LocalObjectReference, \
ReadOnly bool
FlexVolumeSource: Driver string, FSType string, SecretRef *v1.LocalObjectReference, \
ReadOnly bool, Options map[string]string
CinderVolumeSource: VolumeID string, FSType string, ReadOnly bool, \
SecretRef *v1.LocalObjectReference
CephFSVolumeSource: Monitors []string, Path string, User string, SecretFile string, \
SecretRef *v1.LocalObjectReference, ReadOnly bool
FlockerVolumeSource: DatasetName string, DatasetUUID string
DownwardAPIVolumeSource: Items []v1.DownwardAPIVolumeFile, DefaultMode *int32
DownwardAPIVolumeFile: Path string, FieldRef *v1.ObjectFieldSelector, \
ResourceFieldRef *v1.ResourceFieldSelector, Mode *int32
FCVolumeSource: TargetWWNs []string, Lun *int32, FSType string, ReadOnly bool, WWIDs []string=wwids
AzureFileVolumeSource: SecretName string, ShareName string, ReadOnly bool
ConfigMapVolumeSource: LocalObjectReference v1.LocalObjectReference=, Items []v1.KeyToPath, \
DefaultMode *int32, Optional *bool
KeyToPath: Key string, Path string, Mode *int32
VsphereVirtualDiskVolumeSource: VolumePath string, FSType string, StoragePolicyName string, \
StoragePolicyID string
QuobyteVolumeSource: Registry string, Volume string, ReadOnly bool, User string, Group string, \
Tenant string
AzureDiskVolumeSource: DiskName string, DataDiskURI string=diskURI, \
CachingMode *v1.AzureDataDiskCachingMode, FSType *string, ReadOnly *bool, \
Kind *v1.AzureDataDiskKind
PhotonPersistentDiskVolumeSource: PdID string, FSType string
ProjectedVolumeSource: Sources []v1.VolumeProjection, DefaultMode *int32
VolumeProjection: Secret *v1.SecretProjection, DownwardAPI *v1.DownwardAPIProjection, \
ConfigMap *v1.ConfigMapProjection, ServiceAccountToken *v1.ServiceAccountTokenProjection, \
ClusterTrustBundle *v1.ClusterTrustBundleProjection, \
PodCertificate *v1.PodCertificateProjection
SecretProjection: LocalObjectReference v1.LocalObjectReference=, Items []v1.KeyToPath, \
Optional *bool
ConfigMapProjection: LocalObjectReference v1.LocalObjectReference=, Items []v1.KeyToPath, \
Optional *bool
DownwardAPIProjection: Items []v1.DownwardAPIVolumeFile
ServiceAccountTokenProjection: Audience string, ExpirationSeconds *int64, Path string
ClusterTrustBundleProjection: Name *string, SignerName *string, \
LabelSelector *v1.LabelSelector, Optional *bool, Path string
PodCertificateProjection: SignerName string, KeyType string, MaxExpirationSeconds *int32, \
CredentialBundlePath string, KeyPath string, CertificateChainPath string, \
UserAnnotations map[string]string
PortworxVolumeSource: VolumeID string, FSType string, ReadOnly bool
ScaleIOVolumeSource: Gateway string, System string, SecretRef *v1.LocalObjectReference, \
SSLEnabled bool, ProtectionDomain string, StoragePool string, StorageMode string, \
VolumeName string, FSType string, ReadOnly bool
StorageOSVolumeSource: VolumeName string, VolumeNamespace string, FSType string, ReadOnly bool, \
SecretRef *v1.LocalObjectReference
CSIVolumeSource: Driver string, ReadOnly *bool, FSType *string, \
VolumeAttributes map[string]string, NodePublishSecretRef *v1.LocalObjectReference
EphemeralVolumeSource: VolumeClaimTemplate *v1.PersistentVolumeClaimTemplate
PersistentVolumeClaimTemplate: ObjectMeta v1.ObjectMeta=metadata, Spec v1.PersistentVolumeClaimSpec
PersistentVolumeClaimSpec: AccessModes []v1.PersistentVolumeAccessMode, \
Selector *v1.LabelSelector, Resources v1.VolumeResourceRequirements, VolumeName string, \
StorageClassName *string, VolumeMode *v1.PersistentVolumeMode, \
DataSource *v1.TypedLocalObjectReference, DataSourceRef *v1.TypedObjectReference, \
VolumeAttributesClassName *string
TypedLocalObjectReference: APIGroup *string, Kind string, Name string
TypedObjectReference: APIGroup *string, Kind string, Name string, Namespace *string
ImageVolumeSource: Reference string, PullPolicy v1.PullPolicy
"""
_ABBREVIATION = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+")


class Field(NamedTuple):
    """A field of a Go struct; without a JSON name it is embedded."""

    name: str
    type: str
    json: str


def _json_name(name: str) -> str:
    found = _ABBREVIATION.match(name)
    assert found is not None
    return found[0].lower() + name[found.end() :]


def _field(text: str) -> Field:
    declared, mark, json = text.partition("=")
    name, kind = declared.split()
    return Field(name, kind, json if mark else _json_name(name))


@cache
def structs() -> dict[str, tuple[Field, ...]]:
    """The fields of each struct, by its name without package."""
    found = {}
    for line in _TABLE.strip().splitlines():
        name, _, fields = line.partition(": ")
        found[name] = tuple(_field(each) for each in fields.split(", "))
    return found
