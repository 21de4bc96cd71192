"""The table of strategies."""

from __future__ import annotations

from functools import cache

from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.custom.definitions import DefinitionStrategy
from controlplane.apiserver.kinds.defaulting import others
from controlplane.apiserver.kinds.strategies import devices, plain, workloads
from controlplane.apiserver.kinds.strategies.plain import EndpointsStrategy, PlainStrategy
from controlplane.apiserver.kinds.strategies.pods import PodStrategy
from controlplane.apiserver.kinds.strategies.services import ServiceStrategy
from controlplane.apiserver.kinds.strategies.signing_requests import SigningRequestStrategy
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.validation import common as rules

__all__ = ["strategy_for"]

_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_NETWORK = "networking.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_RESOURCE = "resource.k8s.io"


def _table() -> dict[tuple[str, str], Strategy]:
    plain_kinds: dict[tuple[str, str], Strategy] = {
        ("", "secrets"): plain.SecretStrategy(
            others.default_secret, rules.validate_secret, rules.validate_secret_update,
            has_status=False,
        ),
        ("", "configmaps"): PlainStrategy(
            None, rules.validate_config_map, rules.validate_config_map_update, has_status=False,
        ),
        ("", "serviceaccounts"): plain.AccountStrategy(None, has_status=False, returns_deleted=True),
        ("", "endpoints"): EndpointsStrategy(
            others.default_endpoints, rules.validate_endpoints, has_status=False,
            create_on_update=True,
        ),
        ("", "limitranges"): PlainStrategy(
            others.default_limit_range, rules.validate_limit_range, has_status=False,
            create_on_update=True,
        ),
        ("", "resourcequotas"): plain.QuotaStrategy(
            others.default_quota, rules.validate_quota, rules.validate_quota_update,
            rules.validate_quota_status,
            returns_deleted=True,
        ),
        ("", "podtemplates"): plain.PodTemplateStrategy(
            others.default_pod_template, rules.validate_pod_template, has_status=False,
            returns_deleted=True, generation=True,
        ),
        ("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy(),
        ("apps", "controllerrevisions"): PlainStrategy(
            None, rules.validate_controller_revision, rules.validate_controller_revision_update,
            has_status=False,
        ),
        ("coordination.k8s.io", "leases"): PlainStrategy(
            others.default_lease, rules.validate_lease, has_status=False, create_on_update=True,
            unconditional_update=False,
        ),
        (_STORAGE, "storageclasses"): PlainStrategy(
            others.default_storage_class, rules.validate_storage_class,
            rules.validate_storage_class_update, has_status=False, returns_deleted=True,
        ),
        (_STORAGE, "csidrivers"): plain.CSIDriverStrategy(
            others.default_csi_driver, rules.validate_csi_driver, rules.validate_csi_driver_update,
            has_status=False, returns_deleted=True, unconditional_update=False,
        ),
        (_STORAGE, "csinodes"): PlainStrategy(
            None, rules.validate_csi_node, rules.validate_csi_node_update, has_status=False, returns_deleted=True,
            unconditional_update=False,
        ),
        (_STORAGE, "csistoragecapacities"): PlainStrategy(
            None, rules.validate_storage_capacity, rules.validate_storage_capacity_update,
            has_status=False, unconditional_update=False,
        ),
        (_STORAGE, "volumeattributesclasses"): PlainStrategy(
            None, rules.validate_attributes_class, rules.validate_attributes_class_update,
            has_status=False, returns_deleted=True,
        ),
        ("scheduling.k8s.io", "priorityclasses"): PlainStrategy(
            others.default_priority_class, rules.validate_priority_class,
            rules.validate_priority_class_update, has_status=False, generation=True,
        ),
        (_NETWORK, "ingresses"): plain.IngressStrategy(
            None, None, None, rules.validate_ingress_status, generation=True,
            empty_status={"loadBalancer": {}},
        ),
        (_NETWORK, "ingressclasses"): PlainStrategy(
            others.default_ingress_class, rules.validate_ingress_class,
            rules.validate_ingress_class_update, has_status=False, generation=True,
        ),
        (_NETWORK, "servicecidrs"): plain.ServiceCIDRStrategy(
            None, rules.validate_service_cidr, rules.validate_service_cidr_update,
        ),
        (_NETWORK, "ipaddresses"): PlainStrategy(
            None, rules.validate_ip_address, rules.validate_ip_address_update, has_status=False,
            name_rule=rules.address_name,
        ),
        (_NETWORK, "networkpolicies"): plain.CountedAsWritten(
            others.default_network_policy, rules.validate_network_policy, has_status=False,
        ),
        ("node.k8s.io", "runtimeclasses"): PlainStrategy(
            None, rules.validate_runtime_class, rules.validate_runtime_class_update,
            has_status=False, create_on_update=True, unconditional_update=False,
        ),
        (_RBAC, "roles"): PlainStrategy(
            None, rules.validate_role, has_status=False, create_on_update=True,
            name_rule=names.path_segment,
        ),
        (_RBAC, "clusterroles"): PlainStrategy(
            None, rules.validate_role, has_status=False, create_on_update=True,
            name_rule=names.path_segment,
        ),
        (_RBAC, "rolebindings"): PlainStrategy(
            others.default_role_binding, rules.validate_role_binding,
            rules.validate_role_binding_update, has_status=False, create_on_update=True,
            name_rule=names.path_segment,
        ),
        (_RBAC, "clusterrolebindings"): PlainStrategy(
            others.default_role_binding, rules.validate_cluster_role_binding,
            rules.validate_role_binding_update, has_status=False, create_on_update=True,
            name_rule=names.path_segment,
        ),
        (_ADMISSION, "mutatingwebhookconfigurations"): plain.CountedAsWritten(
            others.default_mutating_webhooks, rules.validate_webhooks, has_status=False,
            counted="webhooks", unconditional_update=False,
        ),
        (_ADMISSION, "validatingwebhookconfigurations"): plain.CountedAsWritten(
            others.default_validating_webhooks, rules.validate_webhooks, has_status=False,
            counted="webhooks", unconditional_update=False,
        ),
        (_ADMISSION, "validatingadmissionpolicies"): PlainStrategy(
            others.default_admission_policy, rules.validate_validating_policy, None,
            rules.validate_validating_policy_status, generation=True, unconditional_update=False,
            status_keeps_meta=True,
        ),
        (_ADMISSION, "mutatingadmissionpolicies"): PlainStrategy(
            others.default_admission_policy, rules.validate_mutating_policy, has_status=False,
            generation=True, unconditional_update=False,
        ),
        (_ADMISSION, "mutatingadmissionpolicybindings"): PlainStrategy(
            others.default_policy_binding, rules.validate_mutating_policy_binding,
            has_status=False, generation=True, unconditional_update=False,
        ),
        (_ADMISSION, "validatingadmissionpolicybindings"): PlainStrategy(
            others.default_policy_binding, rules.validate_validating_policy_binding, has_status=False, generation=True,
            unconditional_update=False,
        ),
        (_FLOW, "flowschemas"): PlainStrategy(
            others.default_flow_schema, rules.validate_flow_schema, None,
            rules.validate_flow_status, generation=True, status_keeps_meta=True,
        ),
        (_FLOW, "prioritylevelconfigurations"): PlainStrategy(
            others.default_priority_level, rules.validate_priority_level, None,
            rules.validate_flow_status, generation=True, status_keeps_meta=True,
        ),
        (_RESOURCE, "resourceclaims"): devices.DeviceClaimStrategy(
            others.default_resource_claim, rules.validate_device_claim,
            returns_deleted=True, status_keeps_meta=True,
        ),
        (_RESOURCE, "resourceclaimtemplates"): devices.ClaimTemplateStrategy(
            others.default_resource_claim_template, returns_deleted=True, has_status=False,
        ),
        (_RESOURCE, "resourceslices"): devices.SliceStrategy(
            None, rules.validate_resource_slice, rules.validate_resource_slice_update,
            returns_deleted=True, has_status=False, generation=True,
        ),
        (_RESOURCE, "deviceclasses"): PlainStrategy(
            None, rules.validate_device_class, returns_deleted=True, has_status=False, generation=True,
        ),
    }  # fmt: skip
    plain_kinds |= {
        ("apiregistration.k8s.io", "apiservices"): plain.APIServiceStrategy(
            others.default_api_service,
            rules.validate_api_service,
            None,
            rules.validate_api_service_status,
            name_rule=names.path_segment,
            unconditional_update=False,
            status_keeps_meta=True,
        ),
        ("certificates.k8s.io", "certificatesigningrequests"): SigningRequestStrategy(
            None, rules.validate_signing_request
        ),
    }
    special: dict[tuple[str, str], Strategy] = {
        ("", "pods"): PodStrategy(),
        ("", "namespaces"): plain.NamespaceStrategy(),
        ("", "nodes"): plain.NodeStrategy(),
        ("", "services"): ServiceStrategy(),
        ("", "persistentvolumeclaims"): plain.ClaimStrategy(),
        ("", "persistentvolumes"): plain.VolumeStrategy(),
        ("", "events"): plain.EventStrategy(),
        ("", "replicationcontrollers"): workloads.ReplicationControllerStrategy(),
        ("apps", "deployments"): workloads.DeploymentStrategy(),
        ("apps", "replicasets"): workloads.ReplicaSetStrategy(),
        ("apps", "statefulsets"): workloads.StatefulSetStrategy(),
        ("apps", "daemonsets"): workloads.DaemonSetStrategy(),
        ("batch", "jobs"): workloads.JobStrategy(),
        ("batch", "cronjobs"): workloads.CronJobStrategy(),
        ("autoscaling", "horizontalpodautoscalers"): workloads.AutoscalerStrategy(),
        ("policy", "poddisruptionbudgets"): plain.PolicyStrategy(),
        ("discovery.k8s.io", "endpointslices"): plain.EndpointSliceStrategy(),
        (_STORAGE, "volumeattachments"): plain.AttachmentStrategy(),
    }
    table = plain_kinds | special
    for steps, kinds in _META_STEPS.items():
        for group, resources in kinds.items():
            for resource in resources.split():
                table[group, resource].meta_steps = steps
    for group in (_ADMISSION, "apiregistration.k8s.io", "coordination.k8s.io"):
        for (owner, _), strategy in table.items():
            if owner == group:
                strategy.standard_finalizers = False
    return table


_META_STEPS = {
    "A": {
        "": "limitranges persistentvolumes", "batch": "jobs", _FLOW: "flowschemas prioritylevelconfigurations",
        "discovery.k8s.io": "endpointslices", _ADMISSION: (
            "mutatingwebhookconfigurations validatingwebhookconfigurations "
            "validatingadmissionpolicies validatingadmissionpolicybindings "
            "mutatingadmissionpolicies mutatingadmissionpolicybindings"
        ), _STORAGE: "csinodes volumeattachments",
    },
    "": {"": "events", "policy": "poddisruptionbudgets"},
    "AU": {
        "": "replicationcontrollers namespaces nodes persistentvolumeclaims endpoints",
        _RESOURCE: "deviceclasses resourceclaims",
        _STORAGE: "storageclasses csistoragecapacities volumeattributesclasses",
        _RBAC: "roles clusterroles rolebindings clusterrolebindings",
        "node.k8s.io": "runtimeclasses", "certificates.k8s.io": "certificatesigningrequests",
    },
    "UA": {
        "": "pods configmaps secrets serviceaccounts", "apps": "controllerrevisions",
        _NETWORK: "ingressclasses ingresses", "apiregistration.k8s.io": "apiservices",
    },
}  # fmt: skip
"""The kinds whose update rules ask those of a new object, too, and in which order."""


@cache
def _strategies() -> dict[tuple[str, str], Strategy]:
    return _table()


@cache
def strategy_for(group: str, resource: str) -> Strategy:
    """The strategy of a built-in resource."""
    return _strategies().get((group, resource)) or Strategy()
