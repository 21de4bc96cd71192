"""The invariant of evictions: no budget is overdrawn. Upstream: pkg/registry/core/pod/storage/eviction.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.labels import from_label_selector
from controlplane.api.tree import is_ready
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import PODS, note, stored

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = ["evictions_keep_to_budgets"]

BUDGETS: Final = "/registry/poddisruptionbudgets/"
REASON: Final = "EvictionByEvictionAPI"


def evictions_keep_to_budgets(after: str) -> Invariant:
    """An eviction leaves a budget with a number as `minAvailable` at least that many ready pods.

    For worlds in which only evictions take pods away: what is being disrupted is noted in the budget before the pod is
    deleted, so that its controller does not count it, however late its caches are.
    """

    def check(run: Run) -> str | None:
        were_ready, evicted = note(run, "pods that were ready"), note(run, "evicted pods")
        ready: list[Object[Any]] = []
        new: list[Object[Any]] = []
        for pod in run.objects(PODS):
            if pod.metadata.get("deletionTimestamp"):
                if pod.uid not in evicted and _is_evicted(pod):
                    evicted[pod.uid] = True
                    if pod.uid in were_ready:
                        new.append(pod)
            elif is_ready(pod.tree):
                were_ready[pod.uid] = True
                ready.append(pod)
        if not new:
            return None
        for budget in run.objects(BUDGETS):
            least = budget.tree["spec"].get("minAvailable")
            if not isinstance(least, int):
                continue
            view: Any = budget.view
            matcher = from_label_selector(view.spec.selector)
            taken, left = (
                [
                    pod
                    for pod in pods
                    if pod.namespace == budget.namespace and matcher.matches(pod.view.labels)
                ]
                for pods in (new, ready)
            )
            if taken and len(left) < least:
                return (
                    f"{taken[0].key} was evicted, and budget {budget.key} has {len(left)} ready pods "
                    f"of {least}"
                )
        return None

    return Invariant("evictions keep to budgets", check, (after,), looks_at=stored(PODS))


def _is_evicted(pod: Object[Any]) -> bool:
    return any(
        each["type"] == "DisruptionTarget" and each.get("reason") == REASON
        for each in (pod.tree.get("status") or {}).get("conditions") or ()
    )
