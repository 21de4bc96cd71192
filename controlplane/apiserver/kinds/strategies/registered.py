"""The table of strategies."""

from __future__ import annotations

from functools import cache

from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.custom.definitions import DefinitionStrategy
from controlplane.apiserver.kinds.defaulting import others
from controlplane.apiserver.kinds.defaulting import workloads as defaults
from controlplane.apiserver.kinds.defaulting.pods import default_pod
from controlplane.apiserver.kinds.strategies import devices, plain, workloads
from controlplane.apiserver.kinds.strategies.plain import EndpointsStrategy
from controlplane.apiserver.kinds.strategies.pods import PodStrategy
from controlplane.apiserver.kinds.strategies.services import ServiceStrategy
from controlplane.apiserver.kinds.strategies.signing_requests import SigningRequestStrategy
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.validation import autoscaling, job_status, jobs
from controlplane.apiserver.kinds.validation import common as rules
from controlplane.apiserver.kinds.validation import workloads as workload_rules
from controlplane.apiserver.kinds.validation.pod_updates import validate_pod_status_update
from controlplane.apiserver.kinds.validation.pods import validate_pod
from controlplane.apiserver.kinds.validation.services import (
    validate_service,
    validate_service_status,
    validate_service_update,
)
from controlplane.apiserver.kinds.warnings import node_warnings, service_warnings, volume_warnings

__all__ = ["strategy_for"]

_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_NETWORK = "networking.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_RESOURCE = "resource.k8s.io"


