"""The effect of a failed pod under a pod failure policy. Upstream: job/pod_failure_policy.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.batch import (
        PodFailurePolicy,
        PodFailurePolicyOnExitCodesRequirement,
        PodFailurePolicyRule,
    )
    from controlplane.api.pod import Pod
    from controlplane.api.pod_status import ContainerStatus

FAIL_JOB = "FailJob"
FAIL_INDEX = "FailIndex"
IGNORE = "Ignore"
COUNT = "Count"


class Match(NamedTuple):
    """The first rule that fits: why the Job fails (FailJob only), whether the failure counts, the action."""

    message: str | None
    counts: bool
    action: str | None


NO_RULE = Match(None, True, None)


def match_pod_failure_policy(policy: PodFailurePolicy | None, pod: Pod) -> Match:
    """Return the policy's answer for a failed pod."""
    for number, rule in enumerate(policy.rules if policy is not None else ()):
        why = _why(rule, pod)
        if why is None:
            continue
        if rule.action == FAIL_JOB:
            return Match(f"{why} matching {FAIL_JOB} rule at index {number}", True, FAIL_JOB)
        if rule.action in {IGNORE, FAIL_INDEX, COUNT}:
            return Match(None, rule.action != IGNORE, rule.action)
    return NO_RULE


def _why(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """Return the beginning of the message of a rule that fits a pod; None if it does not."""
    if rule.on_exit_codes is not None:
        status = pod.status
        for statuses in (status.container_statuses, status.init_container_statuses):
            found = _container(statuses, rule.on_exit_codes)
            if found is not None and found.state.terminated is not None:
                code = found.state.terminated.exit_code
                return f"Container {found.name} for pod {pod.key} failed with exit code {code}"
        return None
    for condition in pod.status.conditions:
        for pattern in rule.on_pod_conditions:
            if (condition.type, condition.status) == (pattern.type, pattern.status):
                return f"Pod {pod.key} has condition {condition.type}"
    return None


def _container(
    statuses: Iterable[ContainerStatus], wanted: PodFailurePolicyOnExitCodesRequirement
) -> ContainerStatus | None:
    for status in statuses:
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if wanted.container_name is not None and wanted.container_name != status.name:
            continue
        inside = ended.exit_code in wanted.values
        if (wanted.operator == "In" and inside) or (wanted.operator == "NotIn" and not inside):
            return status
    return None
