"""RemoveDuplicates: spread the pods of one owner over the nodes.

Follows `pkg/framework/plugins/removeduplicates`.
"""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.taints import untolerated
from controlplane.descheduler.evictions import Evicting
from controlplane.descheduler.handle import Handle, Nodes
from controlplane.descheduler.node import matches_node_selector

Owner = tuple[str, str, str, str]
"""Namespace, kind and name of an owner, and the images of its pod."""


def remove_duplicates(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict pods of an owner from nodes that hold more than their share of them."""
    counts: dict[Owner, int] = {}
    duplicates: dict[Owner, dict[str, list[Pod]]] = {}
    evictable = handle.evictable({"namespaces": args.get("namespaces")})
    excluded = args.get("excludeOwnerKinds") or ()
    for node in nodes:
        seen: list[list[str]] = []
        for pod in handle.world.running_on(node.metadata.name, evictable):
            owners = pod.metadata.owner_references
            if not owners or any(owner.kind in excluded for owner in owners):
                continue
            keys, names = _keys(pod)
            for name in names:
                counts[name] = counts.get(name, 0) + 1
            if not keys or keys not in seen:
                seen.append(keys)
                continue
            for name in names:
                on_nodes = duplicates.setdefault(name, {})
                on_nodes.setdefault(node.metadata.name, []).append(pod)
    for name, on_nodes in duplicates.items():
        targets = _targets(on_nodes, nodes)
        if targets < 2:
            continue
        share = -(-counts[name] // targets)
        for pods in on_nodes.values():
            if len(pods) + 1 > share:
                yield from handle.evict_each(pods[share - 1 :], "RemoveDuplicates")


def _keys(pod: Pod) -> tuple[list[str], list[Owner]]:
    images = sorted(each.image for each in pod.spec.containers)
    namespace, joined = pod.metadata.namespace, "#".join(images)
    owners = pod.metadata.owner_references
    keys = [f"{namespace}/{each.kind}/{each.name}/{image}" for each in owners for image in images]
    return sorted(keys), [(namespace, each.kind, each.name, joined) for each in owners]


def _targets(on_nodes: dict[str, list[Pod]], nodes: Nodes) -> int:
    """Count the nodes that could take one of the pods, over pods that have a choice at all."""
    distinct: list[Pod] = []
    for pod in (each for pods in on_nodes.values() for each in pods):
        if not any(_placed_alike(pod, other) for other in distinct):
            distinct.append(pod)
    targets: dict[str, None] = {}
    for pod in distinct:
        fitting = [
            node.metadata.name
            for node in nodes
            if untolerated(node.spec.taints, pod.spec.tolerations) is None
            and matches_node_selector(pod, node)
        ]
        if len(fitting) > 1:
            targets.update(dict.fromkeys(fitting))
    return len(targets)


def _placed_alike(left: Pod, right: Pod) -> bool:
    return _placement(left) == _placement(right)


def _placement(pod: Pod) -> tuple[object, ...]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return frozenset(map(str, pod.spec.tolerations)), pod.spec.node_selector, required
