"""The status of a budget. Upstream: pkg/controller/disruption/disruption.go, pkg/apis/policy helpers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.times import SECOND, format_time
from controlplane.api.tree import Tree
from controlplane.controllers.common.pods import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controlplane.api.pod import Pod
    from controlplane.api.policy import PodDisruptionBudget
    from controlplane.api.times import Time

DELETION_TIMEOUT_NS: Final = 120 * SECOND
"""The time for which an evicted pod counts as disrupted before its deletion was observed."""
STALE_TIMEOUT_NS: Final = 120 * SECOND
ALLOWED: Final = "DisruptionAllowed"
TARGET: Final = "DisruptionTarget"
BY_KUBELET: Final = "TerminationByKubelet"


def still_disrupted(
    pods: Iterable[Pod], disrupted: Mapping[str, Time], now: int
) -> tuple[dict[str, Time], int | None, list[Pod]]:
    """Evicted pods that are still to be deleted, when to look again, and the pods that were not deleted in time."""
    left: dict[str, Time] = {}
    overdue: list[Pod] = []
    recheck: int | None = None
    for pod in pods:
        since = disrupted.get(pod.name)
        if since is None or pod.metadata.deletion_timestamp is not None:
            continue
        expected = since + DELETION_TIMEOUT_NS
        if expected < now:
            overdue.append(pod)
            continue
        recheck = expected if recheck is None else min(recheck, expected)
        left[pod.name] = since
    return left, recheck, overdue


def healthy(pods: Iterable[Pod], disrupted: Mapping[str, Time], now: int) -> int:
    """Ready pods that are neither being deleted nor about to be."""
    return sum(
        1
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and disrupted.get(pod.name, now - DELETION_TIMEOUT_NS) + DELETION_TIMEOUT_NS <= now
        and is_ready(pod)
    )


def with_condition(
    conditions: Sequence[Tree], status: str, reason: str, message: str, generation: int, now: int
) -> list[Tree]:
    """Conditions with DisruptionAllowed set; its transition time changes only with its status."""
    made: Tree = {"type": ALLOWED, "status": status}
    if generation:
        made["observedGeneration"] = generation
    made |= {"lastTransitionTime": format_time(now), "reason": reason, "message": message}
    found = list(conditions)
    for number, old in enumerate(found):
        if old["type"] == ALLOWED:
            if old["status"] == status and "lastTransitionTime" in old:
                made["lastTransitionTime"] = old["lastTransitionTime"]
            found[number] = made
            return found
    return [*found, made]


def new_status(
    budget: PodDisruptionBudget,
    current: int,
    desired: int,
    expected: int,
    disrupted: Mapping[str, Time],
    now: int,
) -> Tree | None:
    """The status to be written; None where it stands already.

    A budget that expects no pods allows nothing: its first pods may come before it is looked at again.
    """
    allowed = max(0, current - desired) if expected > 0 else 0
    counts = {
        "currentHealthy": current,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
    }
    generation = budget.metadata.generation
    old = budget.status
    same = counts == {
        "currentHealthy": old.current_healthy,
        "desiredHealthy": old.desired_healthy,
        "disruptionsAllowed": old.disruptions_allowed,
        "expectedPods": old.expected_pods,
    }
    if (
        same
        and dict(disrupted) == dict(old.disrupted_pods)
        and old.observed_generation == generation
        and _is_up_to_date(budget)
    ):
        return None
    status: Tree = dict(counts)
    if generation:
        status["observedGeneration"] = generation
    if disrupted:
        status["disruptedPods"] = {
            name: format_time(since) for name, since in sorted(disrupted.items())
        }
    value, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    conditions = (budget.tree.get("status") or {}).get("conditions") or ()
    status["conditions"] = with_condition(conditions, value, reason, "", generation, now)
    return status


def _is_up_to_date(budget: PodDisruptionBudget) -> bool:
    status = budget.status
    for condition in status.conditions:
        if condition.type == ALLOWED:
            value = "True" if status.disruptions_allowed > 0 else "False"
            observed = condition.observed_generation == status.observed_generation
            return observed and condition.status == value
    return False


def stale_after(pod: Pod, now: int) -> int | None:
    """In how many nanoseconds a pod's DisruptionTarget is stale, 0 if it is; None if it never will be.

    What the kubelet set takes as long as it takes; a finished pod keeps it.
    """
    if pod.metadata.deletion_timestamp is not None or pod.status.phase in {"Succeeded", "Failed"}:
        return None
    for condition in pod.status.conditions:
        if condition.type != TARGET:
            continue
        if condition.status != "True" or condition.reason == BY_KUBELET:
            return None
        return max(0, (condition.last_transition_time or 0) + STALE_TIMEOUT_NS - now)
    return None
