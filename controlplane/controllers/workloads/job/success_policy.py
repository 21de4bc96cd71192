"""Success policy of a Job. Upstream: job/success_policy.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.controllers.workloads.job.indexes import Intervals, parse

if TYPE_CHECKING:
    from controlplane.api.batch import SuccessPolicy


def match_success_policy(
    policy: SuccessPolicy | None, completions: int, succeeded: Intervals
) -> str | None:
    """Return the rule that is met, as the condition says it; None if none is."""
    if policy is None or not succeeded:
        return None
    for number, rule in enumerate(policy.rules):
        count = rule.succeeded_count
        if rule.succeeded_indexes is None:
            met = count is not None and succeeded.total >= count
        else:
            wanted = parse(rule.succeeded_indexes, completions)
            inside = _overlap(wanted, succeeded)
            enough = count is not None and inside >= count
            met = bool(wanted) and (inside == wanted.total or enough)
        if met:
            return f"Matched rules at index {number}"
    return None


def _overlap(one: Intervals, other: Intervals) -> int:
    """Return the number of indexes in both; walks both once, so a reversed interval counts as upstream counts it."""
    found = at = beside = 0
    ones, others = one.parts, other.parts
    while at < len(ones) and beside < len(others):
        left, right = ones[at], others[beside]
        found += max(0, min(left.last, right.last) - max(left.first, right.first) + 1)
        at += right.last >= left.last
        beside += right.last <= left.last
    return found
