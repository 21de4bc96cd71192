"""The remaining budgets of disruption while removals are planned.

Upstream: `core/scaledown/pdb/basic.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.api.labels import Selector, from_label_selector
from controlplane.api.pod import Pod
from controlplane.api.policy import PodDisruptionBudget


@dataclass(slots=True)
class _Budget:
    namespace: str
    selector: Selector
    allowed: int

    def matches(self, pod: Pod) -> bool:
        return pod.metadata.namespace == self.namespace and self.selector.matches(
            pod.metadata.labels
        )


class RemainingBudgets:
    """Budgets of disruption, less the pods whose removal was planned."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        self._budgets = [
            _Budget(
                each.metadata.namespace,
                from_label_selector(each.spec.selector),
                each.status.disruptions_allowed,
            )
            for each in budgets
        ]

    def allowed_for(self, pod: Pod) -> list[int]:
        """Return the disruptions left in each budget that holds for a pod."""
        return [each.allowed for each in self._budgets if each.matches(pod)]

    def at_once(self, pods: Sequence[Pod]) -> bool:
        """Return whether all the pods may be removed at the same time."""
        for budget in self._budgets:
            count = sum(budget.matches(pod) for pod in pods)
            if count and count > budget.allowed:
                return False
        return True

    def remove(self, pods: Sequence[Pod]) -> None:
        """Count the removal of pods."""
        for budget in self._budgets:
            budget.allowed -= sum(budget.matches(pod) for pod in pods)
