"""Topology spread constraints, compiled; and which nodes and pods they count.

Upstream: `plugins/podtopologyspread/common.go`, `plugins/helper/spread.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from controlplane.api.labels import Selector, SelectorError, from_label_selector, from_set
from controlplane.api.node_selector import RequiredNodeAffinity
from controlplane.api.taints import untolerated

if TYPE_CHECKING:
    from controlplane.api.apps import ReplicaSet, StatefulSet
    from controlplane.api.constraints import TopologySpreadConstraint
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.state.listers import Listers

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"
IGNORE = "Ignore"


@attrs.frozen
class Constraint:
    """A constraint with its selector; `matches_self` tells whether the pod counts itself."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    affinity_policy: str
    taints_policy: str
    matches_self: bool
    pod_labels: Mapping[str, str] = attrs.field(eq=False)

    def with_selector(self, selector: Selector) -> Constraint:
        """The same constraint for other pods."""
        matches = selector.matches(self.pod_labels)
        return attrs.evolve(self, selector=selector, matches_self=matches)


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], pod: Pod, action: str, *, merge_keys: bool
) -> list[Constraint]:
    """Those constraints that have this action. Raises SelectorError."""
    labels = pod.labels
    out: list[Constraint] = []
    for each in constraints:
        if each.when_unsatisfiable != action:
            continue
        selector = from_label_selector(each.label_selector)
        if merge_keys and each.match_label_keys and selector.selectable():
            wanted = {key: labels[key] for key in each.match_label_keys if key in labels}
            if wanted:
                selector = from_set(wanted).add(*selector)
        out.append(
            Constraint(
                each.max_skew,
                each.topology_key,
                selector,
                1 if each.min_domains is None else each.min_domains,
                each.node_affinity_policy or HONOR,
                each.node_taints_policy or IGNORE,
                selector.matches(labels),
                labels,
            )
        )
    return out


def has_all_keys(labels: Mapping[str, str], constraints: Sequence[Constraint]) -> bool:
    """Return whether a node with these labels lies in a domain of every constraint."""
    return all(constraint.topology_key in labels for constraint in constraints)


Weight = Callable[[int], float]
"""Number of domains -> weight of a topology."""


class Policies:
    """The nodes that count for a pod, by its node affinity and tolerations."""

    __slots__ = ("_affinity", "_trivial", "pod")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self._affinity = RequiredNodeAffinity(pod)
        self._trivial = self._affinity.labels is None and self._affinity.affinity is None

    def includes_all(self, constraint: Constraint) -> bool:
        """Return whether every node counts for the constraint, as far as policies go."""
        return constraint.taints_policy != HONOR and (
            constraint.affinity_policy != HONOR or self._trivial
        )

    def key(self, constraint: Constraint) -> tuple[Hashable, Hashable]:
        """Return the inputs of `include` besides the node."""
        spec = self.pod.spec
        affinity: Hashable = None
        if constraint.affinity_policy == HONOR:
            node_affinity = None if spec.affinity is None else spec.affinity.node_affinity
            affinity = (tuple(sorted(spec.node_selector.items())), node_affinity)
        return affinity, spec.tolerations if constraint.taints_policy == HONOR else None

    def include(self, constraint: Constraint, node: Node) -> bool:
        """Return whether the node's pods count for the constraint."""
        if constraint.affinity_policy == HONOR and not self._trivial:
            try:
                if not self._affinity.match(node):
                    return False
            except SelectorError:
                return False
        if constraint.taints_policy == HONOR:
            return untolerated(node.spec.taints, self.pod.spec.tolerations) is None
        return True


def default_selector(pod: Pod, listers: Listers) -> Selector:
    """The selector of the services and the controller of a pod; empty when there are none."""
    wanted: dict[str, str] = {}
    namespace, labels = pod.namespace, pod.labels
    for service in listers.services.list():
        selector = service.spec.selector
        if service.namespace == namespace and selector and selector.items() <= labels.items():
            wanted.update(selector)
    owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
    if owner is None:
        return from_set(wanted)
    kind = (owner.api_version, owner.kind)
    if kind == ("v1", "ReplicationController"):
        controller = listers.replication_controllers.get(namespace, owner.name)
        if controller is not None:
            wanted.update(controller.spec.selector)
        return from_set(wanted)
    found: ReplicaSet | StatefulSet | None = None
    if kind == ("apps/v1", "ReplicaSet"):
        found = listers.replica_sets.get(namespace, owner.name)
    elif kind == ("apps/v1", "StatefulSet"):
        found = listers.stateful_sets.get(namespace, owner.name)
    base = from_set(wanted)
    if found is None:
        return base
    try:
        more = from_label_selector(found.spec.selector)
    except SelectorError:
        return base
    return base.add(*more) if more.selectable() else base
