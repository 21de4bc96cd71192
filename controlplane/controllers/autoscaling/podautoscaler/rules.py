"""The rate at which an autoscaler may follow its metrics. Upstream: podautoscaler/horizontal.go. Times are
nanoseconds.
"""

from __future__ import annotations

from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from attrs import define, field

from controlplane.api.times import SECOND
from controlplane.controllers.common.settling import HORIZON_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.autoscaling import (
        HorizontalPodAutoscalerBehavior,
        HPAScalingPolicy,
        HPAScalingRules,
    )

STABILIZATION_SECONDS: Final = 300
UP_FACTOR: Final = 8
UP_MINIMUM: Final = 4
MAX_INT32: Final = 2**31 - 1
DISABLED: Final = "Disabled"
MIN_CHANGE: Final = "Min"
WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
TOO_MANY: Final = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
)
TOO_FEW: Final = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
)
UP_LIMIT: Final = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
DOWN_LIMIT: Final = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_RECENT = "recent recommendations were {} than current one, applying the {} recent recommendation"
UP_STABILIZED: Final = ("ScaleUpStabilized", _RECENT.format("lower", "lowest"))
DOWN_STABILIZED: Final = ("ScaleDownStabilized", _RECENT.format("higher", "highest"))


class Stamped(NamedTuple):
    """A recommendation, or a change of replicas, and when it was."""

    value: int
    at: int


@define
class Memory:
    """State of one autoscaler; a restart forgets it."""

    recommendations: list[Stamped] = field(factory=list)
    ups: list[Stamped] = field(factory=list)
    downs: list[Stamped] = field(factory=list)


@define
class Motion:
    """Changes of what an autoscaler decides, which tell whether it has reached its fixed point."""

    quiet_ns: int = 0
    """The time without a change after which it rests."""
    decided: object = None
    changed_at: int = 0
    moving_since: int = 0

    def note(self, decided: object, now: int) -> None:
        """Note a decision; one that differs from the last begins a new movement if the autoscaler rested."""
        if decided == self.decided:
            return
        if self.decided is None or self.rests(now):
            self.moving_since = now
        self.decided = decided
        self.changed_at = now

    def rests(self, now: int) -> bool:
        """Return whether the fixed point is reached."""
        return now - self.changed_at > self.quiet_ns

    def lasts(self, now: int) -> bool:
        """Return whether it has moved for so long that a run does not wait for its rest."""
        return not self.rests(now) and now - self.moving_since > HORIZON_NS


def quiet_ns(behavior: HorizontalPodAutoscalerBehavior | None) -> int:
    """Return the time without a change after which an autoscaler's decision lasts as long as its metrics do.

    No pod is younger than the initialization period then, and every recommendation and scaling
    event that the rules look back at has left its window.
    """
    times = [STABILIZATION_SECONDS]
    for rules in () if behavior is None else rules_of(behavior):
        times.append(rules.stabilization_window_seconds or 0)
        times += [policy.period_seconds for policy in rules.policies]
    return max(times) * SECOND


class Normalized(NamedTuple):
    """The replicas to have, and what conditions AbleToScale and ScalingLimited say about it."""

    replicas: int
    able: tuple[str, str]
    limited: bool
    limit: tuple[str, str]


class Bounds(NamedTuple):
    """The current replicas, those that the metrics ask for, and the allowed ones."""

    current: int
    desired: int
    least: int
    most: int


def _remember(entries: list[Stamped], entry: Stamped, old: int | None) -> None:
    """Put an entry in the place of an old one, or at the end."""
    if old is None:
        entries.append(entry)
    else:
        entries[old] = entry


def _last(entries: Sequence[Stamped], before: int) -> int | None:
    """The position of the last entry from before that time."""
    return next((at for at in range(len(entries) - 1, -1, -1) if entries[at].at < before), None)


def normalize(memory: Memory, bounds: Bounds, now: int) -> Normalized:
    """Without rules: the highest recommendation of five minutes, at most twice the size (or 4) at a time."""
    cutoff = now - STABILIZATION_SECONDS * SECOND
    entries = memory.recommendations
    stable = max([bounds.desired, *(each.value for each in entries if each.at >= cutoff)])
    _remember(entries, Stamped(bounds.desired, now), _last(entries, cutoff))
    able = READY if stable == bounds.desired else DOWN_STABILIZED
    rate = max(UP_FACTOR * bounds.current, UP_MINIMUM)
    most, limit = (rate, UP_LIMIT) if bounds.most > rate else (bounds.most, TOO_MANY)
    if stable < bounds.least:
        replicas, limit = bounds.least, TOO_FEW
    elif stable > most:
        replicas = most
    else:
        replicas, limit = stable, WITHIN
    return Normalized(replicas, able, replicas != stable, limit)


