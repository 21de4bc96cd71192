"""RemovePodsViolatingTopologySpreadConstraint: even out the domains of spread constraints.

Follows `pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint`.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from attrs import define, frozen

from controlplane.api.constraints import TopologySpreadConstraint
from controlplane.api.go_sort import sort_slice
from controlplane.api.labels import EQUALS, Requirement, Selector, from_label_selector
from controlplane.api.node import Node
from controlplane.api.node_selector import RequiredNodeAffinity
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
from controlplane.descheduler.node import fits_any_other, node_affinity
from controlplane.descheduler.world import key_of


@frozen(eq=False)
class _Constraint:
    """A constraint as one of its pods has it; `identity` tells distinct ones apart."""

    key: str
    max_skew: int
    selector: Selector
    pod: Pod
    honor_affinity: bool
    honor_taints: bool
    identity: tuple[object, ...]

    def includes(self, node: Node) -> bool:
        """Return whether the node's domain counts."""
        if self.honor_affinity and not RequiredNodeAffinity(self.pod).match(node):
            return False
        if not self.honor_taints:
            return True
        return untolerated(node.spec.taints, self.pod.spec.tolerations) is None


@define
class _Domain:
    value: str
    pods: list[Pod]


def violating_spread(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict pods from domains that hold too many."""
    wanted = pod_filter(args)
    allowed = args.get("constraints") or ("DoNotSchedule",)
    by_name = {node.metadata.name: node for node in nodes}
    namespaces: dict[str, list[Pod]] = {}
    for name in by_name:
        for pod in handle.world.running_on(name):
            if wanted(pod) and handle.filter(pod):
                namespaces.setdefault(pod.metadata.namespace, []).append(pod)
    chosen: dict[str, Pod] = {}
    for pods in namespaces.values():
        for constraint in _distinct(pods, allowed):
            domains = _domains(constraint, pods, nodes, by_name)
            sizes = [len(each.pods) for each in domains]
            if sizes and max(sizes) - min(sizes) > constraint.max_skew:
                for pod in _surplus(handle, args, constraint, domains, nodes):
                    chosen[key_of(pod)] = pod
    yield from _evict(handle, list(chosen.values()))


def _evict(handle: Handle, pods: list[Pod]) -> Evicting:
    full: dict[str, None] = {}
    for pod in pods:
        if pod.spec.node_name in full or not handle.may_go(pod):
            continue
        try:
            yield from handle.evict(pod, "RemovePodsViolatingTopologySpreadConstraint")
        except NodeLimitReached:
            full[pod.spec.node_name] = None
        except TotalLimitReached:
            return
        except EvictionError:
            continue


def _distinct(pods: list[Pod], allowed: Any) -> list[_Constraint]:
    found: list[_Constraint] = []
    for pod in pods:
        for each in pod.spec.topology_spread_constraints:
            if each.when_unsatisfiable in allowed:
                constraint = _constraint(each, pod)
                if all(constraint.identity != other.identity for other in found):
                    found.append(constraint)
    return found


def _constraint(given: TopologySpreadConstraint, pod: Pod) -> _Constraint:
    selector = from_label_selector(given.label_selector)
    labels = pod.metadata.labels
    extra = [
        Requirement(key, EQUALS, (labels[key],)) for key in given.match_label_keys if key in labels
    ]
    if extra:
        selector = selector.add(*extra)
    honor_affinity = given.node_affinity_policy in ("", "Honor")
    honor_taints = given.node_taints_policy == "Honor"
    affinity = node_affinity(pod)
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    identity = (
        given.max_skew,
        given.topology_key,
        str(selector),
        honor_affinity,
        honor_taints,
        (required, pod.spec.node_selector) if honor_affinity else None,
        pod.spec.tolerations if honor_taints else None,
    )
    return _Constraint(
        given.topology_key, given.max_skew, selector, pod, honor_affinity, honor_taints, identity
    )


def _domains(
    constraint: _Constraint, pods: list[Pod], nodes: Nodes, by_name: dict[str, Node]
) -> list[_Domain]:
    found: dict[str, list[Pod]] = {}
    for node in nodes:
        value = node.metadata.labels.get(constraint.key)
        if value is not None and constraint.includes(node):
            found.setdefault(value, [])
    for pod in pods:
        if pod.metadata.deletion_timestamp is None and constraint.selector.matches(
            pod.metadata.labels
        ):
            value = by_name[pod.spec.node_name].metadata.labels.get(constraint.key)
            if value is not None:
                found.setdefault(value, []).append(pod)
    return [_Domain(value, members) for value, members in found.items()]


def _surplus(
    handle: Handle,
    args: dict[str, Any],
    constraint: _Constraint,
    domains: list[_Domain],
    nodes: Nodes,
) -> list[Pod]:
    average = sum(len(each.pods) for each in domains) / len(domains)
    for each in domains:
        sort_slice(each.pods, _stays_longer)
    sort_slice(domains, lambda left, right: len(left.pods) < len(right.pods))
    low = [
        node
        for each in domains
        if len(each.pods) < average
        for node in nodes
        if node.metadata.labels.get(constraint.key) == each.value
    ]
    node_fit = args.get("topologyBalanceNodeFit") is not False
    chosen = []
    i, j = 0, len(domains) - 1
    while i < j:
        high = len(domains[j].pods)
        if high <= average:
            j -= 1
            continue
        skew = high - len(domains[i].pods)
        moved = min(
            ceil(high - average),
            ceil(average - len(domains[i].pods)),
            ceil((skew - constraint.max_skew) / 2),
        )
        if skew <= constraint.max_skew or moved <= 0:
            i += 1
            continue
        if node_fit:
            domains[j].pods.sort(key=lambda pod: fits_any_other(handle.world, pod, low))
        leaving = domains[j].pods[-moved:]
        chosen += [pod for pod in leaving if not node_fit or fits_any_other(handle.world, pod, low)]
        del domains[j].pods[-moved:]
        domains[i].pods.extend(leaving)
    return chosen


def _stays_longer(left: Pod, right: Pod) -> bool:
    bound = _is_bound(left), _is_bound(right)
    if bound[0] != bound[1]:
        return bound[0]
    if left.spec.priority is None:
        return True
    return right.spec.priority is not None and left.spec.priority < right.spec.priority


def _is_bound(pod: Pod) -> bool:
    return bool(pod.spec.node_selector) or node_affinity(pod) is not None
