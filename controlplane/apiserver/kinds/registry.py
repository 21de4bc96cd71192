"""The rules of each kind by group and resource. A group's room is imported when one of its kinds is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy

__all__ = ["GROUPS", "kind_of", "kinds_of", "strategy_for"]


def _core() -> dict[str, Kind]:
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

    return {
        "componentstatuses": component_statuses.KIND,
        "configmaps": config_maps.KIND,
        "endpoints": endpoints.KIND,
        "events": events.EVENTS,
        "limitranges": limit_ranges.KIND,
        "namespaces": namespaces.KIND,
        "nodes": nodes.KIND,
        "persistentvolumeclaims": persistent_volume_claims.KIND,
        "persistentvolumes": persistent_volumes.KIND,
        "pods": pods.KIND,
        "podtemplates": pod_templates.KIND,
        "replicationcontrollers": replication_controllers.KIND,
        "resourcequotas": resource_quotas.KIND,
        "secrets": secrets.KIND,
        "serviceaccounts": service_accounts.KIND,
        "services": services.KIND,
    }


def _admissionregistration() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.admissionregistration import policies, webhooks

    return {
        "mutatingadmissionpolicies": policies.MUTATING_POLICIES,
        "mutatingadmissionpolicybindings": policies.MUTATING_BINDINGS,
        "mutatingwebhookconfigurations": webhooks.MUTATING,
        "validatingadmissionpolicies": policies.VALIDATING_POLICIES,
        "validatingadmissionpolicybindings": policies.VALIDATING_BINDINGS,
        "validatingwebhookconfigurations": webhooks.VALIDATING,
    }


def _apiextensions() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.custom import definitions

    return {
        "customresourcedefinitions": definitions.KIND,
    }


def _apiregistration() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.apiregistration import api_services

    return {
        "apiservices": api_services.KIND,
    }


def _apps() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.apps import (
        controller_revisions,
        daemon_sets,
        deployments,
        replica_sets,
        stateful_sets,
    )

    return {
        "controllerrevisions": controller_revisions.KIND,
        "daemonsets": daemon_sets.KIND,
        "deployments": deployments.KIND,
        "replicasets": replica_sets.KIND,
        "statefulsets": stateful_sets.KIND,
    }


def _autoscaling() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.autoscaling import autoscalers

    return {
        "horizontalpodautoscalers": autoscalers.KIND,
    }


def _batch() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.batch import cron_jobs, jobs

    return {
        "cronjobs": cron_jobs.KIND,
        "jobs": jobs.KIND,
    }


def _certificates() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.certificates import signing_requests

    return {
        "certificatesigningrequests": signing_requests.KIND,
    }


def _coordination() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.coordination import leases

    return {
        "leases": leases.KIND,
    }


def _discovery() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.discovery import endpoint_slices

    return {
        "endpointslices": endpoint_slices.KIND,
    }


def _events() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.core import events

    return {
        "events": events.EVENTS_V1,
    }


def _flowcontrol_apiserver() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.flowcontrol import flow_schemas, priority_levels

    return {
        "flowschemas": flow_schemas.KIND,
        "prioritylevelconfigurations": priority_levels.KIND,
    }


def _metrics() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.metrics import usage

    return {
        "nodes": usage.KIND,
        "pods": usage.KIND,
    }


def _networking() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.networking import (
        ingress_classes,
        ingresses,
        ip_addresses,
        network_policies,
        service_cidrs,
    )

    return {
        "ingressclasses": ingress_classes.KIND,
        "ingresses": ingresses.KIND,
        "ipaddresses": ip_addresses.KIND,
        "networkpolicies": network_policies.KIND,
        "servicecidrs": service_cidrs.KIND,
    }


def _node() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.node import runtime_classes

    return {
        "runtimeclasses": runtime_classes.KIND,
    }


def _policy() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.policy import disruption_budgets

    return {
        "poddisruptionbudgets": disruption_budgets.KIND,
    }


def _rbac_authorization() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.rbac import role_bindings, roles

    return {
        "clusterrolebindings": role_bindings.CLUSTER_ROLE_BINDINGS,
        "clusterroles": roles.KIND,
        "rolebindings": role_bindings.ROLE_BINDINGS,
        "roles": roles.KIND,
    }


def _resource() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.resource import (
        claim_templates,
        claims,
        device_classes,
        slices,
        taint_rules,
    )

    return {
        "deviceclasses": device_classes.KIND,
        "devicetaintrules": taint_rules.KIND,
        "resourceclaims": claims.KIND,
        "resourceclaimtemplates": claim_templates.KIND,
        "resourceslices": slices.KIND,
    }


def _scheduling() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.scheduling import pod_groups, priority_classes, workloads

    return {
        "podgroups": pod_groups.KIND,
        "priorityclasses": priority_classes.KIND,
        "workloads": workloads.KIND,
    }


def _storage() -> dict[str, Kind]:
    from controlplane.apiserver.kinds.storage import (
        csi_drivers,
        csi_nodes,
        storage_capacities,
        storage_classes,
        volume_attachments,
        volume_attributes_classes,
    )

    return {
        "csidrivers": csi_drivers.KIND,
        "csinodes": csi_nodes.KIND,
        "csistoragecapacities": storage_capacities.KIND,
        "storageclasses": storage_classes.KIND,
        "volumeattachments": volume_attachments.KIND,
        "volumeattributesclasses": volume_attributes_classes.KIND,
    }


GROUPS: Mapping[str, Callable[[], dict[str, Kind]]] = {
    "": _core,
    "admissionregistration.k8s.io": _admissionregistration,
    "apiextensions.k8s.io": _apiextensions,
    "apiregistration.k8s.io": _apiregistration,
    "apps": _apps,
    "autoscaling": _autoscaling,
    "batch": _batch,
    "certificates.k8s.io": _certificates,
    "coordination.k8s.io": _coordination,
    "discovery.k8s.io": _discovery,
    "events.k8s.io": _events,
    "flowcontrol.apiserver.k8s.io": _flowcontrol_apiserver,
    "metrics.k8s.io": _metrics,
    "networking.k8s.io": _networking,
    "node.k8s.io": _node,
    "policy": _policy,
    "rbac.authorization.k8s.io": _rbac_authorization,
    "resource.k8s.io": _resource,
    "scheduling.k8s.io": _scheduling,
    "storage.k8s.io": _storage,
}
"""The rooms of the groups: each returns its kinds by resource."""
_PLAIN = Kind()
"""A kind without rules of its own."""


@cache
def kinds_of(group: str) -> Mapping[str, Kind]:
    """Return the kinds of a built-in group with rules of their own, by resource; none of another group."""
    room = GROUPS.get(group)
    return {} if room is None else room()


def kind_of(group: str, resource: str) -> Kind:
    """Return the rules of a built-in kind; of one that is not in the table those without rules."""
    return kinds_of(group).get(resource, _PLAIN)


_REVIEWING = frozenset(("authentication.k8s.io", "authorization.k8s.io"))
_REVIEWS = Strategy(has_status=False)
"""Reviews are only made: nothing of them is reset."""


def strategy_for(group: str, resource: str) -> Strategy:
    """Return the strategy of a built-in resource."""
    return _REVIEWS if group in _REVIEWING else kind_of(group, resource).strategy
