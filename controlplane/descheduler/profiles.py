"""A pass: the profiles of a policy, their Deschedule plugins first, then their Balance plugins.

Follows `pkg/descheduler/descheduler.go` and `pkg/framework/profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Any, Final

from attrs import define

from controlplane.api.labels import SelectorError
from controlplane.api.validation import aggregate
from controlplane.descheduler.default_evictor import DefaultEvictor, priority_threshold
from controlplane.descheduler.evictions import Evicting, PodEvictor, TotalLimitReached
from controlplane.descheduler.handle import Handle, Nodes
from controlplane.descheduler.plugins.by_placement import (
    violating_anti_affinity,
    violating_node_affinity,
    violating_node_taints,
)
from controlplane.descheduler.plugins.by_status import (
    pod_life_time,
    remove_failed_pods,
    too_many_restarts,
)
from controlplane.descheduler.plugins.duplicates import remove_duplicates
from controlplane.descheduler.plugins.own import (
    BalancePlugin,
    DeschedulePlugin,
    EvictorPlugin,
    OwnPlugins,
    PluginError,
)
from controlplane.descheduler.plugins.own import Plugin as OwnPlugin
from controlplane.descheduler.plugins.spread import violating_spread
from controlplane.descheduler.plugins.utilization import (
    check_low_node_utilization,
    high_node_utilization,
    low_node_utilization,
)
from controlplane.descheduler.world import World, is_ready
from controlplane.user_code import line_of

Plugin = Callable[[Handle, dict[str, Any], Nodes], Evicting]
Runs = dict[str, Callable[[Nodes], Evicting | None]]
"""Plugins of one extension point by name, in their order."""
DESCHEDULE: Final[dict[str, Plugin]] = {
    "PodLifeTime": pod_life_time,
    "RemoveFailedPods": remove_failed_pods,
    "RemovePodsHavingTooManyRestarts": too_many_restarts,
    "RemovePodsViolatingInterPodAntiAffinity": violating_anti_affinity,
    "RemovePodsViolatingNodeAffinity": violating_node_affinity,
    "RemovePodsViolatingNodeTaints": violating_node_taints,
}
BALANCE: Final[dict[str, Plugin]] = {
    "HighNodeUtilization": high_node_utilization,
    "LowNodeUtilization": low_node_utilization,
    "RemoveDuplicates": remove_duplicates,
    "RemovePodsViolatingTopologySpreadConstraint": violating_spread,
}
Failed = Callable[[str, str], None]
"""Called with the name of a profile and the joined errors of its plugins at one extension point."""
DEFAULT_EVICTOR: Final = "DefaultEvictor"
NO_PLUGINS: Final[OwnPlugins] = {}


def _no_check(_args: dict[str, Any]) -> None:
    """Most plugins can be built with all arguments that are valid."""


_BUILD_CHECKS: Final[Mapping[str, Callable[[dict[str, Any]], None]]] = {
    "LowNodeUtilization": check_low_node_utilization
}


@define
class Profile:
    """A profile of a policy: its plugins, with their arguments."""

    name: str
    deschedule: Runs
    balance: Runs
    handle: Handle


def build(
    tree: dict[str, Any],
    world: World,
    evictor: PodEvictor,
    classes: dict[str, int],
    own: OwnPlugins = NO_PLUGINS,
) -> Profile:
    """Build one profile, which may have plugins of users (`own`).

    ValueError if the priority threshold of its evictor is not valid, a plugin is of another extension
    point, or an enabled plugin has no entry in `pluginConfig`.
    """
    args = {each["name"]: each.get("args") or {} for each in tree.get("pluginConfig") or ()}
    protections = dict(args.get(DEFAULT_EVICTOR, {}))
    protections["priorityThreshold"] = {"value": priority_threshold(protections, classes)}
    points = tree.get("plugins") or {}
    profile = tree.get("name", "")
    deschedule = _enabled(profile, points, "deschedule", (*DESCHEDULE, *_of(own, DeschedulePlugin)))
    balance = _enabled(profile, points, "balance", (*BALANCE, *_of(own, BalancePlugin)))
    evictors = (DEFAULT_EVICTOR, *_of(own, EvictorPlugin))
    filters, late = (
        [name for name in _enabled(profile, points, point, evictors) if name != DEFAULT_EVICTOR]
        for point in ("filter", "preEvictionFilter")
    )
    try:
        handle = Handle(world, evictor, DefaultEvictor(world, protections), profile)
    except SelectorError as error:
        raise ValueError(
            f'unable to create "{profile}" profile: unable to build {DEFAULT_EVICTOR} plugin: '
            f'unable to initialize "{DEFAULT_EVICTOR}" plugin: {error}'
        ) from None
    made: dict[str, Any] = {}
    for name in dict.fromkeys((*deschedule, *balance, *filters, *late)):
        broken = f'unable to create "{profile}" profile: unable to build {name} plugin: '
        if name not in args:
            raise ValueError(f'{broken}unable to find "{name}" plugin config')
        try:
            if name in own:
                made[name] = _made(own[name], args[name], handle)
            else:
                _BUILD_CHECKS.get(name, _no_check)(args[name])
        except ValueError as error:
            raise ValueError(f'{broken}unable to initialize "{name}" plugin: {error}') from None
    handle.filters += [made[name].filter for name in filters]
    handle.pre_eviction_filters += [made[name].pre_eviction_filter for name in late]

    def runs(names: list[str], known: dict[str, Plugin], point: str) -> Runs:
        return {
            name: getattr(made[name], point)
            if name in made
            else partial(known[name], handle, args[name])
            for name in names
        }

    return Profile(
        profile,
        runs(deschedule, DESCHEDULE, "deschedule"),
        runs(balance, BALANCE, "balance"),
        handle,
    )


def _made(plugin: type[OwnPlugin], args: Any, handle: Handle) -> OwnPlugin:
    try:
        return plugin(args, handle)
    except ValueError:
        raise
    except Exception as error:  # the code of a user
        raise ValueError(line_of(error)) from error


def _of(own: OwnPlugins, base: type) -> Iterable[str]:
    return [name for name, each in own.items() if issubclass(each, base)]


def _enabled(profile: str, points: dict[str, Any], point: str, known: Container[str]) -> list[str]:
    names = list((points.get(point.lower()) or {}).get("enabled") or ())
    strange = sorted({name for name in names if name not in known})
    if strange:
        shown = " ".join(f"{name}:{{}}" for name in strange)
        raise ValueError(
            f'unable to create "{profile}" profile: profile "{profile}" configures {point} '
            f"extension point of non-existing plugins: map[{shown}]"
        )
    return names


def run_pass(
    profiles: list[Profile], nodes: Nodes, evictor: PodEvictor, failed: Failed = lambda *_: None
) -> Evicting:
    """Run all plugins once over the ready ones of the selected nodes, if there are at least two."""
    evictor.reset()
    ready = [node for node in nodes if is_ready(node)]
    if len(ready) <= 1:
        return
    for profile in profiles:
        yield from _run(profile, profile.deschedule, ready, failed)
    for profile in profiles:
        yield from _run(profile, profile.balance, ready, failed)


def _run(profile: Profile, plugins: Runs, nodes: Nodes, failed: Failed) -> Evicting:
    errors = []
    for name, plugin in plugins.items():
        try:
            evicting = plugin(nodes)
            if evicting is not None:  # a method of a user without any yield
                yield from evicting
        except TotalLimitReached:
            continue
        except PluginError as error:
            errors.append(f'plugin "{name}" finished with error: {error}')
    if errors:
        failed(profile.name, aggregate(errors))
