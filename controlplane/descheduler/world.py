"""The state of the cluster in a descheduling pass: the listed objects of its caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from controlplane.api.labels import from_label_selector
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.policy import PodDisruptionBudget

PodFilter = Callable[[Pod], bool]
TERMINAL: Final = ("Succeeded", "Failed")


@define
class World:
    """The caches of a descheduler. Lists are in a fixed order; `now` is in nanoseconds."""

    now: int = 0
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(factory=dict)
    budgets: Sequence[PodDisruptionBudget] = ()
    claims: Mapping[tuple[str, str], str] = field(factory=dict)
    """The storage class of each claim by namespace and name."""
    collected: Mapping[str, Mapping[str, int]] | None = None
    """By node, the averages of what was measured; None if the policy collects nothing."""
    pod_usage: Callable[[Pod], Mapping[str, Mapping[str, int]] | None] = lambda _pod: None
    """By container, what a pod uses now; None where that is unknown."""
    prometheus: Callable[[], Mapping[str, Any] | None] = lambda: None
    """The answer of Prometheus to a query for the use of nodes; None without a client."""
    _grouped: tuple[Sequence[Pod], dict[str, list[Pod]]] = field(default=((), {}), init=False)

    def pods_on(self, node: str) -> list[Pod]:
        """The pods of a node in all phases."""
        if self._grouped[0] is not self.pods:
            groups: dict[str, list[Pod]] = {}
            for pod in self.pods:
                groups.setdefault(pod.spec.node_name, []).append(pod)
            self._grouped = self.pods, groups
        return list(self._grouped[1].get(node, ()))

    def running_on(self, node: str, wanted: PodFilter | None = None) -> list[Pod]:
        """The pods of a node that have not ended and that a filter lets pass."""
        return [
            pod
            for pod in self.pods_on(node)
            if pod.status.phase not in TERMINAL and (wanted is None or wanted(pod))
        ]

    def has_budget(self, pod: Pod) -> bool:
        """Return whether a disruption budget selects the pod."""
        return any(
            budget.metadata.namespace == pod.metadata.namespace
            and from_label_selector(budget.spec.selector).matches(pod.metadata.labels)
            for budget in self.budgets
        )


def is_ready(node: Node) -> bool:
    """Return whether no Ready condition of the node says otherwise."""
    return all(each.status == "True" for each in node.status.conditions if each.type == "Ready")


def key_of(pod: Pod) -> str:
    """Namespace and name of a pod, as messages write them."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
