"""The resources that components speak of: group, version and plural name, with the class of their objects' views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

from controlplane.api.generic import V_co

if TYPE_CHECKING:
    from controlplane.api.apps import (
        ControllerRevision,
        DaemonSet,
        Deployment,
        ReplicaSet,
        StatefulSet,
    )
    from controlplane.api.autoscaling import HorizontalPodAutoscaler
    from controlplane.api.batch import CronJob, Job
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.coordination import Lease
    from controlplane.api.core import (
        ConfigMap,
        Namespace,
        ReplicationController,
        ResourceQuota,
        Secret,
        ServiceAccount,
    )
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.api.policy import PodDisruptionBudget
    from controlplane.api.scheduling import PodGroup
    from controlplane.api.service import Service
    from controlplane.api.storage import (
        CSIDriver,
        CSINode,
        PersistentVolume,
        StorageClass,
        VolumeAttachment,
    )


class Resource(NamedTuple, Generic[V_co]):
    """A resource by group, version and plural name. Its parameter is the class of its objects' views."""

    group: str
    version: str
    name: str

    @property
    def api_version(self) -> str:
        """As in an object's apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Plural, version and group, joined by dots: `jobs.v1.batch`."""
        return f"{self.name}.{self.version}.{self.group}" if self.group else self.name


PODS: Resource[Pod] = Resource("", "v1", "pods")
NODES: Resource[Node] = Resource("", "v1", "nodes")
NAMESPACES: Resource[Namespace] = Resource("", "v1", "namespaces")
EVENTS: Resource = Resource("", "v1", "events")
SERVICES: Resource[Service] = Resource("", "v1", "services")
ENDPOINTS: Resource = Resource("", "v1", "endpoints")
CONFIG_MAPS: Resource[ConfigMap] = Resource("", "v1", "configmaps")
SECRETS: Resource[Secret] = Resource("", "v1", "secrets")
SERVICE_ACCOUNTS: Resource[ServiceAccount] = Resource("", "v1", "serviceaccounts")
REPLICATION_CONTROLLERS: Resource[ReplicationController] = Resource(
    "", "v1", "replicationcontrollers"
)
RESOURCE_QUOTAS: Resource[ResourceQuota] = Resource("", "v1", "resourcequotas")
CLAIMS: Resource[PersistentVolumeClaim] = Resource("", "v1", "persistentvolumeclaims")
VOLUMES: Resource[PersistentVolume] = Resource("", "v1", "persistentvolumes")
VOLUME_ATTRIBUTES_CLASSES: Resource = Resource("storage.k8s.io", "v1", "volumeattributesclasses")
STORAGE_CLASSES: Resource[StorageClass] = Resource("storage.k8s.io", "v1", "storageclasses")
CSI_DRIVERS: Resource[CSIDriver] = Resource("storage.k8s.io", "v1", "csidrivers")
CSI_NODES: Resource[CSINode] = Resource("storage.k8s.io", "v1", "csinodes")
VOLUME_ATTACHMENTS: Resource[VolumeAttachment] = Resource(
    "storage.k8s.io", "v1", "volumeattachments"
)
LEASES: Resource[Lease] = Resource("coordination.k8s.io", "v1", "leases")
DEPLOYMENTS: Resource[Deployment] = Resource("apps", "v1", "deployments")
REPLICA_SETS: Resource[ReplicaSet] = Resource("apps", "v1", "replicasets")
STATEFUL_SETS: Resource[StatefulSet] = Resource("apps", "v1", "statefulsets")
DAEMON_SETS: Resource[DaemonSet] = Resource("apps", "v1", "daemonsets")
CONTROLLER_REVISIONS: Resource[ControllerRevision] = Resource("apps", "v1", "controllerrevisions")
JOBS: Resource[Job] = Resource("batch", "v1", "jobs")
CRON_JOBS: Resource[CronJob] = Resource("batch", "v1", "cronjobs")
DISRUPTION_BUDGETS: Resource[PodDisruptionBudget] = Resource("policy", "v1", "poddisruptionbudgets")
POD_TEMPLATES: Resource = Resource("", "v1", "podtemplates")
PROVISIONING_REQUESTS: Resource = Resource("autoscaling.x-k8s.io", "v1", "provisioningrequests")
ENDPOINT_SLICES: Resource = Resource("discovery.k8s.io", "v1", "endpointslices")
AUTOSCALERS: Resource[HorizontalPodAutoscaler] = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers"
)
CLUSTER_ROLES: Resource = Resource("rbac.authorization.k8s.io", "v1", "clusterroles")
DEVICE_CLASSES: Resource = Resource("resource.k8s.io", "v1", "deviceclasses")
RESOURCE_CLAIMS: Resource = Resource("resource.k8s.io", "v1", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES: Resource = Resource("resource.k8s.io", "v1", "resourceclaimtemplates")
RESOURCE_SLICES: Resource = Resource("resource.k8s.io", "v1", "resourceslices")
DEVICE_TAINT_RULES: Resource = Resource("resource.k8s.io", "v1beta2", "devicetaintrules")
CUSTOM_RESOURCE_DEFINITIONS: Resource = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions"
)
PRIORITY_CLASSES: Resource = Resource("scheduling.k8s.io", "v1", "priorityclasses")
POD_GROUPS: Resource[PodGroup] = Resource("scheduling.k8s.io", "v1alpha2", "podgroups")
