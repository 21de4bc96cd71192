"""In-tree plugins by name, and profiles built from their configuration.

Upstream: `pkg/scheduler/framework/plugins/registry.go`, `pkg/scheduler/profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import attrs

from controlplane.scheduler.config import expand as config_expand
from controlplane.scheduler.config.model import DEFAULT_ARGS, ProfileConfig
from controlplane.scheduler.framework import names as n
from controlplane.scheduler.framework.deferred_resize import GATE
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import Plugin
from controlplane.scheduler.framework.runtime import EXTENSION_POINTS, Framework, PluginSet


@attrs.frozen
class Entry:
    """A plugin class and how to make an instance from arguments and handle."""

    cls: type[Plugin]
    make: Callable[[Any, Handle], Plugin]


Registry = Mapping[str, Entry]

# name -> (module, class, what the constructor takes: a(rgs), h(andle))
_IN_TREE: Mapping[str, tuple[str, str]] = {
    n.SCHEDULING_GATES: ("scheduling_gates", ""),
    n.PRIORITY_SORT: ("priority_sort", ""),
    n.NODE_UNSCHEDULABLE: ("node_unschedulable", "h"),
    n.NODE_NAME: ("node_name", "h"),
    n.TAINT_TOLERATION: ("taint_toleration", "h"),
    n.NODE_AFFINITY: ("node_affinity", "a"),
    n.NODE_PORTS: ("node_ports", ""),
    n.NODE_RESOURCES_FIT: ("node_resources_fit", "ah"),
    n.VOLUME_RESTRICTIONS: ("volume_restrictions", "h"),
    n.NODE_VOLUME_LIMITS: ("node_volume_limits", "h"),
    n.VOLUME_BINDING: ("volume_binding", "ah"),
    n.VOLUME_ZONE: ("volume_zone", "h"),
    n.POD_TOPOLOGY_SPREAD: ("pod_topology_spread", "ah"),
    n.INTER_POD_AFFINITY: ("inter_pod_affinity", "ah"),
    n.DYNAMIC_RESOURCES: ("dynamic_resources", "ah"),
    n.DEFAULT_PREEMPTION: ("default_preemption", "ah"),
    n.NODE_RESOURCES_BALANCED_ALLOCATION: ("balanced_allocation", "ah"),
    n.IMAGE_LOCALITY: ("image_locality", "h"),
    n.DEFAULT_BINDER: ("default_binder", ""),
    n.NODE_DECLARED_FEATURES: ("node_declared_features", "h"),
    n.GANG_SCHEDULING: ("gang_scheduling", "h"),
    n.TOPOLOGY_PLACEMENT_GENERATOR: ("topology_placement_generator", "h"),
    n.POD_GROUP_PODS_COUNT: ("pod_group_pods_count", "h"),
}

# Default plugins of a feature gate, with their weights. They follow those of every profile.
_DEFAULT_OF_GATE: Mapping[str, tuple[config_expand.Weighted, ...]] = {
    "GangScheduling": ((n.GANG_SCHEDULING, 0),),
    "TopologyAwareWorkloadScheduling": (
        (n.TOPOLOGY_PLACEMENT_GENERATOR, 0),
        (n.POD_GROUP_PODS_COUNT, 1),
    ),
}

# Only there while the gate of the name is on (KEP-5836).
_GATED: Mapping[str, tuple[str, str, str]] = {
    GATE: (n.DEFERRED_POD_SCHEDULING, "deferred_pod_scheduling", "h"),
}


def _entry(name: str, module: str, takes: str) -> Entry:
    cls: Any = getattr(import_module(f"controlplane.scheduler.plugins.{module}"), name)

    def make(args: Any, handle: Handle) -> Plugin:
        given = {"a": args, "h": handle}
        plugin: Plugin = cls(*(given[what] for what in takes))
        return plugin

    return Entry(cls, make)


def in_tree_registry() -> dict[str, Entry]:
    """All in-tree plugins."""
    return dict(_in_tree())


@cache
def _in_tree() -> dict[str, Entry]:
    return {name: _entry(name, module, takes) for name, (module, takes) in _IN_TREE.items()}


@cache
def _in_tree_expansion(scheduler_name: str) -> Mapping[str, tuple[config_expand.Weighted, ...]]:
    """The default profile over the in-tree plugins: the same for every scheduler that is built."""
    return default_expansion(_in_tree(), scheduler_name)


def implements(registry: Registry) -> Callable[[str, str], bool | None]:
    """Answers whether a plugin implements a point; None for a plugin that does not exist."""

    def answer(name: str, point: str) -> bool | None:
        entry = registry.get(name)
        if entry is None:
            return None
        base = EXTENSION_POINTS.get(point)
        return base is not None and issubclass(entry.cls, base)

    return answer


def default_expansion(
    registry: Registry, scheduler_name: str
) -> dict[str, tuple[config_expand.Weighted, ...]]:
    """The default profile's plugins per point, as far as the registry has them."""
    known = tuple(
        each
        for each in config_expand.DEFAULT_PLUGINS[config_expand.MULTI_POINT].enabled
        if each[0] in registry
    )
    default = {config_expand.MULTI_POINT: config_expand.PluginSetConfig(known)}
    merged = config_expand.merge({}, default)
    return config_expand.expand(merged, implements(registry), scheduler_name)


