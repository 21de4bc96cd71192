"""Objects as upstream's internal types print: Go field names, in order, nothing left out.

Some validation messages quote the offending part, or the difference between old and new, in this
form. Each entry gives a Go field, the JSON field behind it, and for structs the type; a type name
with [] stands for a list, with * for a pointer (null when absent).
"""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree

__all__ = ["internal"]

_TYPES: dict[str, str] = {
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
        "HostnameOverride:? SchedulingGroup:?"
    ),
    "Named": 'Name:""',
    "PodOS": 'Name:""',
    "Gate": 'ConditionType:""',
    "HostAlias": 'IP:"" Hostnames:null',
    "Toleration": 'Key:"" Operator:"" Value:"" Effect:"" TolerationSeconds:?',
    "DNSConfig": "Nameservers:null Searches:null Options:[]DNSOption",
    "DNSOption": 'Name:"" Value:?',
    "Spread": (
        'MaxSkew:0 TopologyKey:"" WhenUnsatisfiable:"" LabelSelector:? MinDomains:? '
        "NodeAffinityPolicy:? NodeTaintsPolicy:? MatchLabelKeys:null"
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
        'LabelSelector:? Namespaces:null TopologyKey:"" NamespaceSelector:? MatchLabelKeys:null '
        "MismatchLabelKeys:null"
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
    "RestartRule": 'Action:"" ExitCodes:?',
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
        "Capacity:null GCEPersistentDisk:? AWSElasticBlockStore:? HostPath:*HostPath Glusterfs:? "
        "NFS:*NFS RBD:? Quobyte:? ISCSI:? FlexVolume:? Cinder:? CephFS:? FC:? Flocker:? "
        "AzureFile:? VsphereVolume:? AzureDisk:? PhotonPersistentDisk:? PortworxVolume:? ScaleIO:? "
        "Local:*Local StorageOS:? CSI:*PersistentCSI AccessModes:null ClaimRef:? "
        'PersistentVolumeReclaimPolicy:"" StorageClassName:"" MountOptions:null VolumeMode:? '
        "NodeAffinity:*VolumeAffinity VolumeAttributesClassName:?"
    ),
    "VolumeSource": (
        "GCEPersistentDisk:? AWSElasticBlockStore:? HostPath:*HostPath Glusterfs:? NFS:*NFS RBD:? "
        "Quobyte:? ISCSI:? FlexVolume:? Cinder:? CephFS:? FC:? Flocker:? AzureFile:? "
        "VsphereVolume:? AzureDisk:? PhotonPersistentDisk:? PortworxVolume:? ScaleIO:? "
        "Local:*Local StorageOS:? CSI:*PersistentCSI"
    ),
    "Volume": (
        'Name:"" HostPath:*HostPath EmptyDir:*EmptyDir GCEPersistentDisk:? AWSElasticBlockStore:? '
        "GitRepo:? Secret:*SecretVolume NFS:*NFS ISCSI:? Glusterfs:? "
        "PersistentVolumeClaim:*ClaimVolume RBD:? Quobyte:? FlexVolume:? Cinder:? CephFS:? "
        "Flocker:? DownwardAPI:*Downward FC:? AzureFile:? ConfigMap:*ConfigMapVolume "
        "VsphereVolume:? AzureDisk:? PhotonPersistentDisk:? Projected:*Projected "
        "PortworxVolume:? ScaleIO:? StorageOS:? CSI:*CSIVolume Ephemeral:? Image:*ImageVolume"
    ),
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
        "Secret:? DownwardAPI:? ConfigMap:? ServiceAccountToken:*Token ClusterTrustBundle:? "
        "PodCertificate:?"
    ),
    "Token": 'Audience:"" ExpirationSeconds:0 Path:""',
    "CSIVolume": 'Driver:"" ReadOnly:? FSType:? VolumeAttributes:null NodePublishSecretRef:?',
    "ImageVolume": 'Reference:"" PullPolicy:""',
    "PersistentCSI": (
        'Driver:"" VolumeHandle:"" ReadOnly:false FSType:"" VolumeAttributes:null '
        "ControllerPublishSecretRef:? NodeStageSecretRef:? NodePublishSecretRef:? "
        "ControllerExpandSecretRef:? NodeExpandSecretRef:?"
    ),
    "ClaimSpec": (
        'AccessModes:null Selector:? Resources:=ClaimResources VolumeName:"" StorageClassName:? '
        "VolumeMode:? DataSource:*DataSource DataSourceRef:*DataSourceRef "
        "VolumeAttributesClassName:?"
    ),
    "ClaimResources": "Limits:null Requests:null",
    "ResourceClaimSpec": "Devices:=DeviceClaim",
    "DeviceClaim": "Requests:[]DeviceRequest Constraints:[]DeviceConstraint Config:[]DeviceConfig",
    "DeviceRequest": 'Name:"" Exactly:*ExactRequest FirstAvailable:[]SubRequest',
    "ExactRequest": (
        'DeviceClassName:"" Selectors:[]DeviceSelector AllocationMode:"" Count:0 AdminAccess:? '
        "Tolerations:[]DeviceToleration Capacity:?"
    ),
    "SubRequest": (
        'Name:"" DeviceClassName:"" Selectors:[]DeviceSelector AllocationMode:"" Count:0 '
        "Tolerations:[]DeviceToleration Capacity:?"
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
# Where the internal pod keeps what the versioned one has in its spec.
_POD_LEVEL = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ZEROS: dict[str, Any] = {'""': "", '"0"': "0", "?": None, "null": None, "0": 0, "false": False}


def _json_name(name: str) -> str:
    """The JSON name of a Go field: initials in lower case, as Kubernetes writes them."""
    special = {"SELinuxOptions": "seLinuxOptions", "GMSACredentialSpecName":
               "gmsaCredentialSpecName", "GMSACredentialSpec": "gmsaCredentialSpec",
               "DNSPolicy": "dnsPolicy", "DNSConfig": "dnsConfig", "OS": "os", "TTY": "tty",
               "FSGroup": "fsGroup", "FSGroupChangePolicy": "fsGroupChangePolicy",
               "SELinuxChangePolicy": "seLinuxChangePolicy", "IP": "ip", "HTTPGet": "httpGet",
               "TCPSocket": "tcpSocket", "GRPC": "grpc", "CSI": "csi", "NFS": "nfs",
               "PodIP": "podIP", "HostIP": "hostIP", "UID": "uid",
               "FSType": "fsType", "HostPID": "hostPID", "HostIPC": "hostIPC",
               "APIVersion": "apiVersion", "HTTPHeaders": "httpHeaders", "APIGroup": "apiGroup",
               "GCEPersistentDisk": "gcePersistentDisk", "RBD": "rbd", "ISCSI": "iscsi",
               "AWSElasticBlockStore": "awsElasticBlockStore", "FC": "fc", "CephFS": "cephfs",
               "StorageOS": "storageos", "CEL": "cel"}  # fmt: skip
    return special.get(name, name[:1].lower() + name[1:])


def internal(kind: str, tree: Tree, written: Any = None) -> Tree:
    """The tree of a versioned type in internal form.

    `written` is the same part of the document that the tree was read from, if it was: a list that
    stood there without items prints as such until it is stored, one that did not as none.
    """
    out: Tree = {}
    given: Tree = written if isinstance(written, dict) else {}
    if kind == "PodSpec":
        security = {**(tree.get("securityContext") or {}),
                    **{key: tree[key] for key in _POD_LEVEL if key in tree}}  # fmt: skip
        tree = {**tree, "securityContext": security}
    for entry in _TYPES[kind].split():
        name, _, form = entry.partition(":")
        value, was = tree.get(_json_name(name)), given.get(_json_name(name))
        if form.startswith("*"):
            out[name] = None if value is None else internal(form[1:], value, was)
        elif form.startswith("="):
            out[name] = internal(form[1:], value or {}, was)
        elif not value and isinstance(was, list | dict) and not was and form[:2] in ("[]", "nu"):
            out[name] = was
        elif form.startswith("[]"):
            items = was if isinstance(was, list) and len(was) == len(value or ()) else ()
            out[name] = None if not value else [
                internal(form[2:], item, items[index] if items else None)
                for index, item in enumerate(value)
            ]  # fmt: skip
        else:
            out[name] = _ZEROS[form] if value is None else value
    return out


def difference(old: Tree, new: Tree) -> str:
    """The unified difference of two internal forms, as upstream's diff of their JSON."""
    import difflib
    import json

    def lines(tree: Tree) -> list[str]:
        return json.dumps(tree, indent=1, ensure_ascii=False).split("\n")

    found = list(difflib.unified_diff(lines(old), lines(new), n=3, lineterm=""))
    return "".join(f"{line}\n" for line in found[2:])
