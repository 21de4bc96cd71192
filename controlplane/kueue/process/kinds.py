"""The kinds that Kueue's process reads and writes, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from controlplane.client.resources import (
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_TEMPLATES,
    PODS,
    PRIORITY_CLASSES,
    PROVISIONING_REQUESTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from controlplane.kueue.jobs.generic import GenericJob, resource_of
from controlplane.kueue.names import GROUP, VERSION


def _own(plural: str) -> Resource[Any]:
    return Resource(GROUP, VERSION, plural)


WORKLOADS: Final = _own("workloads")
CLUSTER_QUEUES: Final = _own("clusterqueues")
LOCAL_QUEUES: Final = _own("localqueues")
COHORTS: Final = _own("cohorts")
FLAVORS: Final = _own("resourceflavors")
CHECKS: Final = _own("admissionchecks")
TOPOLOGIES: Final = _own("topologies")
WORKLOAD_CLASSES: Final = _own("workloadpriorityclasses")
PROVISIONING_CONFIGS: Final = _own("provisioningrequestconfigs")
LIMIT_RANGES: Final[Resource[Any]] = Resource("", "v1", "limitranges")
RUNTIME_CLASSES: Final[Resource[Any]] = Resource("node.k8s.io", "v1", "runtimeclasses")

KINDS: Final[dict[str, Resource[Any]]] = {
    "Workload": WORKLOADS,
    "ClusterQueue": CLUSTER_QUEUES,
    "LocalQueue": LOCAL_QUEUES,
    "Cohort": COHORTS,
    "ResourceFlavor": FLAVORS,
    "AdmissionCheck": CHECKS,
    "Topology": TOPOLOGIES,
    "WorkloadPriorityClass": WORKLOAD_CLASSES,
    "ProvisioningRequestConfig": PROVISIONING_CONFIGS,
    "ProvisioningRequest": PROVISIONING_REQUESTS,
    "PriorityClass": PRIORITY_CLASSES,
    "Namespace": NAMESPACES,
    "LimitRange": LIMIT_RANGES,
    "RuntimeClass": RUNTIME_CLASSES,
    "Node": NODES,
    "Pod": PODS,
    "PodTemplate": POD_TEMPLATES,
    "Job": JOBS,
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
}
"""The resource of each kind."""
Kinds = Mapping[str, Resource[Any]]
"""Resources by kind."""


def kinds_with(custom: Sequence[type[GenericJob]]) -> Kinds:
    """The resource of each kind, with those of a user's jobs."""
    return {**KINDS, **{each.kind.kind: resource_of(each) for each in custom}}