def _with_plugin(
    registry: Registry,
    points: Mapping[str, Sequence[config_expand.Weighted]],
    name: str,
    entry: Entry,
) -> tuple[Registry, Mapping[str, Sequence[config_expand.Weighted]]]:
    """Add the plugin at all its points, unless it is there already.

    It goes first: its refusal of a node has to be the one that counts, or the event
    that ends the refusal would wake no pod.
    """
    registry = {**registry, name: entry}
    more = dict(points)
    for point, base in EXTENSION_POINTS.items():
        if issubclass(entry.cls, base) and all(each != name for each, _ in more.get(point, ())):
            more[point] = ((name, 0), *more.get(point, ()))
    return registry, more


def _with_gated_defaults(
    profile: ProfileConfig,
    points: Mapping[str, Sequence[config_expand.Weighted]],
    registry: Registry,
    handle: Handle,
) -> Mapping[str, Sequence[config_expand.Weighted]]:
    """Append the default plugins of the gates that are on, except where the profile names or disables them."""
    gated = [
        each
        for gate, plugins in _DEFAULT_OF_GATE.items()
        if handle.feature(gate)
        for each in plugins
        if each[0] in registry
    ]
    if not gated:
        return points
    more = dict(points)
    answers = implements(registry)
    everywhere = profile.disabled.get(config_expand.MULTI_POINT, ())
    for name, weight in gated:
        if name in everywhere or config_expand.ALL in everywhere:
            continue
        for point in EXTENSION_POINTS:
            off = profile.disabled.get(point, ())
            listed = more.get(point, ())
            if not answers(name, point) or name in off or config_expand.ALL in off:
                continue
            if all(each != name for each, _ in listed):
                more[point] = (*listed, (name, weight))
    return more


def build_framework(
    profile: ProfileConfig, handle: Handle, registry: Registry | None = None
) -> Framework:
    """A profile's framework. With no plugin set given, the default one. Raises ValueError."""
    points: Mapping[str, Sequence[config_expand.Weighted]] | None = profile.plugins
    if registry is None:
        registry = _in_tree()
        if points is None:
            points = _in_tree_expansion(profile.scheduler_name)
    if points is None:
        points = default_expansion(registry, profile.scheduler_name)
    for gate, (name, module, takes) in _GATED.items():
        if handle.feature(gate):
            registry, points = _with_plugin(registry, points, name, _entry(name, module, takes))
    points = _with_gated_defaults(profile, points, registry, handle)
    wanted = dict.fromkeys(name for plugins in points.values() for name, _ in plugins)
    instances: dict[str, Plugin] = {}
    for name in (name for name in registry if name in wanted):
        try:
            args = profile.args.get(name, DEFAULT_ARGS.get(name))
            instances[name] = registry[name].make(args, handle)
        except ValueError as broken:
            raise ValueError(f'initializing plugin "{name}": {broken}') from broken
    sets = PluginSet()
    for point in EXTENSION_POINTS:
        for name, _ in points.get(point, ()):
            sets.add(point, instances[name])
    return Framework(
        profile.scheduler_name,
        handle,
        sets,
        all_plugins=list(instances.values()),
        weights=dict(points.get("score", ())),
        placement_weights=dict(points.get("placementScore", ())),
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
    )
