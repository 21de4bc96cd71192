"""The fit of a pod on a node, and the order in which the pods of a node are evicted.

Follows `pkg/descheduler/node/node.go`, `pkg/descheduler/pod/pods.go` and `pkg/utils/predicates.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controlplane.api.constraints import NodeAffinity, PodAffinityTerm
from controlplane.api.go_sort import sort_slice
from controlplane.api.labels import SelectorError, from_label_selector
from controlplane.api.node import Node
from controlplane.api.node_selector import RequiredNodeAffinity
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_qos, pod_requests
from controlplane.api.quantity import Quantity
from controlplane.api.taints import untolerated
from controlplane.descheduler.world import World

PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
_ZERO: Final = Quantity.new(0)
_QOS_ORDER: Final = ("BestEffort", "Burstable", "Guaranteed")


def misfit(world: World, pod: Pod, node: Node) -> str:
    """Return why a pod cannot run on a node, or an empty text."""
    if node.spec.unschedulable:
        return "node is not schedulable"
    if not matches_node_selector(pod, node):
        return "pod node selector does not match the node label"
    if untolerated(node.spec.taints, pod.spec.tolerations) is not None:
        return "pod does not tolerate taints on the node"
    present = world.running_on(node.metadata.name)
    if _forbidden_by(pod, node, present):
        return "pod matches inter-pod anti-affinity rule of other pod on node"
    if pod.spec.node_name == node.metadata.name:
        return ""
    return _insufficient(pod, node, present)


def fits_any(world: World, pod: Pod, nodes: Iterable[Node]) -> bool:
    """Return whether the pod fits one of the nodes."""
    return any(not misfit(world, pod, node) for node in nodes)


def fits_any_other(world: World, pod: Pod, nodes: Iterable[Node]) -> bool:
    """Return whether the pod fits one of the nodes that is not its own."""
    others = (node for node in nodes if node.metadata.name != pod.spec.node_name)
    return fits_any(world, pod, others)


def matches_node_selector(pod: Pod, node: Node) -> bool:
    """Return whether a node has what selector and required affinity of a pod ask for."""
    try:
        return RequiredNodeAffinity(pod).match(node)
    except SelectorError:
        return False


def node_affinity(pod: Pod) -> NodeAffinity | None:
    """Return the node affinity of a pod."""
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


def anti_affinity_terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """The required anti-affinity terms of a pod."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def term_selects(term: PodAffinityTerm, pod: Pod, other: Pod) -> bool:
    """Return whether a term of `pod` selects `other`; namespace selectors are not looked at."""
    namespaces = term.namespaces or (pod.metadata.namespace,)
    return (
        other.metadata.name != pod.metadata.name
        and other.metadata.namespace in namespaces
        and from_label_selector(term.label_selector).matches(other.metadata.labels)
    )


def _forbidden_by(pod: Pod, node: Node, present: Sequence[Pod]) -> bool:
    for term in anti_affinity_terms(pod):
        if term.topology_key in node.metadata.labels and any(
            term_selects(term, pod, other) for other in present
        ):
            return True
    return False


def _insufficient(pod: Pod, node: Node, present: Sequence[Pod]) -> str:
    wanted = pod_requests(pod)
    used = requested_by(present)
    allocatable = node.status.allocatable
    for name, amount in wanted.items():
        free = _ZERO
        if name in allocatable:
            free = allocatable[name] - used.get(name, _ZERO)
        if amount.milli_value() > free.milli_value():
            return f"insufficient {name}"
    if allocatable.get("pods", _ZERO).value() - len(present) <= 0:
        return "insufficient pods"
    return ""


def requested_by(pods: Iterable[Pod]) -> dict[str, Quantity]:
    """The sum of the requests of pods by resource."""
    total: dict[str, Quantity] = {}
    for pod in pods:
        for name, amount in pod_requests(pod).items():
            total[name] = total[name] + amount if name in total else amount
    return total


def sort_low_priority_first(pods: list[Pod]) -> None:
    """Sort pods in place into the order of their eviction.

    The comparison answers yes for equal pods, as upstream's does; their order comes from the algorithm.
    """
    sort_slice(pods, _goes_first)


def _goes_first(left: Pod, right: Pod) -> bool:
    if left.spec.priority is None and right.spec.priority is not None:
        return True
    if right.spec.priority is None and left.spec.priority is not None:
        return False
    if left.spec.priority == right.spec.priority or left.spec.priority is None:
        qos = _QOS_ORDER.index(pod_qos(left)), _QOS_ORDER.index(pod_qos(right))
        if qos[0] != qos[1]:
            return qos[0] < qos[1]
        preferred = PREFER_NO_EVICTION in left.metadata.annotations
        return not (preferred and PREFER_NO_EVICTION not in right.metadata.annotations)
    assert right.spec.priority is not None
    return left.spec.priority < right.spec.priority


def same_domain(left: Node, right: Node, key: str) -> bool:
    """Return whether two nodes are one, or have the same value of a topology key."""
    if left.metadata.name == right.metadata.name:
        return True
    mine: Mapping[str, str] = left.metadata.labels
    return key in mine and mine[key] == right.metadata.labels.get(key)