@cache
def _strategies() -> dict[tuple[str, str], Strategy]:
    return {
        ("", "secrets"): plain.SecretStrategy(
            default=others.default_secret,
            rule=rules.validate_secret,
            update_rule=rules.validate_secret_update,
            has_status=False,
            meta_steps="UA",
        ),
        ("", "configmaps"): Strategy(
            rule=rules.validate_config_map,
            update_rule=rules.validate_config_map_update,
            has_status=False,
            meta_steps="UA",
        ),
        ("", "serviceaccounts"): plain.AccountStrategy(
            has_status=False, returns_deleted=True, meta_steps="UA"
        ),
        ("", "endpoints"): EndpointsStrategy(
            default=others.default_endpoints,
            rule=rules.validate_endpoints,
            has_status=False,
            create_on_update=True,
            meta_steps="AU",
        ),
        ("", "limitranges"): Strategy(
            default=others.default_limit_range,
            rule=rules.validate_limit_range,
            has_status=False,
            create_on_update=True,
            meta_steps="A",
        ),
        ("", "resourcequotas"): plain.QuotaStrategy(
            default=others.default_quota,
            rule=rules.validate_quota,
            update_rule=rules.validate_quota_update,
            status_rule=rules.validate_quota_status,
            returns_deleted=True,
        ),
        ("", "podtemplates"): plain.PodTemplateStrategy(
            default=others.default_pod_template,
            rule=rules.validate_pod_template,
            has_status=False,
            returns_deleted=True,
            generation=True,
        ),
        ("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy(
            generation=True, standard_finalizers=False, unconditional_update=False
        ),
        ("apps", "controllerrevisions"): Strategy(
            rule=rules.validate_controller_revision,
            update_rule=rules.validate_controller_revision_update,
            has_status=False,
            meta_steps="UA",
        ),
        ("coordination.k8s.io", "leases"): Strategy(
            default=others.default_lease,
            rule=rules.validate_lease,
            has_status=False,
            create_on_update=True,
            unconditional_update=False,
            standard_finalizers=False,
        ),
        (_STORAGE, "storageclasses"): Strategy(
            default=others.default_storage_class,
            rule=rules.validate_storage_class,
            update_rule=rules.validate_storage_class_update,
            has_status=False,
            returns_deleted=True,
            meta_steps="AU",
        ),
        (_STORAGE, "csidrivers"): plain.CSIDriverStrategy(
            default=others.default_csi_driver,
            rule=rules.validate_csi_driver,
            update_rule=rules.validate_csi_driver_update,
            has_status=False,
            returns_deleted=True,
            unconditional_update=False,
        ),
        (_STORAGE, "csinodes"): Strategy(
            rule=rules.validate_csi_node,
            update_rule=rules.validate_csi_node_update,
            has_status=False,
            returns_deleted=True,
            unconditional_update=False,
            meta_steps="A",
        ),
        (_STORAGE, "csistoragecapacities"): Strategy(
            rule=rules.validate_storage_capacity,
            update_rule=rules.validate_storage_capacity_update,
            has_status=False,
            unconditional_update=False,
            meta_steps="AU",
        ),
        (_STORAGE, "volumeattributesclasses"): Strategy(
            rule=rules.validate_attributes_class,
            update_rule=rules.validate_attributes_class_update,
            has_status=False,
            returns_deleted=True,
            meta_steps="AU",
        ),
        ("scheduling.k8s.io", "priorityclasses"): Strategy(
            default=others.default_priority_class,
            rule=rules.validate_priority_class,
            update_rule=rules.validate_priority_class_update,
            has_status=False,
            generation=True,
        ),
        (_NETWORK, "ingresses"): plain.IngressStrategy(
            status_rule=rules.validate_ingress_status,
            generation=True,
            empty_status={"loadBalancer": {}},
            meta_steps="UA",
        ),
        (_NETWORK, "ingressclasses"): Strategy(
            default=others.default_ingress_class,
            rule=rules.validate_ingress_class,
            update_rule=rules.validate_ingress_class_update,
            has_status=False,
            generation=True,
            meta_steps="UA",
        ),
        (_NETWORK, "servicecidrs"): plain.ServiceCIDRStrategy(
            rule=rules.validate_service_cidr,
            update_rule=rules.validate_service_cidr_update,
            status_keeps_meta=True,
        ),
        (_NETWORK, "ipaddresses"): Strategy(
            rule=rules.validate_ip_address,
            update_rule=rules.validate_ip_address_update,
            has_status=False,
            name_rule=rules.address_name,
        ),
        (_NETWORK, "networkpolicies"): plain.CountedAsWritten(
            default=others.default_network_policy,
            rule=rules.validate_network_policy,
            has_status=False,
            generation=True,
        ),
        ("node.k8s.io", "runtimeclasses"): Strategy(
            rule=rules.validate_runtime_class,
            update_rule=rules.validate_runtime_class_update,
            has_status=False,
            create_on_update=True,
            unconditional_update=False,
            meta_steps="AU",
        ),
        (_RBAC, "roles"): Strategy(
            rule=rules.validate_role,
            has_status=False,
            create_on_update=True,
            name_rule=names.path_segment,
            meta_steps="AU",
        ),
        (_RBAC, "clusterroles"): Strategy(
            rule=rules.validate_role,
            has_status=False,
            create_on_update=True,
            name_rule=names.path_segment,
            meta_steps="AU",
        ),
        (_RBAC, "rolebindings"): Strategy(
            default=others.default_role_binding,
            rule=rules.validate_role_binding,
            update_rule=rules.validate_role_binding_update,
            has_status=False,
            create_on_update=True,
            name_rule=names.path_segment,
            meta_steps="AU",
        ),
        (_RBAC, "clusterrolebindings"): Strategy(
            default=others.default_role_binding,
            rule=rules.validate_cluster_role_binding,
            update_rule=rules.validate_role_binding_update,
            has_status=False,
            create_on_update=True,
            name_rule=names.path_segment,
            meta_steps="AU",
        ),
        (_ADMISSION, "mutatingwebhookconfigurations"): plain.CountedAsWritten(
            default=others.default_mutating_webhooks,
            rule=rules.validate_webhooks,
            has_status=False,
            counted="webhooks",
            unconditional_update=False,
            generation=True,
            meta_steps="A",
            standard_finalizers=False,
        ),
        (_ADMISSION, "validatingwebhookconfigurations"): plain.CountedAsWritten(
            default=others.default_validating_webhooks,
            rule=rules.validate_webhooks,
            has_status=False,
            counted="webhooks",
            unconditional_update=False,
            generation=True,
            meta_steps="A",
            standard_finalizers=False,
        ),
        (_ADMISSION, "validatingadmissionpolicies"): Strategy(
            default=others.default_admission_policy,
            rule=rules.validate_validating_policy,
            status_rule=rules.validate_validating_policy_status,
            generation=True,
            unconditional_update=False,
            status_keeps_meta=True,
            meta_steps="A",
            standard_finalizers=False,
        ),
        (_ADMISSION, "mutatingadmissionpolicies"): Strategy(
            default=others.default_admission_policy,
            rule=rules.validate_mutating_policy,
            has_status=False,
            generation=True,
            unconditional_update=False,
            meta_steps="A",
            standard_finalizers=False,
        ),
        (_ADMISSION, "mutatingadmissionpolicybindings"): Strategy(
            default=others.default_policy_binding,
            rule=rules.validate_mutating_policy_binding,
            has_status=False,
            generation=True,
            unconditional_update=False,
            meta_steps="A",
            standard_finalizers=False,
        ),
        (_ADMISSION, "validatingadmissionpolicybindings"): Strategy(
            default=others.default_policy_binding,
            rule=rules.validate_validating_policy_binding,
            has_status=False,
            generation=True,
            unconditional_update=False,
            meta_steps="A",
            standard_finalizers=False,
        ),
        (_FLOW, "flowschemas"): Strategy(
            default=others.default_flow_schema,
            rule=rules.validate_flow_schema,
            status_rule=rules.validate_flow_status,
            generation=True,
            status_keeps_meta=True,
            meta_steps="A",
        ),
        (_FLOW, "prioritylevelconfigurations"): Strategy(
            default=others.default_priority_level,
            rule=rules.validate_priority_level,
            status_rule=rules.validate_flow_status,
            generation=True,
            status_keeps_meta=True,
            meta_steps="A",
        ),
        (_RESOURCE, "resourceclaims"): devices.DeviceClaimStrategy(
            default=others.default_resource_claim,
            rule=rules.validate_device_claim,
            returns_deleted=True,
            status_keeps_meta=True,
            meta_steps="AU",
        ),
        (_RESOURCE, "resourceclaimtemplates"): devices.ClaimTemplateStrategy(
            default=others.default_resource_claim_template, returns_deleted=True, has_status=False
        ),
        (_RESOURCE, "resourceslices"): devices.SliceStrategy(
            rule=rules.validate_resource_slice,
            update_rule=rules.validate_resource_slice_update,
            returns_deleted=True,
            has_status=False,
            generation=True,
        ),
        (_RESOURCE, "deviceclasses"): Strategy(
            rule=rules.validate_device_class,
            returns_deleted=True,
            has_status=False,
            generation=True,
            meta_steps="AU",
        ),
        ("apiregistration.k8s.io", "apiservices"): plain.APIServiceStrategy(
            default=others.default_api_service,
            rule=rules.validate_api_service,
            status_rule=rules.validate_api_service_status,
            name_rule=names.path_segment,
            unconditional_update=False,
            status_keeps_meta=True,
            meta_steps="UA",
            standard_finalizers=False,
        ),
        ("certificates.k8s.io", "certificatesigningrequests"): SigningRequestStrategy(
            rule=rules.validate_signing_request, meta_steps="AU"
        ),
        ("", "pods"): PodStrategy(
            default=default_pod,
            rule=validate_pod,
            status_rule=validate_pod_status_update,
            returns_deleted=True,
            graceful=True,
            meta_steps="UA",
        ),
        ("", "namespaces"): plain.NamespaceStrategy(
            default=others.default_namespace,
            rule=rules.validate_namespace,
            status_rule=rules.validate_namespace_status,
            returns_deleted=True,
            deletes_in_steps=True,
            name_rule=names.dns_label,
            meta_steps="AU",
        ),
        ("", "nodes"): plain.NodeStrategy(
            default=others.default_node,
            rule=rules.validate_node,
            update_rule=rules.validate_node_update,
            status_rule=rules.validate_node_update,
            warn=node_warnings,
            meta_steps="AU",
        ),
        ("", "services"): ServiceStrategy(
            default=others.default_service,
            rule=validate_service,
            update_rule=validate_service_update,
            status_rule=validate_service_status,
            warn=service_warnings,
            empty_status={"loadBalancer": {}},
            allocates=True,
            returns_deleted=True,
            create_on_update=True,
            name_rule=names.dns_label,
        ),
        ("", "persistentvolumeclaims"): plain.ClaimStrategy(
            default=others.default_claim,
            rule=rules.validate_claim,
            status_rule=rules.validate_claim_status,
            returns_deleted=True,
            meta_steps="AU",
        ),
        ("", "persistentvolumes"): plain.VolumeStrategy(
            default=others.default_volume,
            warn=volume_warnings,
            returns_deleted=True,
            meta_steps="A",
        ),
        ("", "events"): plain.EventStrategy(
            has_status=False,
            create_on_update=True,
            unsupported_gc=True,
            ttl_seconds=3600,
            meta_steps="",
        ),
        ("", "replicationcontrollers"): workloads.Workload(
            default=defaults.default_replication_controller,
            rule=workload_rules.validate_replication_controller,
            status_rule=workload_rules.validate_replica_status,
            generation=True,
            named_pods=True,
            orphan_by_default=True,
            empty_status={"replicas": 0},
            meta_steps="AU",
        ),
        ("apps", "deployments"): workloads.DeploymentStrategy(
            default=defaults.default_deployment,
            rule=workload_rules.validate_deployment,
            update_rule=workload_rules.validate_deployment_update,
            status_rule=workload_rules.validate_deployment_status,
            generation=True,
            named_pods=True,
            status_keeps_labels=True,
        ),
        ("apps", "replicasets"): workloads.Workload(
            default=defaults.default_replica_set,
            rule=workload_rules.validate_replica_set,
            update_rule=workload_rules.validate_replica_set_update,
            status_rule=workload_rules.validate_replica_status,
            generation=True,
            named_pods=True,
            empty_status={"replicas": 0},
        ),
        ("apps", "statefulsets"): workloads.StatefulSetStrategy(
            default=defaults.default_stateful_set,
            rule=workload_rules.validate_stateful_set,
            update_rule=workload_rules.validate_stateful_set_update,
            status_rule=workload_rules.validate_stateful_set_status,
            generation=True,
            empty_status={"availableReplicas": 0, "replicas": 0},
        ),
        ("apps", "daemonsets"): workloads.DaemonSetStrategy(
            default=defaults.default_daemon_set,
            rule=workload_rules.validate_daemon_set,
            update_rule=workload_rules.validate_daemon_set_update,
            status_rule=workload_rules.validate_daemon_set_status,
            generation=True,
            empty_status={
                "currentNumberScheduled": 0,
                "desiredNumberScheduled": 0,
                "numberMisscheduled": 0,
                "numberReady": 0,
            },
        ),
        ("batch", "jobs"): workloads.JobStrategy(
            default=defaults.default_job,
            status_rule=job_status.validate_job_status,
            generation=True,
            named_pods=True,
            orphan_by_default=True,
            meta_steps="A",
        ),
        ("batch", "cronjobs"): workloads.Workload(
            default=defaults.default_cron_job,
            rule=jobs.validate_cron_job,
            update_rule=jobs.validate_cron_job,
            generation=True,
            named_pods=True,
        ),
        ("autoscaling", "horizontalpodautoscalers"): workloads.AutoscalerStrategy(
            default=defaults.default_autoscaler,
            rule=autoscaling.validate_autoscaler,
            empty_status={"currentMetrics": None, "desiredReplicas": 0},
        ),
        ("policy", "poddisruptionbudgets"): Strategy(
            rule=rules.validate_budget,
            status_rule=rules.validate_budget_status,
            name_rule=names.path_segment,
            generation=True,
            unconditional_update=False,
            empty_status={
                "currentHealthy": 0,
                "desiredHealthy": 0,
                "disruptionsAllowed": 0,
                "expectedPods": 0,
            },
            meta_steps="",
        ),
        ("discovery.k8s.io", "endpointslices"): plain.EndpointSliceStrategy(
            default=others.default_endpoint_slice,
            rule=rules.validate_endpoint_slice,
            update_rule=rules.validate_endpoint_slice_update,
            has_status=False,
            meta_steps="A",
        ),
        (_STORAGE, "volumeattachments"): plain.AttachmentStrategy(
            default=others.default_attachment,
            rule=rules.validate_attachment,
            status_rule=rules.validate_attachment_update,
            returns_deleted=True,
            unconditional_update=False,
            meta_steps="A",
        ),
    }


@cache
def strategy_for(group: str, resource: str) -> Strategy:
    """The strategy of a built-in resource."""
    return _strategies().get((group, resource)) or Strategy()
