"""Plugins that judge a pod by its node: violated taints, node affinity, anti-affinity.

Follows `pkg/framework/plugins/removepodsviolatingnodetaints`, `removepodsviolatingnodeaffinity` and
`removepodsviolatinginterpodantiaffinity`.
"""

from __future__ import annotations

from typing import Any

from controlplane.api.constraints import Taint
from controlplane.api.node import Node
from controlplane.api.node_selector import PreferredTerms
from controlplane.api.pod import Pod
from controlplane.api.taints import untolerated
from controlplane.descheduler.args import pod_filter
from controlplane.descheduler.evictions import (
    Evicting,
    EvictionError,
    NodeLimitReached,
    TotalLimitReached,
)
from controlplane.descheduler.handle import Handle, Nodes
from controlplane.descheduler.node import (
    anti_affinity_terms,
    fits_any,
    matches_node_selector,
    node_affinity,
    same_domain,
    sort_low_priority_first,
    term_selects,
)


def violating_node_taints(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict pods that do not tolerate a NoSchedule taint of their node."""
    evictable = handle.evictable(args)
    included, excluded = args.get("includedTaints"), args.get("excludedTaints") or ()
    effects = ["NoSchedule"]
    if args.get("includePreferNoSchedule"):
        effects.append("PreferNoSchedule")

    def counts(taint: Taint) -> bool:
        if taint.effect not in effects or _is_listed(taint, excluded):
            return False
        return not included or _is_listed(taint, included)

    for node in nodes:
        pods = handle.world.running_on(node.metadata.name, evictable)
        taints = node.spec.taints
        yield from handle.evict_each(
            (pod for pod in pods if untolerated(taints, pod.spec.tolerations, counts) is not None),
            "RemovePodsViolatingNodeTaints",
        )


def _is_listed(taint: Taint, entries: Any) -> bool:
    pair = f"{taint.key}={taint.value}" if taint.value else taint.key
    return any(entry in (taint.key, pair) for entry in entries)


def violating_node_affinity(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict pods whose node does not, or no longer best, match their node affinity."""
    wanted = pod_filter(args)
    for kind in args.get("nodeAffinityType") or ():
        judge = _AFFINITY.get(kind)
        if judge is None:
            continue
        try:
            for node in nodes:
                pods = [
                    pod
                    for pod in handle.world.running_on(node.metadata.name)
                    if wanted(pod) and handle.may_go(pod) and judge(handle, pod, node, nodes)
                ]
                yield from handle.evict_each(pods, "RemovePodsViolatingNodeAffinity")
        except TotalLimitReached:
            continue


def _required_violated(handle: Handle, pod: Pod, node: Node, nodes: Nodes) -> bool:
    affinity = node_affinity(pod)
    if affinity is None or affinity.required_during_scheduling_ignored_during_execution is None:
        return False
    return fits_any(handle.world, pod, nodes) and not matches_node_selector(pod, node)


def _preferred_violated(handle: Handle, pod: Pod, node: Node, nodes: Nodes) -> bool:
    affinity = node_affinity(pod)
    if affinity is None or not affinity.preferred_during_scheduling_ignored_during_execution:
        return False
    terms = PreferredTerms(affinity.preferred_during_scheduling_ignored_during_execution)
    best = max(0, *(terms.score(each) for each in nodes))
    return fits_any(handle.world, pod, nodes) and best > terms.score(node)


_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": _required_violated,
    "preferredDuringSchedulingIgnoredDuringExecution": _preferred_violated,
}


def violating_anti_affinity(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict pods that other pods keep from their node by required anti-affinity."""
    wanted = pod_filter(args)
    by_name = {node.metadata.name: node for node in nodes}
    present = {name: handle.world.running_on(name, wanted) for name in by_name}
    standing = [pod for pods in present.values() for pod in pods]
    for pods in present.values():
        sort_low_priority_first(pods)
        for pod in pods:
            if not _has_enemy(pod, standing, by_name) or not handle.may_go(pod):
                continue
            try:
                yield from handle.evict(pod, "RemovePodsViolatingInterPodAntiAffinity")
            except NodeLimitReached:
                break
            except TotalLimitReached:
                return
            except EvictionError:
                continue
            standing = _without(standing, pod)


def _has_enemy(pod: Pod, standing: list[Pod], nodes: dict[str, Node]) -> bool:
    node = nodes[pod.spec.node_name]
    return any(
        term_selects(term, pod, other)
        and same_domain(node, nodes[other.spec.node_name], term.topology_key)
        for term in anti_affinity_terms(pod)
        for other in standing
    )


def _without(standing: list[Pod], gone: Pod) -> list[Pod]:
    for index, pod in enumerate(standing):
        if (pod.metadata.namespace, pod.metadata.name) == (
            gone.metadata.namespace,
            gone.metadata.name,
        ):
            return standing[:index] + standing[index + 1 :]
    return standing