def rules_of(behavior: HorizontalPodAutoscalerBehavior) -> tuple[HPAScalingRules, HPAScalingRules]:
    """The rules up and down; what is not given is as the server would have defaulted it."""
    up, down = _default_rules()
    return behavior.scale_up or up, behavior.scale_down or down


@cache
def _default_rules() -> tuple[HPAScalingRules, HPAScalingRules]:
    """Return the rules where an autoscaler gives none, up and down."""
    from controlplane.api.autoscaling import HPAScalingPolicy, HPAScalingRules

    double = HPAScalingPolicy(15, "Percent", 100)
    up = HPAScalingRules((HPAScalingPolicy(15, "Pods", 4), double), "Max", 0)
    return up, HPAScalingRules((double,), "Max", None)


def normalize_with_rules(
    memory: Memory, behavior: HorizontalPodAutoscalerBehavior, bounds: Bounds, now: int
) -> Normalized:
    """With rules: stabilized either way, then limited by the rates of the policies."""
    up, down = rules_of(behavior)
    stable, stabilized = _stabilize(memory, up, down, bounds, now)
    able = READY if stable == bounds.desired else stabilized
    replicas, limit = _limit(memory, up, down, bounds._replace(desired=stable), now)
    return Normalized(replicas, able, replicas != stable, limit)


def _stabilize(
    memory: Memory, up: HPAScalingRules, down: HPAScalingRules, bounds: Bounds, now: int
) -> tuple[int, tuple[str, str]]:
    window = down.stabilization_window_seconds
    window = STABILIZATION_SECONDS if window is None else window
    up_cutoff = now - (up.stabilization_window_seconds or 0) * SECOND
    down_cutoff = now - window * SECOND
    entries = memory.recommendations
    low = min([bounds.desired, *(each.value for each in entries if each.at > up_cutoff)])
    high = max([bounds.desired, *(each.value for each in entries if each.at > down_cutoff)])
    stable = min(max(bounds.current, low), high)
    old = _last(entries, min(up_cutoff, down_cutoff))
    _remember(entries, Stamped(bounds.desired, now), old)
    return stable, UP_STABILIZED if bounds.desired >= bounds.current else DOWN_STABILIZED


def _limit(
    memory: Memory, up: HPAScalingRules, down: HPAScalingRules, bounds: Bounds, now: int
) -> tuple[int, tuple[str, str]]:
    if bounds.desired > bounds.current:
        rate = max(_up_limit(memory, up, bounds.current, now), bounds.current)
        most, limit = (rate, UP_LIMIT) if bounds.most > rate else (bounds.most, TOO_MANY)
        if bounds.desired > most:
            return most, limit
    elif bounds.desired < bounds.current:
        rate = min(_down_limit(memory, down, bounds.current, now), bounds.current)
        least, limit = (rate, DOWN_LIMIT) if bounds.least < rate else (bounds.least, TOO_FEW)
        if bounds.desired < least:
            return least, limit
    return bounds.desired, WITHIN


def _at_start(memory: Memory, policy: HPAScalingPolicy, current: int, now: int) -> int:
    """Return the number of replicas at the start of the policy's period."""
    cutoff = now - policy.period_seconds * SECOND
    added = sum(each.value for each in memory.ups if each.at > cutoff)
    removed = sum(each.value for each in memory.downs if each.at > cutoff)
    return current - added + removed


def _up_limit(memory: Memory, rules: HPAScalingRules, current: int, now: int) -> int:
    if rules.select_policy == DISABLED:
        return current
    limits = []
    for policy in rules.policies:
        start = _at_start(memory, policy, current, now)
        if policy.type == "Pods":
            limits.append(start + policy.value)
        else:
            limits.append(ceil(start * (1 + policy.value / 100)))
    if rules.select_policy == MIN_CHANGE:
        return min(limits, default=MAX_INT32)
    return max(limits, default=-MAX_INT32)


def _down_limit(memory: Memory, rules: HPAScalingRules, current: int, now: int) -> int:
    if rules.select_policy == DISABLED:
        return current
    limits = []
    for policy in rules.policies:
        start = _at_start(memory, policy, current, now)
        if policy.type == "Pods":
            limits.append(start - policy.value)
        else:
            limits.append(int(start * (1 - policy.value / 100)))
    if rules.select_policy == MIN_CHANGE:
        return max(limits, default=-MAX_INT32)
    return min(limits, default=MAX_INT32)


def store_event(
    memory: Memory,
    behavior: HorizontalPodAutoscalerBehavior | None,
    before: int,
    after: int,
    now: int,
) -> None:
    """Remember a change of size, in the place of one that no policy looks back to any more."""
    if behavior is None:
        return
    up, down = rules_of(behavior)
    rules, entries, change = (
        (up, memory.ups, after - before) if after > before else (down, memory.downs, before - after)
    )
    longest = max((policy.period_seconds for policy in rules.policies), default=0)
    _remember(entries, Stamped(change, now), _last(entries, now - longest * SECOND))
