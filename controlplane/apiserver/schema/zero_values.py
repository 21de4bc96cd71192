"""The optional scalar fields that keep a zero value.

An optional Go field that is a pointer keeps false, 0 or "" when the client sent it; a plain field
with `omitempty` loses it. The published schema does not tell the two apart, so the rarer kind is
listed here: plain booleans and integers, and pointer strings. The source is the field declarations
of k8s.io/api.
"""

from __future__ import annotations

from controlplane.apiserver.schema.types import Field, Kind, StructType

__all__ = ["keeps_zero"]

_PLAIN_BOOLEANS = frozenset(
    """
    paused authenticated denied readOnly chapAuthDiscovery chapAuthSession stdin stdinOnce tty
    unschedulable hostNetwork hostPID hostIPC sslEnabled publishNotReadyAddresses clusterScope
    globalDefault preserveUnknownFields deprecated exclusiveMaximum exclusiveMinimum nullable
    uniqueItems x-kubernetes-embedded-resource x-kubernetes-int-or-string insecureSkipTLSVerify
    """.split()
)
_PLAIN_INTEGERS = frozenset(
    """
    minReadySeconds numberAvailable numberUnavailable observedGeneration updatedNumberScheduled
    availableReplicas readyReplicas replicas unavailableReplicas updatedReplicas currentReplicas
    fullyLabeledReplicas active failed succeeded partition sizeBytes hostPort signal count
    failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds nodePort
    healthCheckNodePort deprecatedCount number priority generation code retryAfterSeconds
    """.split()
)
# Pointers all the same.
_POINTERS = frozenset(
    """
    AzureDiskVolumeSource.readOnly RollingUpdateStatefulSetStrategy.partition
    DeploymentSpec.replicas ReplicaSetSpec.replicas StatefulSetSpec.replicas
    ReplicationControllerSpec.replicas
    ClientIPConfig.timeoutSeconds PodSpec.priority
    MutatingWebhook.timeoutSeconds ValidatingWebhook.timeoutSeconds VolumeNodeResources.count
    PodSpec.runtimeClassName PodSpec.preemptionPolicy PodSpec.hostnameOverride
    PersistentVolumeClaimSpec.storageClassName PersistentVolumeClaimSpec.volumeMode
    PersistentVolumeClaimSpec.volumeAttributesClassName PersistentVolumeSpec.volumeMode
    PersistentVolumeSpec.volumeAttributesClassName
    PersistentVolumeClaimStatus.currentVolumeAttributesClassName
    TypedLocalObjectReference.apiGroup TypedObjectReference.apiGroup TypedObjectReference.namespace
    ServiceSpec.internalTrafficPolicy ServiceSpec.loadBalancerClass ServiceSpec.ipFamilyPolicy
    ServiceSpec.trafficDistribution ServicePort.appProtocol EndpointPort.appProtocol
    EndpointAddress.nodeName Endpoint.hostname Endpoint.nodeName Endpoint.zone
    IngressSpec.ingressClassName HTTPIngressPath.pathType IngressClassParametersReference.apiGroup
    IngressClassParametersReference.scope IngressClassParametersReference.namespace
    NetworkPolicyPort.protocol LeaseSpec.holderIdentity LeaseSpec.strategy
    LeaseSpec.preferredHolder CSIDriverSpec.fsGroupPolicy StorageClass.reclaimPolicy
    StorageClass.volumeBindingMode VolumeAttachmentSource.persistentVolumeName
    PriorityClass.preemptionPolicy SeccompProfile.localhostProfile AppArmorProfile.localhostProfile
    WindowsSecurityContextOptions.gmsaCredentialSpecName
    WindowsSecurityContextOptions.gmsaCredentialSpec WindowsSecurityContextOptions.runAsUserName
    SecurityContext.procMount PodSecurityContext.fsGroupChangePolicy
    PodSecurityContext.supplementalGroupsPolicy PodSecurityContext.seLinuxChangePolicy
    Container.restartPolicy EphemeralContainer.restartPolicy VolumeMount.mountPropagation
    VolumeMount.recursiveReadOnly HostPathVolumeSource.type AzureDiskVolumeSource.cachingMode
    AzureDiskVolumeSource.fsType AzureDiskVolumeSource.kind
    AzureFilePersistentVolumeSource.secretNamespace CSIVolumeSource.fsType
    ISCSIVolumeSource.initiatorName ISCSIPersistentVolumeSource.initiatorName
    GlusterfsPersistentVolumeSource.endpointsNamespace
    TopologySpreadConstraint.nodeAffinityPolicy TopologySpreadConstraint.nodeTaintsPolicy
    PodDNSConfigOption.value GRPCAction.service Lifecycle.stopSignal ContainerStatus.stopSignal
    ClusterTrustBundleProjection.name ClusterTrustBundleProjection.signerName
    PodResourceClaim.resourceClaimName PodResourceClaim.resourceClaimTemplateName
    PodResourceClaimStatus.resourceClaimName VolumeMountStatus.recursiveReadOnly
    LoadBalancerIngress.ipMode PortStatus.error IngressPortStatus.error JobSpec.completionMode
    JobSpec.podReplacementPolicy JobSpec.managedBy CronJobSpec.timeZone
    PodFailurePolicyOnExitCodesRequirement.containerName SuccessPolicyRule.succeededIndexes
    JobStatus.failedIndexes PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy
    HPAScalingRules.selectPolicy DeleteOptions.propagationPolicy Preconditions.uid
    Preconditions.resourceVersion MutatingWebhook.failurePolicy MutatingWebhook.matchPolicy
    MutatingWebhook.sideEffects MutatingWebhook.reinvocationPolicy ValidatingWebhook.failurePolicy
    ValidatingWebhook.matchPolicy ValidatingWebhook.sideEffects RuleWithOperations.scope
    ServiceReference.path WebhookClientConfig.url ResourceSliceSpec.nodeName JSONSchemaProps.$ref
    PodGroupResourceClaim.resourceClaimName PodGroupResourceClaim.resourceClaimTemplateName
    PodGroupResourceClaimStatus.resourceClaimName PodGroupTemplate.disruptionMode
    PodGroupSpec.priority PodGroupTemplate.priority
    DeviceConstraint.matchAttribute DeviceConstraint.distinctAttribute
    DeviceAttribute.string DeviceAttribute.version AllocatedDeviceStatus.shareID
    DeviceRequestAllocationResult.shareID Device.nodeName BasicDevice.nodeName
    DeviceClassSpec.extendedResourceName DeviceTaintSelector.driver DeviceTaintSelector.pool DeviceTaintSelector.device
    ValidatingAdmissionPolicySpec.failurePolicy MutatingAdmissionPolicySpec.failurePolicy
    Validation.reason ParamRef.parameterNotFoundAction MatchResources.matchPolicy
    LocalVolumeSource.fsType CSIVolumeSource.readOnly ResourceHealth.message
    PodSchedulingGroup.podGroupName NodeAllocatableResourceMapping.capacityKey
    ResourcePoolStatusRequestSpec.poolName PoolStatus.nodeName PoolStatus.validationError
    CustomResourceDefinitionVersion.deprecationWarning
    CustomResourceSubresourceScale.labelSelectorPath JSONSchemaProps.x-kubernetes-list-type
    JSONSchemaProps.x-kubernetes-map-type ValidationRule.reason
    """.split()
)
# The status of an autoscaler/v1 counts generations with a pointer.
_POINTER_TYPES = (
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus.observedGeneration",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus.observedGeneration",
    "io.k8s.api.discovery.v1.EndpointPort.name",
    "io.k8s.api.discovery.v1.EndpointPort.protocol",
)
# Declared with a default in the schema, but left out of the encoding when empty.
_OMITTED_DEFAULTS = frozenset(
    """
    LocalObjectReference.name ConfigMapEnvSource.name ConfigMapKeySelector.name
    ConfigMapProjection.name ConfigMapVolumeSource.name SecretEnvSource.name SecretKeySelector.name
    SecretProjection.name ScaleSpec.replicas StatefulSetOrdinals.start
    ReplicationControllerSpec.minReadySeconds
    """.split()
)


def keeps_zero(owner: StructType, field: Field) -> bool:
    """True if the optional scalar `field` of `owner` is encoded although false, 0 or empty."""
    name = f"{owner.short}.{field.name}"
    if field.has_default and field.kind != Kind.STRUCT:
        return name not in _OMITTED_DEFAULTS
    if name in _POINTERS or f"{owner.name}.{field.name}" in _POINTER_TYPES:
        return True
    if field.kind == Kind.BOOL:
        return field.name not in _PLAIN_BOOLEANS
    if field.kind == Kind.INT:
        return field.name not in _PLAIN_INTEGERS
    if field.kind == Kind.NUMBER:
        return True
    return False
