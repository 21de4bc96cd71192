"""Facts of upstream's Go types that the published schema lacks: embedding, and names of texts.

Both stand in the words of decoding errors. The source is the field declarations of k8s.io/api.
"""

from __future__ import annotations

from typing import Final

__all__ = ["embedding", "text_type"]

_EMBEDDED: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "Probe": ("ProbeHandler", ("exec", "httpGet", "tcpSocket", "grpc")),
    "EphemeralContainer": ("EphemeralContainerCommon", ()),
    "DeviceClassConfiguration": ("DeviceConfiguration", ("opaque",)),
    "DeviceClaimConfiguration": ("DeviceConfiguration", ("opaque",)),
    "DeviceAllocationConfiguration": ("DeviceConfiguration", ("opaque",)),
    "IngressRule": ("IngressRuleValue", ("http",)),
    "RuleWithOperations": ("Rule", ("apiGroups", "apiVersions", "resources", "scope")),
    **dict.fromkeys(
        (
            "ConfigMapEnvSource",
            "ConfigMapKeySelector",
            "ConfigMapProjection",
            "ConfigMapVolumeSource",
            "SecretEnvSource",
            "SecretKeySelector",
            "SecretProjection",
        ),
        ("LocalObjectReference", ("name",)),
    ),
    "PersistentVolumeClaim": ("TypeMeta", ("apiVersion", "kind")),  # inside a StatefulSet
}
"""Struct: the struct in it, and which fields are that one's (none listed: all)."""

_BUT: Final = {
    "Volume": ("VolumeSource", ("name",)),
    "PersistentVolumeSpec": (
        "PersistentVolumeSource",
        (
            "capacity",
            "accessModes",
            "claimRef",
            "persistentVolumeReclaimPolicy",
            "storageClassName",
            "mountOptions",
            "volumeMode",
            "nodeAffinity",
            "volumeAttributesClassName",
        ),
    ),
}
"""The same, with the fields that are not."""

_NAMED_RULE: Final = ("apiGroups", "apiVersions", "resources", "scope")


def embedding(struct: str, name: str) -> tuple[str, ...]:
    """The embedded structs in which Go declares a field, innermost first; mostly none."""
    inner = _EMBEDDED.get(struct)
    if inner is not None and (not inner[1] or name in inner[1]):
        return (inner[0],)
    outer = _BUT.get(struct)
    if outer is not None and name not in outer[1]:
        return (outer[0],)
    if struct == "NamedRuleWithOperations" and name != "resourceNames":
        return ("Rule", "RuleWithOperations") if name in _NAMED_RULE else ("RuleWithOperations",)
    return ()


