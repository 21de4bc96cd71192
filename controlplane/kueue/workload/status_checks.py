"""Admission checks in the status of a Workload, and its requeue state.

Setters change a `status.working_copy`. Follows `pkg/workload/admissionchecks.go` and `pkg/util/wait`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.workload.status import status_of

__all__ = [
    "backoff",
    "checks_for",
    "checks_in",
    "has_all_required_checks",
    "max_retry_time",
    "needs_requeue_at",
    "set_check_state",
    "set_requeue_state",
    "sync_checks",
    "update_requeue_state",
]

FACTOR: Final = 2


def checks_in(workload: Tree, state: str) -> list[Tree]:
    """The admission checks in a state."""
    return [
        each
        for each in status_of(workload).get("admissionChecks") or ()
        if each.get("state", "") == state
    ]


def set_check_state(checks: list[Tree], new: Tree, now: int) -> bool:
    """Add or update one admission check in a list; its time changes only with its state."""
    for each in checks:
        if each["name"] != new["name"]:
            continue
        if each.get("state") != new.get("state"):
            each["state"] = new.get("state")
            each["lastTransitionTime"] = new.get("lastTransitionTime") or format_time(now)
        each["message"] = new.get("message") or ""
        for name in ("podSetUpdates", "requeueAfterSeconds"):
            if new.get(name) is None:
                each.pop(name, None)
            else:
                each[name] = new[name]
        return True
    checks.append(
        {
            "message": "",
            **new,
            "lastTransitionTime": new.get("lastTransitionTime") or format_time(now),
        }
    )
    return True


def sync_checks(checks: Iterable[Tree], wanted: Iterable[str], now: int) -> tuple[list[Tree], bool]:
    """Add missing checks as Pending and drop others.

    Returns:
        The checks by name, and whether any was added or dropped.
    """
    names = sorted(wanted)
    current = [dict(each) for each in checks]
    if not names:
        return [], bool(current)
    present = {each["name"] for each in current}
    changed = False
    for name in names:
        if name not in present:
            changed = set_check_state(current, {"name": name, "state": "Pending"}, now)
    kept = [each for each in current if each["name"] in names]
    changed = changed or len(kept) < len(current)
    return sorted(kept, key=lambda each: str(each["name"])), changed


def checks_of_queue(cluster_queue: Tree) -> dict[str, frozenset[str]]:
    """Flavors that each admission check of a cluster queue is for; without any, all of the queue."""
    spec = cluster_queue.get("spec") or EMPTY_MAP
    every = all_flavors(cluster_queue)
    strategy = spec.get("admissionChecksStrategy") or EMPTY_MAP
    return {
        each["name"]: frozenset(each.get("onFlavors") or ()) or every
        for each in strategy.get("admissionChecks") or ()
    }


def all_flavors(cluster_queue: Tree) -> frozenset[str]:
    """Names of all flavors of a cluster queue."""
    return frozenset(
        flavor["name"]
        for group in (cluster_queue.get("spec") or EMPTY_MAP).get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
    )


def checks_for(workload: Tree, cluster_queue: Tree) -> list[str]:
    """Names of the checks that apply to a Workload in a cluster queue, sorted.

    With an admission: checks for one of its flavors. Without: checks that are for all flavors.
    """
    checks = checks_of_queue(cluster_queue)
    admission = status_of(workload).get("admission")
    if admission is not None:
        return _checks_for_admission(checks, admission)
    every = all_flavors(cluster_queue)
    return sorted(name for name, flavors in checks.items() if flavors >= every)


def _checks_for_admission(checks: dict[str, frozenset[str]], admission: Tree) -> list[str]:
    used = {
        flavor
        for each in admission.get("podSetAssignments") or ()
        for flavor in (each.get("flavors") or EMPTY_MAP).values()
    }
    return sorted(name for name, flavors in checks.items() if not flavors.isdisjoint(used))


def has_all_required_checks(workload: Tree, checks: dict[str, frozenset[str]]) -> bool:
    """Return whether every check for the admission of the Workload is in its status, in any state."""
    needed = _checks_for_admission(checks, status_of(workload)["admission"])
    present = {each["name"] for each in status_of(workload).get("admissionChecks") or ()}
    return present.issuperset(needed)


# -- requeue state ---------------------------------------------------------------------------------


def max_retry_time(workload: Tree) -> int | None:
    """The latest time that a check in Retry asks for, None when none does."""
    times = [
        parse_time(each["lastTransitionTime"]) + each["requeueAfterSeconds"] * SECOND
        for each in checks_in(workload, "Retry")
        if each.get("requeueAfterSeconds") is not None and each.get("lastTransitionTime")
    ]
    return max(times, default=None)


def requeue_at(workload: Tree) -> int | None:
    """`status.requeueState.requeueAt`, None when absent."""
    text = (status_of(workload).get("requeueState") or EMPTY_MAP).get("requeueAt")
    return parse_time(text) if text else None


def needs_requeue_at(workload: Tree, now: int) -> int | None:
    """The time that `requeueAt` must be moved to because of checks in Retry, None if it need not."""
    latest = max_retry_time(workload)
    if latest is None or latest <= now:
        return None
    current = requeue_at(workload)
    return latest if current is None or current < latest else None


def set_requeue_state(workload: Tree, until: int, *, count: bool) -> bool:
    """Move `requeueAt` forward (never back), and count a requeue."""
    status = workload["status"]
    current = requeue_at(workload)
    state = dict(status.get("requeueState") or ())
    status["requeueState"] = state
    changed = False
    if current is None or current < until:
        state["requeueAt"] = format_time(until)
        changed = True
    if count:
        state["count"] = (state.get("count") or 0) + 1
        changed = True
    return changed


def backoff(base_seconds: int, max_seconds: int, times: int) -> int:
    """Nanoseconds of the `times`-th wait: doubled each time, never over the maximum.

    Upstream lengthens a wait by up to a ten-thousandth by chance; here it is not.
    """
    wait, most = base_seconds * SECOND, max_seconds * SECOND
    for _ in range(times - 1):
        wait *= FACTOR
        if most and wait >= most:
            return most
    return wait


def update_requeue_state(workload: Tree, base_seconds: int, max_seconds: int, now: int) -> None:
    """Count a requeue and set the time after its backoff."""
    state = status_of(workload).get("requeueState") or EMPTY_MAP
    times = (state.get("count") or 0) + 1
    set_requeue_state(workload, now + backoff(base_seconds, max_seconds, times), count=True)
