"""A pass: the profiles of a policy, their Deschedule plugins first, then their Balance plugins.

Follows `pkg/descheduler/descheduler.go` and `pkg/framework/profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define

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
from controlplane.descheduler.plugins.spread import violating_spread
from controlplane.descheduler.plugins.utilization import (
    high_node_utilization,
    low_node_utilization,
)
from controlplane.descheduler.world import World, is_ready

Plugin = Callable[[Handle, dict[str, Any], Nodes], Evicting]
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
DEFAULTS: Final[Mapping[str, dict[str, Any]]] = {
    "RemoveFailedPods": {"minPodLifetimeSeconds": 3600}
}


@define
class Profile:
    """A profile of a policy, its arguments with defaults."""

    name: str
    args: dict[str, dict[str, Any]]
    deschedule: list[str]
    balance: list[str]
    handle: Handle


def build(
    tree: dict[str, Any], world: World, evictor: PodEvictor, classes: dict[str, int]
) -> Profile:
    """Build one profile.

    ValueError if the priority threshold of its evictor is not valid, a plugin is of another extension
    point, or an enabled plugin has no entry in `pluginConfig`.
    """
    args = {
        each["name"]: {**DEFAULTS.get(each["name"], {}), **(each.get("args") or {})}
        for each in tree.get("pluginConfig") or ()
    }
    own = dict(args.get("DefaultEvictor", {}))
    own["priorityThreshold"] = {"value": priority_threshold(own, classes)}
    points = tree.get("plugins") or {}
    handle = Handle(world, evictor, DefaultEvictor(world, own), tree.get("name", ""))
    deschedule = _enabled(handle.profile, points, "deschedule", DESCHEDULE)
    balance = _enabled(handle.profile, points, "balance", BALANCE)
    for name in (*deschedule, *balance):
        if name not in args:
            raise ValueError(
                f'unable to create "{handle.profile}" profile: unable to build {name} plugin: '
                f'unable to find "{name}" plugin config'
            )
    return Profile(handle.profile, args, deschedule, balance, handle)


def _enabled(
    profile: str, points: dict[str, Any], point: str, known: Mapping[str, Plugin]
) -> list[str]:
    names = list((points.get(point) or {}).get("enabled") or ())
    strange = sorted({name for name in names if name not in known})
    if strange:
        shown = " ".join(f"{name}:{{}}" for name in strange)
        raise ValueError(
            f'unable to create "{profile}" profile: profile "{profile}" configures {point} '
            f"extension point of non-existing plugins: map[{shown}]"
        )
    return names


def run_pass(profiles: list[Profile], nodes: Nodes, evictor: PodEvictor) -> Evicting:
    """Run all plugins once over the ready ones of the selected nodes, if there are at least two."""
    evictor.reset()
    ready = [node for node in nodes if is_ready(node)]
    if len(ready) <= 1:
        return
    for profile in profiles:
        yield from _run(profile, profile.deschedule, DESCHEDULE, ready)
    for profile in profiles:
        yield from _run(profile, profile.balance, BALANCE, ready)


def _run(profile: Profile, names: list[str], known: dict[str, Plugin], nodes: Nodes) -> Evicting:
    for name in names:
        try:
            yield from known[name](profile.handle, profile.args[name], nodes)
        except TotalLimitReached:
            continue