_BY_FIELD: Final[dict[str, str]] = {
    "accessModes": "PersistentVolumeAccessMode",
    "ipFamilies": "IPFamily",
    "ipFamilyPolicy": "IPFamilyPolicy",
    "volumeLifecycleModes": "VolumeLifecycleMode",
    "whenDeleted": "PersistentVolumeClaimRetentionPolicyType",
    "whenScaled": "PersistentVolumeClaimRetentionPolicyType",
    "allocationMode": "DeviceAllocationMode",
    "volumeBindingMode": "VolumeBindingMode",
    "reclaimPolicy": "PersistentVolumeReclaimPolicy",
    "persistentVolumeReclaimPolicy": "PersistentVolumeReclaimPolicy",
    "selectPolicy": "ScalingPolicySelect",
    "reinvocationPolicy": "ReinvocationPolicyType",
    "patchType": "PatchType",
    "usages": "KeyUsage",
    "policyTypes": "PolicyType",
    "dnsPolicy": "DNSPolicy",
    "imagePullPolicy": "PullPolicy",
    "pullPolicy": "PullPolicy",
    "terminationMessagePolicy": "TerminationMessagePolicy",
    "protocol": "Protocol",
    "whenUnsatisfiable": "UnsatisfiableConstraintAction",
    "mountPropagation": "MountPropagationMode",
    "podManagementPolicy": "PodManagementPolicyType",
    "completionMode": "CompletionMode",
    "podReplacementPolicy": "PodReplacementPolicy",
    "concurrencyPolicy": "ConcurrencyPolicy",
    "sessionAffinity": "ServiceAffinity",
    "volumeMode": "PersistentVolumeMode",
    "medium": "StorageMedium",
    "preemptionPolicy": "PreemptionPolicy",
    "pathType": "PathType",
    "failurePolicy": "FailurePolicyType",
    "matchPolicy": "MatchPolicyType",
    "sideEffects": "SideEffectClass",
    "operations": "OperationType",
    "scope": "ScopeType",
    "addressType": "AddressType",
    "fsGroupPolicy": "FSGroupPolicy",
    "internalTrafficPolicy": "ServiceInternalTrafficPolicy",
    "externalTrafficPolicy": "ServiceExternalTrafficPolicy",
    "procMount": "ProcMountType",
    "fsGroupChangePolicy": "PodFSGroupChangePolicy",
    "unhealthyPodEvictionPolicy": "UnhealthyPodEvictionPolicyType",
    "nodeAffinityPolicy": "NodeInclusionPolicy",
    "nodeTaintsPolicy": "NodeInclusionPolicy",
    "scopes": "ResourceQuotaScope",
    "scopeName": "ResourceQuotaScope",
    "validationActions": "ValidationAction",
    "parameterNotFoundAction": "ParameterNotFoundActionType",
    "recursiveReadOnly": "RecursiveReadOnlyMode",
    "stopSignal": "Signal",
    "propagationPolicy": "DeletionPropagation",
    "volumesInUse": "UniqueVolumeName",
}
_BY_STRUCT: Final[dict[str, str]] = {
    "PersistentVolumeClaimStatus.phase": "PersistentVolumeClaimPhase",
    "ManagedFieldsEntry.operation": "ManagedFieldsOperationType",
    "PodStatus.phase": "PodPhase",
    "PersistentVolumeStatus.phase": "PersistentVolumePhase",
    "NamespaceStatus.phase": "NamespacePhase",
    "NodeStatus.phase": "NodePhase",
    "Container.restartPolicy": "ContainerRestartPolicy",
    "PodSpec.restartPolicy": "RestartPolicy",
    "EphemeralContainerCommon.restartPolicy": "ContainerRestartPolicy",
    "MetricTarget.type": "MetricTargetType",
    "MetricSpec.type": "MetricSourceType",
    "ServiceSpec.type": "ServiceType",
    "NamespaceSpec.finalizers": "FinalizerName",
    "LeaseSpec.strategy": "CoordinatedLeaseStrategy",
    "Secret.type": "SecretType",
    "DeploymentStrategy.type": "DeploymentStrategyType",
    "DaemonSetUpdateStrategy.type": "DaemonSetUpdateStrategyType",
    "StatefulSetUpdateStrategy.type": "StatefulSetUpdateStrategyType",
    "Toleration.operator": "TolerationOperator",
    "Toleration.effect": "TaintEffect",
    "Taint.effect": "TaintEffect",
    "HTTPGetAction.scheme": "URIScheme",
    "LabelSelectorRequirement.operator": "LabelSelectorOperator",
    "NodeSelectorRequirement.operator": "NodeSelectorOperator",
    "HostPathVolumeSource.type": "HostPathType",
    "SeccompProfile.type": "SeccompProfileType",
    "LimitRangeItem.type": "LimitType",
    "PodOS.name": "OSName",
    "ContainerResizePolicy.resourceName": "ResourceName",
    "ContainerResizePolicy.restartPolicy": "ResourceResizeRestartPolicy",
    "ResourceMetricSource.name": "v1.ResourceName",
    "ResourceMetricStatus.name": "v1.ResourceName",
    "ContainerResourceMetricSource.name": "v1.ResourceName",
    "ContainerResourceMetricStatus.name": "v1.ResourceName",
    "ResourceStatus.name": "ResourceName",
    "AttachedVolume.name": "UniqueVolumeName",
    "PodFailurePolicyOnExitCodesRequirement.operator": "PodFailurePolicyOnExitCodesOperator",
    "PodFailurePolicyRule.action": "PodFailurePolicyAction",
    "PodFailurePolicyOnPodConditionsPattern.type": "PodConditionType",
    "PodFailurePolicyOnPodConditionsPattern.status": "ConditionStatus",
    "AppArmorProfile.type": "AppArmorProfileType",
    "AzureDiskVolumeSource.cachingMode": "AzureDataDiskCachingMode",
    "AzureDiskVolumeSource.kind": "AzureDataDiskKind",
    "ModifyVolumeStatus.status": "PersistentVolumeClaimModifyVolumeStatus",
    "PodSecurityContext.supplementalGroupsPolicy": "SupplementalGroupsPolicy",
    "PodSecurityContext.seLinuxChangePolicy": "PodSELinuxChangePolicy",
    "PodStatus.qosClass": "PodQOSClass",
    "Capabilities.add": "Capability",
    "Capabilities.drop": "Capability",
    "NodeAddress.type": "NodeAddressType",
    "PodReadinessGate.conditionType": "PodConditionType",
    "LoadBalancerIngress.ipMode": "LoadBalancerIPMode",
    "ContainerRestartRule.action": "ContainerRestartRuleAction",
    "ContainerRestartRuleOnExitCodes.operator": "ContainerRestartRuleOnExitCodesOperator",
    "ScopedResourceSelectorRequirement.operator": "ScopeSelectorOperator",
    "HPAScalingPolicy.type": "HPAScalingPolicyType",
    "MetricStatus.type": "MetricSourceType",
    "DeviceAllocationConfiguration.source": "AllocationConfigSource",
    "DeviceTaint.effect": "DeviceTaintEffect",
    "DeviceToleration.effect": "DeviceTaintEffect",
    "DeviceToleration.operator": "DeviceTolerationOperator",
    "DeviceConstraint.matchAttribute": "FullyQualifiedName",
    "DeviceConstraint.distinctAttribute": "FullyQualifiedName",
    "ResourceHealth.resourceID": "ResourceID",
    "ResourceHealth.health": "ResourceHealthStatus",
    "FlowDistinguisherMethod.type": "FlowDistinguisherMethodType",
    "LimitResponse.type": "LimitResponseType",
    "PriorityLevelConfigurationSpec.type": "PriorityLevelEnablement",
    "CustomResourceDefinitionSpec.scope": "ResourceScope",
    "CustomResourceConversion.strategy": "ConversionStrategyType",
    "ValidationRule.reason": "FieldValueErrorReason",
    "Validation.reason": "StatusReason",
    "CertificateSigningRequestCondition.type": "RequestConditionType",
}
_UIDS: Final = (
    "ObjectMeta.uid",
    "OwnerReference.uid",
    "ObjectReference.uid",
    "Preconditions.uid",
    "ConfigMapNodeConfigSource.uid",
    "ResourceClaimConsumerReference.uid",
    "BoundObjectReference.uid",
)
_CONDITIONS: Final = (
    "DaemonSetCondition",
    "DeploymentCondition",
    "ReplicaSetCondition",
    "StatefulSetCondition",
    "JobCondition",
    "NodeCondition",
    "PodCondition",
    "PersistentVolumeClaimCondition",
    "ReplicationControllerCondition",
    "NamespaceCondition",
    "ComponentCondition",
    "HorizontalPodAutoscalerCondition",
    "FlowSchemaCondition",
    "PriorityLevelConfigurationCondition",
    "CustomResourceDefinitionCondition",
    "APIServiceCondition",
)
"""Conditions whose types have a Go type of their own, called as they are."""


def text_type(struct: str, name: str, version: str) -> str:
    """The Go type of a text field (or of the elements of a list of texts)."""
    place = f"{struct}.{name}"
    if place in _UIDS:
        return "types.UID"
    if name == "scope" and struct == "IngressClassParametersReference":
        return "string"
    if name == "status" and struct.endswith("Condition"):
        return "v1.ConditionStatus"
    if name == "type" and struct in _CONDITIONS:
        return f"{version}.{struct}Type"
    known = _BY_STRUCT.get(place) or _BY_FIELD.get(name)
    if known is None:
        return "string"
    return known if "." in known else f"{version}.{known}"
