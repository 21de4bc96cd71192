"""Every controller by name. A controller is imported when a process has it: a scenario's has four of these."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.controllers.common.controller import Controller

__all__ = [
    "CONTROLLERS",
    "DEVICE_TAINTS",
    "MIRRORING",
    "POD_GROUP_PROTECTION",
    "RESOURCE_CLAIMS",
    "controllers_of",
]

RESOURCE_CLAIMS: Final = "resourceclaim-controller"
MIRRORING: Final = "endpointslice-mirroring-controller"
POD_GROUP_PROTECTION: Final = "podgroup-protection-controller"
DEVICE_TAINTS: Final = "device-taint-eviction-controller"
CONTROLLERS: Final[dict[str, tuple[str, str]]] = {
    "replicaset-controller": ("workloads.replicaset.controller", "ReplicaSetController"),
    "deployment-controller": ("workloads.deployment.controller", "DeploymentController"),
    "job-controller": ("workloads.job.controller", "JobController"),
    "cronjob-controller": ("workloads.cronjob.controller", "CronJobController"),
    "ttl-after-finished-controller": (
        "lifecycle.ttlafterfinished.controller",
        "TTLAfterFinishedController",
    ),
    "statefulset-controller": ("workloads.statefulset.controller", "StatefulSetController"),
    "garbage-collector-controller": (
        "lifecycle.garbagecollector.controller",
        "GarbageCollectorController",
    ),
    "daemonset-controller": ("workloads.daemon.controller", "DaemonSetController"),
    "namespace-controller": ("lifecycle.namespace.controller", "NamespaceController"),
    "pod-garbage-collector-controller": ("lifecycle.podgc.controller", "PodGCController"),
    "disruption-controller": ("workloads.disruption.controller", "DisruptionController"),
    "resourcequota-controller": ("lifecycle.resourcequota.controller", "ResourceQuotaController"),
    "persistentvolume-binder-controller": ("storage.volume.binder", "VolumeBinderController"),
    "persistentvolumeclaim-protection-controller": (
        "storage.volume.protection",
        "ClaimProtectionController",
    ),
    "persistentvolume-protection-controller": (
        "storage.volume.protection",
        "VolumeProtectionController",
    ),
    "volumeattributesclass-protection-controller": (
        "storage.volume.protection",
        "ClassProtectionController",
    ),
    "external-provisioner": ("storage.volume.provisioner", "ExternalProvisioner"),
    "horizontal-pod-autoscaler-controller": (
        "autoscaling.podautoscaler.controller",
        "HorizontalPodAutoscalerController",
    ),
    "endpointslice-controller": ("network.endpointslice.controller", "EndpointSliceController"),
    "endpoints-controller": ("network.endpoints.controller", "EndpointsController"),
    MIRRORING: (
        "network.endpointslicemirroring.controller",
        "EndpointSliceMirroringController",
    ),
    "serviceaccount-controller": (
        "lifecycle.serviceaccount.controller",
        "ServiceAccountController",
    ),
    "root-ca-certificate-publisher-controller": ("lifecycle.rootca.controller", "RootCAPublisher"),
    "replicationcontroller-controller": (
        "workloads.replication.controller",
        "ReplicationControllerController",
    ),
    "clusterrole-aggregation-controller": (
        "lifecycle.clusterroleaggregation.controller",
        "ClusterRoleAggregationController",
    ),
    "persistentvolume-attach-detach-controller": (
        "storage.attachdetach.controller",
        "AttachDetachController",
    ),
    POD_GROUP_PROTECTION: ("workloads.pod_group_protection", "PodGroupProtectionController"),
    RESOURCE_CLAIMS: ("devices.resourceclaim.controller", "ResourceClaimController"),
    DEVICE_TAINTS: ("devices.tainteviction.controller", "DeviceTaintEvictionController"),
}
"""Module and class of each controller, in the order in which they are notified of changes."""


def controllers_of(names: Iterable[str]) -> list[type[Controller]]:
    """Import the controllers of these names, in the order of the table; other names are passed over."""
    wanted = frozenset(names)
    return [
        getattr(import_module(f"controlplane.controllers.{module}"), kind)
        for name, (module, kind) in CONTROLLERS.items()
        if name in wanted
    ]
