"""The fields of upstream's internal types that messages quote, in their order.

Each entry gives a Go field, after = the JSON field behind it where the name does not tell, and for
structs the type; a type name with [] stands for a list, with * for a pointer (null when absent),
with = for a struct that is always there, with @ for a type of apimachinery, which prints with its
JSON names. Upstream: pkg/apis/*/types.go.
"""

from __future__ import annotations

__all__ = ["INTERNAL_TYPES"]

INTERNAL_TYPES: dict[str, str] = {
    "SecurityContext": (
        "Capabilities:*Capabilities Privileged:? SELinuxOptions:*SELinuxOptions "
        "WindowsOptions:*WindowsOptions RunAsUser:? RunAsGroup:? RunAsNonRoot:? "
        "ReadOnlyRootFilesystem:? AllowPrivilegeEscalation:? ProcMount:? "
        "SeccompProfile:*SeccompProfile AppArmorProfile:*AppArmorProfile"
    ),
    "Capabilities": "Add:null Drop:null",
    "SELinuxOptions": 'User:"" Role:"" Type:"" Level:""',
    "WindowsOptions": "GMSACredentialSpecName:? GMSACredentialSpec:? RunAsUserName:? HostProcess:?",
    "SeccompProfile": 'Type:"" LocalhostProfile:?',
    "AppArmorProfile": 'Type:"" LocalhostProfile:?',
    "PodResourceClaim": 'Name:"" ResourceClaimName:? ResourceClaimTemplateName:?',
    "ObjectReference": (
        'Kind:"" Namespace:"" Name:"" UID:"" APIVersion:"" ResourceVersion:"" FieldPath:""'
    ),
    "EventSource": 'Component:"" Host:""',
    "VolumeAffinity": "Required:*NodeSelector",
    "FailurePolicy": "Rules:[]FailureRule",
    "FailureRule": 'Action:"" OnExitCodes:*ExitCodes OnPodConditions:[]Condition',
    "ExitCodes": 'ContainerName:? Operator:"" Values:null',
    "Condition": 'Type:"" Status:""',
    "SuccessPolicy": "Rules:[]SuccessRule",
    "SuccessRule": "SucceededIndexes:? SucceededCount:?",
    "NodeSelectorTerm": "MatchExpressions:[]Requirement MatchFields:[]Requirement",
    "Requirement": 'Key:"" Operator:"" Values:null',
    "PodSpec": (
        "Volumes:[]Volume InitContainers:[]Container Containers:[]Container "
        'EphemeralContainers:[]EphemeralContainer RestartPolicy:"" '
        'TerminationGracePeriodSeconds:? ActiveDeadlineSeconds:? DNSPolicy:"" NodeSelector:null '
        'ServiceAccountName:"" AutomountServiceAccountToken:? NodeName:"" '
        'SecurityContext:=PodSecurity ImagePullSecrets:[]Named Hostname:"" Subdomain:"" '
        'SetHostnameAsFQDN:? Affinity:*Affinity SchedulerName:"" Tolerations:[]Toleration '
        'HostAliases:[]HostAlias PriorityClassName:"" Priority:? PreemptionPolicy:? '
        "DNSConfig:*DNSConfig ReadinessGates:[]Gate RuntimeClassName:? Overhead:null "
        "EnableServiceLinks:? TopologySpreadConstraints:[]Spread OS:*PodOS "
        "SchedulingGates:[]Named ResourceClaims:[]PodResourceClaim Resources:*Resources "
        "HostnameOverride:? SchedulingGroup:*SchedulingGroup"
    ),
    "Named": 'Name:""',
    "PodOS": 'Name:""',
    "Gate": 'ConditionType:""',
    "HostAlias": 'IP:"" Hostnames:null',
    "Toleration": 'Key:"" Operator:"" Value:"" Effect:"" TolerationSeconds:?',
    "DNSConfig": "Nameservers:null Searches:null Options:[]DNSOption",
    "DNSOption": 'Name:"" Value:?',
    "Spread": (
        'MaxSkew:0 TopologyKey:"" WhenUnsatisfiable:"" LabelSelector:@LabelSelector '
        "MinDomains:? NodeAffinityPolicy:? NodeTaintsPolicy:? MatchLabelKeys:null"
    ),
    "Affinity": "NodeAffinity:*NodeAffinity PodAffinity:*PodAffinity PodAntiAffinity:*PodAffinity",
    "NodeAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution:*NodeSelector "
        "PreferredDuringSchedulingIgnoredDuringExecution:[]PreferredTerm"
    ),
    "NodeSelector": "NodeSelectorTerms:[]NodeSelectorTerm",
    "PreferredTerm": "Weight:0 Preference:=NodeSelectorTerm",
    "PodAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution:[]AffinityTerm "
        "PreferredDuringSchedulingIgnoredDuringExecution:[]WeightedTerm"
    ),
    "AffinityTerm": (
        'LabelSelector:@LabelSelector Namespaces:null TopologyKey:"" '
        "NamespaceSelector:@LabelSelector MatchLabelKeys:null MismatchLabelKeys:null"
    ),
    "WeightedTerm": "Weight:0 PodAffinityTerm:=AffinityTerm",
    "PodSecurity": (
        "HostNetwork:false HostPID:false HostIPC:false ShareProcessNamespace:? HostUsers:? "
        "SELinuxOptions:*SELinuxOptions WindowsOptions:*WindowsOptions RunAsUser:? RunAsGroup:? "
        "RunAsNonRoot:? SupplementalGroups:null SupplementalGroupsPolicy:? FSGroup:? "
        "FSGroupChangePolicy:? Sysctls:[]Sysctl SeccompProfile:*SeccompProfile "
        "AppArmorProfile:*AppArmorProfile SELinuxChangePolicy:?"
    ),
    "Sysctl": 'Name:"" Value:""',
    "Container": (
        'Name:"" Image:"" Command:null Args:null WorkingDir:"" Ports:[]Port EnvFrom:[]EnvFrom '
        "Env:[]Env Resources:=Resources ResizePolicy:[]ResizePolicy RestartPolicy:? "
        "RestartPolicyRules:[]RestartRule VolumeMounts:[]Mount VolumeDevices:[]Device "
        "LivenessProbe:*Probe ReadinessProbe:*Probe StartupProbe:*Probe Lifecycle:*Lifecycle "
        'TerminationMessagePath:"" TerminationMessagePolicy:"" ImagePullPolicy:"" '
        "SecurityContext:*SecurityContext Stdin:false StdinOnce:false TTY:false"
    ),
    "EphemeralContainer": (
        'Name:"" Image:"" Command:null Args:null WorkingDir:"" Ports:[]Port EnvFrom:[]EnvFrom '
        "Env:[]Env Resources:=Resources ResizePolicy:[]ResizePolicy RestartPolicy:? "
        "RestartPolicyRules:[]RestartRule VolumeMounts:[]Mount VolumeDevices:[]Device "
        "LivenessProbe:*Probe ReadinessProbe:*Probe StartupProbe:*Probe Lifecycle:*Lifecycle "
        'TerminationMessagePath:"" TerminationMessagePolicy:"" ImagePullPolicy:"" '
        "SecurityContext:*SecurityContext Stdin:false StdinOnce:false TTY:false "
        'TargetContainerName:""'
    ),
    "Port": 'Name:"" HostPort:0 ContainerPort:0 Protocol:"" HostIP:""',
    "EnvFrom": 'Prefix:"" ConfigMapRef:*EnvSource SecretRef:*EnvSource',
    "EnvSource": 'Name:"" Optional:?',
    "Env": 'Name:"" Value:"" ValueFrom:*EnvValue',
    "EnvValue": (
        "FieldRef:*FieldRef ResourceFieldRef:*ResourceRef ConfigMapKeyRef:*KeyRef "
        "SecretKeyRef:*KeyRef FileKeyRef:*FileKey"
    ),
    "FileKey": 'VolumeName:"" Path:"" Key:"" Optional:?',
    "FieldRef": 'APIVersion:"" FieldPath:""',
    "ResourceRef": 'ContainerName:"" Resource:"" Divisor:"0"',
    "KeyRef": 'Name:"" Key:"" Optional:?',
    "Resources": "Limits:null Requests:null Claims:[]Claim",
    "Claim": 'Name:"" Request:""',
    "ResizePolicy": 'ResourceName:"" RestartPolicy:""',
    "RestartRule": 'Action:"" ExitCodes:*ExitRule',
    "Mount": (
        'Name:"" ReadOnly:false RecursiveReadOnly:? MountPath:"" SubPath:"" MountPropagation:? '
        'SubPathExpr:""'
    ),
    "Device": 'Name:"" DevicePath:""',
    "Lifecycle": "PostStart:*Handler PreStop:*Handler StopSignal:?",
    "Handler": "Exec:*Exec HTTPGet:*HTTPGet TCPSocket:*TCPSocket Sleep:*Sleep",
    "Exec": "Command:null",
    "Sleep": "Seconds:0",
    "HTTPGet": 'Path:"" Port:0 Host:"" Scheme:"" HTTPHeaders:[]Header',
    "Header": 'Name:"" Value:""',
    "TCPSocket": 'Port:0 Host:""',
    "GRPC": "Port:0 Service:?",
    "Probe": (
        "Exec:*Exec HTTPGet:*HTTPGet TCPSocket:*TCPSocket GRPC:*GRPC InitialDelaySeconds:0 "
        "TimeoutSeconds:0 PeriodSeconds:0 SuccessThreshold:0 FailureThreshold:0 "
        "TerminationGracePeriodSeconds:?"
    ),
    "VolumeSpec": (
        "Capacity:null GCEPersistentDisk:*GCEDisk AWSElasticBlockStore:*AWSDisk "
        "HostPath:*HostPath Glusterfs:*PersistentGlusterfs NFS:*NFS RBD:*PersistentRBD "
        "Quobyte:*Quobyte ISCSI:*PersistentISCSI FlexVolume:*PersistentFlex "
        "Cinder:*PersistentCinder CephFS:*PersistentCephFS "
        "FC:*FC Flocker:*Flocker AzureFile:*PersistentAzureFile VsphereVolume:*Vsphere "
        "AzureDisk:*AzureDisk PhotonPersistentDisk:*Photon PortworxVolume:*Portworx "
        "ScaleIO:*PersistentScaleIO Local:*Local StorageOS:*PersistentStorageOS CSI:*PersistentCSI "
        'AccessModes:null ClaimRef:*ObjectReference PersistentVolumeReclaimPolicy:"" '
        'StorageClassName:"" MountOptions:null VolumeMode:? '
        "NodeAffinity:*VolumeAffinity VolumeAttributesClassName:?"
    ),
    "VolumeSource": (
        "GCEPersistentDisk:*GCEDisk AWSElasticBlockStore:*AWSDisk HostPath:*HostPath "
        "Glusterfs:*PersistentGlusterfs NFS:*NFS RBD:*PersistentRBD Quobyte:*Quobyte ISCSI:*PersistentISCSI "
        "FlexVolume:*PersistentFlex Cinder:*PersistentCinder CephFS:*PersistentCephFS FC:*FC Flocker:*Flocker "
        "AzureFile:*PersistentAzureFile VsphereVolume:*Vsphere AzureDisk:*AzureDisk "
        "PhotonPersistentDisk:*Photon PortworxVolume:*Portworx ScaleIO:*PersistentScaleIO "
        "Local:*Local StorageOS:*PersistentStorageOS CSI:*PersistentCSI"
    ),
    "Volume": (
        'Name:"" HostPath:*HostPath EmptyDir:*EmptyDir GCEPersistentDisk:*GCEDisk '
        "AWSElasticBlockStore:*AWSDisk GitRepo:*GitRepo Secret:*SecretVolume NFS:*NFS "
        "ISCSI:*ISCSI Glusterfs:*Glusterfs PersistentVolumeClaim:*ClaimVolume RBD:*RBD "
        "Quobyte:*Quobyte FlexVolume:*Flex Cinder:*Cinder CephFS:*CephFS "
        "Flocker:*Flocker DownwardAPI:*Downward FC:*FC AzureFile:*AzureFile "
        "ConfigMap:*ConfigMapVolume VsphereVolume:*Vsphere AzureDisk:*AzureDisk "
        "PhotonPersistentDisk:*Photon Projected:*Projected PortworxVolume:*Portworx "
        "ScaleIO:*ScaleIO StorageOS:*StorageOS CSI:*CSIVolume Ephemeral:*Ephemeral "
        "Image:*ImageVolume"
    ),
    "GCEDisk": 'PDName:"" FSType:"" Partition:0 ReadOnly:false',
    "AWSDisk": 'VolumeID:"" FSType:"" Partition:0 ReadOnly:false',
    "GitRepo": 'Repository:"" Revision:"" Directory:""',
    "Glusterfs": 'EndpointsName=endpoints:"" Path:"" ReadOnly:false',
    "PersistentGlusterfs": 'EndpointsName=endpoints:"" Path:"" ReadOnly:false EndpointsNamespace:?',
    "SecretReference": 'Name:"" Namespace:""',
    "RBD": (
        'CephMonitors=monitors:null RBDImage=image:"" FSType:"" RBDPool=pool:"" '
        'RadosUser=user:"" Keyring:"" SecretRef:*LocalReference ReadOnly:false'
    ),
    "Quobyte": 'Registry:"" Volume:"" ReadOnly:false User:"" Group:"" Tenant:""',
    "ISCSI": (
        'TargetPortal:"" IQN:"" Lun:0 ISCSIInterface:"" FSType:"" ReadOnly:false '
        "Portals:null DiscoveryCHAPAuth=chapAuthDiscovery:false "
        "SessionCHAPAuth=chapAuthSession:false SecretRef:*LocalReference InitiatorName:?"
    ),
    "Flex": 'Driver:"" FSType:"" SecretRef:*LocalReference ReadOnly:false Options:null',
    "Cinder": 'VolumeID:"" FSType:"" ReadOnly:false SecretRef:*LocalReference',
    "CephFS": (
        'Monitors:null Path:"" User:"" SecretFile:"" SecretRef:*LocalReference ReadOnly:false'
    ),
    "FC": 'TargetWWNs:null Lun:? FSType:"" ReadOnly:false WWIDs:null',
    "Flocker": 'DatasetName:"" DatasetUUID:""',
    "AzureFile": 'SecretName:"" ShareName:"" ReadOnly:false',
    "PersistentAzureFile": 'SecretName:"" ShareName:"" ReadOnly:false SecretNamespace:?',
    "Vsphere": 'VolumePath:"" FSType:"" StoragePolicyName:"" StoragePolicyID:""',
    "AzureDisk": 'DiskName:"" DataDiskURI=diskURI:"" CachingMode:? FSType:? ReadOnly:? Kind:?',
    "Photon": 'PdID:"" FSType:""',
    "Portworx": 'VolumeID:"" FSType:"" ReadOnly:false',
    "ScaleIO": (
        'Gateway:"" System:"" SecretRef:*LocalReference SSLEnabled:false ProtectionDomain:"" '
        'StoragePool:"" StorageMode:"" VolumeName:"" FSType:"" ReadOnly:false'
    ),
    "StorageOS": 'VolumeName:"" VolumeNamespace:"" FSType:"" ReadOnly:false SecretRef:*LocalReference',
    "Ephemeral": "VolumeClaimTemplate:*ClaimTemplate",
    "ClaimTemplate": "Spec:=ClaimSpec",
    "NamedItems": 'Name:"" Items:[]KeyToPath Optional:?',
    "DownwardItems": "Items:[]DownwardFile",
    "TrustBundle": 'Name:? SignerName:? LabelSelector:@LabelSelector Optional:? Path:""',
    "PodCertificate": (
        'SignerName:"" KeyType:"" MaxExpirationSeconds:? CredentialBundlePath:"" '
        'KeyPath:"" CertificateChainPath:"" UserAnnotations:null'
    ),
    "LocalReference": 'Name:""',
    "AttachmentSpec": 'Attacher:"" Source:=AttachmentSource NodeName:""',
    "AttachmentSource": "PersistentVolumeName:? InlineVolumeSpec:*VolumeSpec",
    "CapacityRequests": "Requests:null",
    "ExitRule": 'Operator:"" Values:null',
    "SchedulingGroup": "PodGroupName:?",
    "HostPath": 'Path:"" Type:?',
    "Local": 'Path:"" FSType:?',
    "NFS": 'Server:"" Path:"" ReadOnly:false',
    "EmptyDir": 'Medium:"" SizeLimit:?',
    "SecretVolume": 'SecretName:"" Items:[]KeyToPath DefaultMode:? Optional:?',
    "ConfigMapVolume": 'Name:"" Items:[]KeyToPath DefaultMode:? Optional:?',
    "KeyToPath": 'Key:"" Path:"" Mode:?',
    "ClaimVolume": 'ClaimName:"" ReadOnly:false',
    "Downward": "Items:[]DownwardFile DefaultMode:?",
    "DownwardFile": 'Path:"" FieldRef:*FieldRef ResourceFieldRef:*ResourceRef Mode:?',
    "Projected": "Sources:[]Projection DefaultMode:?",
    "Projection": (
        "Secret:*NamedItems DownwardAPI:*DownwardItems ConfigMap:*NamedItems "
        "ServiceAccountToken:*Token ClusterTrustBundle:*TrustBundle "
        "PodCertificate:*PodCertificate"
    ),
    "Token": 'Audience:"" ExpirationSeconds:0 Path:""',
    "CSIVolume": (
        'Driver:"" ReadOnly:? FSType:? VolumeAttributes:null NodePublishSecretRef:*LocalReference'
    ),
    "ImageVolume": 'Reference:"" PullPolicy:""',
    "PersistentCSI": (
        'Driver:"" VolumeHandle:"" ReadOnly:false FSType:"" VolumeAttributes:null '
        "ControllerPublishSecretRef:*SecretReference NodeStageSecretRef:*SecretReference "
        "NodePublishSecretRef:*SecretReference ControllerExpandSecretRef:*SecretReference "
        "NodeExpandSecretRef:*SecretReference"
    ),
    "ClaimSpec": (
        "AccessModes:null Selector:@LabelSelector Resources:=ClaimResources "
        'VolumeName:"" StorageClassName:? VolumeMode:? DataSource:*DataSource '
        "DataSourceRef:*DataSourceRef VolumeAttributesClassName:?"
    ),
    "ClaimResources": "Limits:null Requests:null",
    "ResourceClaimSpec": "Devices:=DeviceClaim",
    "DeviceClaim": "Requests:[]DeviceRequest Constraints:[]DeviceConstraint Config:[]DeviceConfig",
    "DeviceRequest": 'Name:"" Exactly:*ExactRequest FirstAvailable:[]SubRequest',
    "ExactRequest": (
        'DeviceClassName:"" Selectors:[]DeviceSelector AllocationMode:"" Count:0 AdminAccess:? '
        "Tolerations:[]DeviceToleration Capacity:*CapacityRequests"
    ),
    "SubRequest": (
        'Name:"" DeviceClassName:"" Selectors:[]DeviceSelector AllocationMode:"" Count:0 '
        "Tolerations:[]DeviceToleration Capacity:*CapacityRequests"
    ),
    "AllocationResult": (
        "Devices:=AllocatedDevices NodeSelector:*NodeSelector AllocationTimestamp:?"
    ),
    "AllocatedDevices": "Results:[]AllocatedDevice Config:[]AllocatedConfig",
    "AllocatedDevice": (
        'Request:"" Driver:"" Pool:"" Device:"" AdminAccess:? Tolerations:[]DeviceToleration '
        "BindingConditions:null BindingFailureConditions:null ShareID:? ConsumedCapacity:null"
    ),
    "AllocatedConfig": 'Source:"" Requests:null Opaque:*OpaqueDevice',
    "DeviceSelector": "CEL:*DeviceCEL",
    "DeviceCEL": 'Expression:""',
    "DeviceToleration": 'Key:"" Operator:"" Value:"" Effect:"" TolerationSeconds:?',
    "DeviceConstraint": "Requests:null MatchAttribute:? DistinctAttribute:?",
    "DeviceConfig": "Requests:null Opaque:*OpaqueDevice",
    "OpaqueDevice": 'Driver:"" Parameters:?',
    "DataSource": 'APIGroup:? Kind:"" Name:""',
    "DataSourceRef": 'APIGroup:? Kind:"" Name:"" Namespace:?',
}
# Sources of persistent volumes refer to secrets of any namespace, those of pods to their own.
for _name in ("RBD", "ISCSI", "Flex", "Cinder", "CephFS", "ScaleIO"):
    INTERNAL_TYPES[f"Persistent{_name}"] = INTERNAL_TYPES[_name].replace(
        "*LocalReference", "*SecretReference"
    )
INTERNAL_TYPES["PersistentStorageOS"] = INTERNAL_TYPES["StorageOS"].replace(
    "*LocalReference", "*ObjectReference"
)
