"""The table of kinds by group and resource: one row each, from the room of the group."""

from __future__ import annotations

from controlplane.apiserver.kinds.admissionregistration import policies, webhooks
from controlplane.apiserver.kinds.apiregistration import api_services
from controlplane.apiserver.kinds.apps import (
    controller_revisions,
    daemon_sets,
    deployments,
    replica_sets,
    stateful_sets,
)
from controlplane.apiserver.kinds.autoscaling import autoscalers
from controlplane.apiserver.kinds.batch import cron_jobs, jobs
from controlplane.apiserver.kinds.certificates import signing_requests
from controlplane.apiserver.kinds.coordination import leases
from controlplane.apiserver.kinds.core import (
    component_statuses,
    config_maps,
    endpoints,
    events,
    limit_ranges,
    namespaces,
    nodes,
    persistent_volume_claims,
    persistent_volumes,
    pod_templates,
    replication_controllers,
    resource_quotas,
    secrets,
    service_accounts,
    services,
)
from controlplane.apiserver.kinds.core.pods import kind as pods
from controlplane.apiserver.kinds.custom import definitions
from controlplane.apiserver.kinds.discovery import endpoint_slices
from controlplane.apiserver.kinds.flowcontrol import flow_schemas, priority_levels
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metrics import usage
from controlplane.apiserver.kinds.networking import (
    ingress_classes,
    ingresses,
    ip_addresses,
    network_policies,
    service_cidrs,
)
from controlplane.apiserver.kinds.node import runtime_classes
from controlplane.apiserver.kinds.policy import disruption_budgets
from controlplane.apiserver.kinds.rbac import role_bindings, roles
from controlplane.apiserver.kinds.resource import (
    claim_templates,
    claims,
    device_classes,
    slices,
    taint_rules,
)
from controlplane.apiserver.kinds.scheduling import pod_groups, priority_classes, workloads
from controlplane.apiserver.kinds.storage import (
    csi_drivers,
    csi_nodes,
    storage_capacities,
    storage_classes,
    volume_attachments,
    volume_attributes_classes,
)
from controlplane.apiserver.kinds.strategy import Strategy

__all__ = ["KINDS", "kind_of", "strategy_for"]

KINDS: dict[tuple[str, str], Kind] = {
    ("", "componentstatuses"): component_statuses.KIND,
    ("", "configmaps"): config_maps.KIND,
    ("", "endpoints"): endpoints.KIND,
    ("", "events"): events.EVENTS,
    ("", "limitranges"): limit_ranges.KIND,
    ("", "namespaces"): namespaces.KIND,
    ("", "nodes"): nodes.KIND,
    ("", "persistentvolumeclaims"): persistent_volume_claims.KIND,
    ("", "persistentvolumes"): persistent_volumes.KIND,
    ("", "pods"): pods.KIND,
    ("", "podtemplates"): pod_templates.KIND,
    ("", "replicationcontrollers"): replication_controllers.KIND,
    ("", "resourcequotas"): resource_quotas.KIND,
    ("", "secrets"): secrets.KIND,
    ("", "serviceaccounts"): service_accounts.KIND,
    ("", "services"): services.KIND,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): policies.MUTATING_POLICIES,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): policies.MUTATING_BINDINGS,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): webhooks.MUTATING,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): policies.VALIDATING_POLICIES,
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ): policies.VALIDATING_BINDINGS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): webhooks.VALIDATING,
    ("apiextensions.k8s.io", "customresourcedefinitions"): definitions.KIND,
    ("apiregistration.k8s.io", "apiservices"): api_services.KIND,
    ("apps", "controllerrevisions"): controller_revisions.KIND,
    ("apps", "daemonsets"): daemon_sets.KIND,
    ("apps", "deployments"): deployments.KIND,
    ("apps", "replicasets"): replica_sets.KIND,
    ("apps", "statefulsets"): stateful_sets.KIND,
    ("autoscaling", "horizontalpodautoscalers"): autoscalers.KIND,
    ("batch", "cronjobs"): cron_jobs.KIND,
    ("batch", "jobs"): jobs.KIND,
    ("certificates.k8s.io", "certificatesigningrequests"): signing_requests.KIND,
    ("coordination.k8s.io", "leases"): leases.KIND,
    ("discovery.k8s.io", "endpointslices"): endpoint_slices.KIND,
    ("events.k8s.io", "events"): events.EVENTS_V1,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): flow_schemas.KIND,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): priority_levels.KIND,
    ("metrics.k8s.io", "nodes"): usage.KIND,
    ("metrics.k8s.io", "pods"): usage.KIND,
    ("networking.k8s.io", "ingressclasses"): ingress_classes.KIND,
    ("networking.k8s.io", "ingresses"): ingresses.KIND,
    ("networking.k8s.io", "ipaddresses"): ip_addresses.KIND,
    ("networking.k8s.io", "networkpolicies"): network_policies.KIND,
    ("networking.k8s.io", "servicecidrs"): service_cidrs.KIND,
    ("node.k8s.io", "runtimeclasses"): runtime_classes.KIND,
    ("policy", "poddisruptionbudgets"): disruption_budgets.KIND,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): role_bindings.CLUSTER_ROLE_BINDINGS,
    ("rbac.authorization.k8s.io", "clusterroles"): roles.KIND,
    ("rbac.authorization.k8s.io", "rolebindings"): role_bindings.ROLE_BINDINGS,
    ("rbac.authorization.k8s.io", "roles"): roles.KIND,
    ("resource.k8s.io", "deviceclasses"): device_classes.KIND,
    ("resource.k8s.io", "devicetaintrules"): taint_rules.KIND,
    ("resource.k8s.io", "resourceclaims"): claims.KIND,
    ("resource.k8s.io", "resourceclaimtemplates"): claim_templates.KIND,
    ("resource.k8s.io", "resourceslices"): slices.KIND,
    ("scheduling.k8s.io", "podgroups"): pod_groups.KIND,
    ("scheduling.k8s.io", "priorityclasses"): priority_classes.KIND,
    ("scheduling.k8s.io", "workloads"): workloads.KIND,
    ("storage.k8s.io", "csidrivers"): csi_drivers.KIND,
    ("storage.k8s.io", "csinodes"): csi_nodes.KIND,
    ("storage.k8s.io", "csistoragecapacities"): storage_capacities.KIND,
    ("storage.k8s.io", "storageclasses"): storage_classes.KIND,
    ("storage.k8s.io", "volumeattachments"): volume_attachments.KIND,
    ("storage.k8s.io", "volumeattributesclasses"): volume_attributes_classes.KIND,
}
_PLAIN = Kind()
"""A kind without rules of its own."""


def kind_of(group: str, resource: str) -> Kind:
    """Return the rules of a built-in kind; of one that is not in the table those without rules."""
    return KINDS.get((group, resource), _PLAIN)


_REVIEWING = frozenset(("authentication.k8s.io", "authorization.k8s.io"))
_REVIEWS = Strategy(has_status=False)
"""Reviews are only made: nothing of them is reset."""


def strategy_for(group: str, resource: str) -> Strategy:
    """Return the strategy of a built-in resource."""
    return _REVIEWS if group in _REVIEWING else kind_of(group, resource).strategy
