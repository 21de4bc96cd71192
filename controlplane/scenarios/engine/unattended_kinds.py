"""Kinds that a cluster only keeps: nothing in it acts on their objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.schema.resources import ResourceInfo
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.execution import Execution

__all__ = ["Attention", "note_of", "note_of_all", "note_of_unasked"]

_UNATTENDED: Final = frozenset(
    (
        "apiservices.apiregistration.k8s.io",
        "certificatesigningrequests.certificates.k8s.io",
        "flowschemas.flowcontrol.apiserver.k8s.io",
        "ingressclasses.networking.k8s.io",
        "ingresses.networking.k8s.io",
        "ipaddresses.networking.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "networkpolicies.networking.k8s.io",
        "podtemplates",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        "servicecidrs.networking.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "volumeattributesclasses.storage.k8s.io",
    )
)
_CONTROLLED: Final = {
    "cronjobs.batch": "cronjob-controller",
    "daemonsets.apps": "daemonset-controller",
    "deployments.apps": "deployment-controller",
    "horizontalpodautoscalers.autoscaling": "horizontal-pod-autoscaler-controller",
    "jobs.batch": "job-controller",
    "poddisruptionbudgets.policy": "disruption-controller",
    "replicasets.apps": "replicaset-controller",
    "deviceclasses.resource.k8s.io": "resourceclaim-controller",
    "devicetaintrules.resource.k8s.io": "device-taint-eviction-controller",
    "replicationcontrollers": "replicationcontroller-controller",
    "resourceclaims.resource.k8s.io": "resourceclaim-controller",
    "resourceclaimtemplates.resource.k8s.io": "resourceclaim-controller",
    "resourceslices.resource.k8s.io": "resourceclaim-controller",
    "statefulsets.apps": "statefulset-controller",
}
"""The controller without which a kind is only kept."""
_SCHEDULED: Final = frozenset(
    f"{kind}.resource.k8s.io" for kind in ("deviceclasses", "resourceclaims", "resourceslices")
)
"""Kinds that a scheduler acts on which watches devices, without any controller."""
_TEMPLATED: Final = (
    "capacitybuffers.autoscaling.x-k8s.io",
    "provisioningrequests.autoscaling.x-k8s.io",
)
"""The kinds that name PodTemplates."""
_SNAPSHOTS: Final = ("snapshot.storage.k8s.io", "groupsnapshot.storage.k8s.io")


@frozen
class Attention:
    """The parts of the cluster that decide which objects have a controller."""

    controllers: tuple[str, ...]
    custom_groups: tuple[str, ...]
    own: bool
    schedules_devices: bool = False
    reads_templates: bool = False
    """Something makes pods of PodTemplates."""

    @classmethod
    def of(cls, config: ClusterConfig) -> Attention:
        """The parts of the cluster with this configuration."""
        from controlplane.controllers.common.selection import selected
        from controlplane.controllers.loops import manager
        from controlplane.kubelet.node.devices import devices_of_objects

        running: tuple[str, ...] = ()
        if config.controllers:
            enabled = config.enabled_controllers
            if config.device_drivers or devices_of_objects(config.nodes or ()):
                enabled = (*enabled, *manager.of_devices(config.release))
            running = selected(enabled, manager.names())
        storage = config.storage
        looked_after = storage is not None and storage.drivers and storage.snapshots
        return cls(
            running,
            _SNAPSHOTS if looked_after else (),
            bool(config.own_controllers),
            config.devices,
            any(tree["metadata"]["name"] in _TEMPLATED for _, tree in config.installed),
        )

    def is_unattended(self, info: ResourceInfo) -> bool:
        """Return whether objects of a resource are only kept."""
        if info.custom is not None:
            return not self.own and info.group not in self.custom_groups
        name = info.qualified
        if self.schedules_devices and name in _SCHEDULED:
            return False
        if self.reads_templates and name == "podtemplates":
            return False
        return name in _UNATTENDED or _CONTROLLED.get(name, "") not in ("", *self.controllers)

    def warning(self, info: ResourceInfo) -> str:
        """The warning for a client that creates an object of a resource without a controller; "" for none."""
        if not self.is_unattended(info):
            return ""
        return (
            f"nothing in this emulated control plane acts on {info.qualified_kind} objects;"
            " they are only kept"
        )


def note_of_all(run: Execution) -> str:
    """Return `note_of` for the stored objects of kinds that need a controller, those with an owner left out."""
    store = run.cluster.store
    trees = [
        entry.object.tree
        for prefix in store.prefixes()
        for entry in store.keyspace(prefix).entries.values()
        if not entry.object.metadata.get("ownerReferences")
    ]
    table = run.cluster.bootstrapping_server().table
    found = []
    for tree in trees:
        kind = (tree.get("apiVersion", ""), tree.get("kind", ""))
        info = table.by_kind(*kind)
        if info is None or info.custom is not None or info.qualified in _CONTROLLED:
            found.append(kind)
    return note_of(run, found)


def note_of_unasked(config: ClusterConfig) -> str:
    """A line about objects that answer clients, where no client can come; "" for none."""
    topics = {} if config.debugging is None else config.debugging.topics()
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(topics.items()))
    return f"not asked for, as no client comes here (serve has clients): {listed}" if listed else ""


def note_of(run: Execution, kinds: Sequence[tuple[str, str]]) -> str:
    """A line about those of these kinds (apiVersion, kind) on which nothing acts; "" for none."""
    cluster = run.cluster
    server = cluster.bootstrapping_server()
    server.settle(cluster.config.epoch_ns + run.world.now)
    attention = Attention.of(cluster.config)
    found: dict[str, int] = {}
    for api_version, kind in kinds:
        info = server.table.by_kind(api_version, kind)
        if info is not None and attention.is_unattended(info):
            found[info.qualified_kind] = found.get(info.qualified_kind, 0) + 1
    if not found:
        return ""
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(found.items()))
    return f"only kept, as nothing here acts on them: {listed}"
