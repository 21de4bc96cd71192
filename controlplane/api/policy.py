"""Disruption budgets."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.meta import Condition, LabelSelector
from controlplane.api.times import Time
from controlplane.api.tree import EMPTY_MAP
from controlplane.api.view import View


@attrs.frozen
class PodDisruptionBudgetSpec:
    """The number of matching pods that must stay, or may go."""

    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


@attrs.frozen
class PodDisruptionBudgetStatus:
    """The current allowance of the disruption controller."""

    conditions: tuple[Condition, ...] = ()
    current_healthy: int = 0
    desired_healthy: int = 0
    disrupted_pods: dict[str, Time] = EMPTY_MAP
    disruptions_allowed: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


@attrs.frozen(eq=False)
class PodDisruptionBudget(View):
    """A disruption budget."""

    API_VERSION: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = attrs.field(factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = attrs.field(factory=PodDisruptionBudgetStatus)
