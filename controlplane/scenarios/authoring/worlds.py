"""Worlds, ready for use: functions of a setting that give a cluster's configuration."""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scheduler.config.model import SchedulerConfig
    from controlplane.scheduler.plugins.registry import Registry

    Build = Callable[[Setting], ClusterConfig]


def scheduler_alone(**more: Any) -> Build:
    """API server, scheduler and nodes without kubelets; pods may name priorities without a class. `more`: fields."""

    def build(setting: Setting) -> ClusterConfig:
        from controlplane.cluster import ClusterConfig

        fields = {"disabled_admission": ("Priority",), "scheduler_watches": (), **more}
        return ClusterConfig(nodes=setting.nodes(), kubelets=False, controllers=False, **fields)

    return build


def scheduler_with(plugin: Callable[[], type]) -> Build:
    """`scheduler_alone`, with one more plugin at all its extension points; `plugin` gives its class when asked."""

    def build(setting: Setting) -> ClusterConfig:
        return scheduler_alone(**with_plugin(plugin()))(setting)

    return build


def with_plugin(cls: Any) -> Mapping[str, Any]:
    """The fields of a cluster whose scheduler has one more plugin."""
    return with_plugins(cls)


def with_plugins(*classes: Any) -> Mapping[str, Any]:
    """The fields of a cluster whose scheduler has these plugins besides its own."""
    config, registry = _configured(classes)
    return {"scheduler": config, "scheduler_plugins": registry}


@lru_cache(maxsize=16)
def _configured(classes: tuple[Any, ...]) -> tuple[SchedulerConfig, Registry]:
    """Read once for all schedules: none of it changes."""
    from controlplane.scheduler.config import load as config_load
    from controlplane.scheduler.plugins.registry import Entry, in_tree_registry

    registry = {**in_tree_registry(), **{cls.name: Entry(cls, cls) for cls in classes}}
    enabled = [{"name": cls.name} for cls in classes]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}],
    }
    return config_load.load(document, registry), MappingProxyType(registry)


def with_community_plugin(name: str, points: str, **args: Any) -> Mapping[str, Any]:
    """The fields of a cluster with one of the plugins of scheduler-plugins, their kinds and their controllers.

    `points` are the extension points, separated by spaces, at which it takes the place of all others.
    """
    from controlplane.scheduler_plugins.controller import SchedulerPluginsController
    from controlplane.scheduler_plugins.definitions import installation

    config, registry = _community(name, points, tuple(sorted(args.items())))
    return {
        "scheduler": config,
        "scheduler_plugins": registry,
        "installed": installation(),
        "own_controllers": (SchedulerPluginsController,),
    }


@lru_cache(maxsize=16)
def _community(
    name: str, points: str, args: tuple[tuple[str, Any], ...]
) -> tuple[SchedulerConfig, Registry]:
    from controlplane.scheduler.community import PLUGINS
    from controlplane.scheduler.config import load as config_load
    from controlplane.scheduler.plugins.registry import Entry, in_tree_registry

    more: dict[str, Any] = {cls.name: Entry(cls, cls) for cls in PLUGINS}
    registry = {**in_tree_registry(), **more}
    enabled: dict[str, Any] = {"enabled": [{"name": name}]}
    alone = {point: {**enabled, "disabled": [{"name": "*"}]} for point in points.split()}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": enabled, **alone},
                "pluginConfig": [{"name": name, "args": dict(args)}] if args else [],
            }
        ],
    }
    return config_load.load(document, registry), MappingProxyType(registry)


def lagging_servers(**more: Any) -> Build:
    """Two API servers over one store, of which the second's caches lag by up to a minute. `more`: fields.

    The option "watch-list" says how clients begin: with a stream of a state that is not older than
    their request, or with a list at version 0, as every one did before 1.35.
    """

    def build(setting: Setting) -> ClusterConfig:
        from controlplane.apiserver.loops.replica import ReplicaOptions
        from controlplane.client.features import ClientFeatures
        from controlplane.cluster import ClusterConfig

        lag = ReplicaOptions(lag_ns=60_000_000_000, lagging=("apiserver-2",))
        stream = bool(setting.options.get("watch_list", False))
        return ClusterConfig(
            nodes=setting.nodes(),
            apiservers=2,
            replica=lag,
            client=ClientFeatures(watch_list_client=stream),
            **more,
        )

    return build


def nodes_with_static_pods(manifests: Mapping[str, dict[str, Any]], lag_s: int = 0) -> Build:
    """API server and kubelets that look for static pods in files; these are there at first, by name.

    Watches lag by up to `lag_s`.
    """

    def build(setting: Setting) -> ClusterConfig:
        from controlplane.apiserver.loops.replica import ReplicaOptions
        from controlplane.cluster import ClusterConfig
        from controlplane.kubelet.node.settings import KubeletSettings
        from controlplane.scenarios.inputs.static_pods import manifest

        found = {file: manifest(tree, file) for file, tree in manifests.items()}
        settings = KubeletSettings(manifests=found)
        nodes = setting.nodes()
        lag = ReplicaOptions(lag_ns=lag_s * 1_000_000_000, lagging=("apiserver",))
        return ClusterConfig(
            replica=lag if lag_s else None,
            nodes=nodes,
            kubelet_settings={tree["metadata"]["name"]: settings for tree in nodes},
            controllers=False,
            kubelet_events=False,
        )

    return build


def nodes_with_managers(machine: str = "", **settings: Any) -> Build:
    """API server and kubelets that give containers CPUs of their own, and no scheduler that is asked.

    Each machine has one CPU more than the option --node-cpu says, which is kept for the system, unless
    `machine` describes another. `settings` are further fields of the KubeletConfiguration.
    """

    def build(setting: Setting) -> ClusterConfig:
        from controlplane.cluster import ClusterConfig
        from controlplane.kubelet.config.configuration import configuration
        from controlplane.kubelet.config.fields import API_VERSION, KIND
        from controlplane.kubelet.machine import machine_of_text
        from controlplane.scenarios.engine.kubelets import furnished

        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "cpuManagerPolicy": "static",
            "systemReserved": {"cpu": "1"},
            **settings,
        }
        config = configuration(document)
        text = machine or f"cores={int(setting['node_cpu']) + 1} memory=16Gi"
        nodes, found = furnished(setting.nodes(), config, machine_of_text(text))
        return ClusterConfig(
            nodes=nodes, kubelet_settings=found, controllers=False, kubelet_events=False
        )

    return build
