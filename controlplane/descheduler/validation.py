"""Errors of the arguments in a policy, each with the words of upstream.

Follows the `validation.go` of the plugins, and `pkg/descheduler/policyconfig.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from controlplane.api.labels import SelectorError
from controlplane.api.validation import aggregate
from controlplane.descheduler.args import selector_of
from controlplane.descheduler.profiles import BALANCE, DESCHEDULE

Args = dict[str, Any]
_RESTART_STATES: Final = ("CrashLoopBackOff", "Running")
_CONSTRAINTS: Final = ("DoNotSchedule", "ScheduleAnyway")
_CONDITION_FIELDS: Final = ("type", "status", "reason")
_NO_CRITERION: Final = (
    "at least one filtering criterion must be specified "
    "(maxPodLifeTimeSeconds, states, conditions, or exitCodes)"
)


class PolicyError(ValueError):
    """A policy that does not load; the text names the profile and the error."""


def check_profiles(profiles: list[dict[str, Any]]) -> None:
    """Raise PolicyError if arguments of a plugin are not valid; all errors are joined."""
    errors = []
    for profile in profiles:
        for config in profile.get("pluginConfig") or ():
            name = config.get("name", "")
            where = f"in profile {profile.get('name', '')}: "
            if name != "DefaultEvictor" and name not in DESCHEDULE and name not in BALANCE:
                errors.append(f"{where}plugin {name} in pluginConfig not registered")
                continue
            found = list(_CHECKS.get(name, _common)(config.get("args") or {}))
            if found:
                errors.append(where + aggregate(found))
    if errors:
        raise PolicyError(aggregate(errors))


def check_threshold(args: Args) -> str | None:
    """Return the error of a priority threshold that is given twice."""
    wanted = args.get("priorityThreshold") or {}
    if wanted.get("value") is not None and wanted.get("name"):
        return "priority threshold misconfigured, only one of priorityThreshold fields can be set"
    return None


def _namespaces(args: Args) -> Iterator[str]:
    given = args.get("namespaces") or {}
    if given.get("include") and given.get("exclude"):
        yield "only one of Include/Exclude namespaces can be set"


def _common(args: Args) -> Iterator[str]:
    yield from _namespaces(args)
    try:
        selector_of(args.get("labelSelector"))
    except SelectorError as error:
        yield f"failed to get label selectors from strategy's params: {error}"


def _pod_life_time(args: Args) -> Iterator[str]:
    yield from _common(args)
    kinds = args.get("ownerKinds") or {}
    if kinds.get("include") and kinds.get("exclude"):
        yield "only one of Include/Exclude ownerKinds can be set"
    for index, each in enumerate(args.get("conditions") or ()):
        timed = each.get("minTimeSinceLastTransitionSeconds") is not None
        if not timed and not any(each.get(field) for field in _CONDITION_FIELDS):
            yield (
                f"conditions[{index}]: at least one of type, status, reason, or "
                "minTimeSinceLastTransitionSeconds must be set"
            )
    limited = args.get("maxPodLifeTimeSeconds") is not None
    if not limited and not any(args.get(each) for each in ("states", "conditions", "exitCodes")):
        yield _NO_CRITERION


def _restarts(args: Args) -> Iterator[str]:
    yield from _common(args)
    if (args.get("podRestartThreshold") or 0) < 1:
        yield "invalid PodsHavingTooManyRestarts threshold"
    if any(each not in _RESTART_STATES for each in args.get("states") or ()):
        yield f"states must be one of [{' '.join(_RESTART_STATES)}]"


def _node_affinity(args: Args) -> Iterator[str]:
    if not args.get("nodeAffinityType"):
        yield "nodeAffinityType needs to be set"
    yield from _common(args)


def _node_taints(args: Args) -> Iterator[str]:
    yield from _common(args)
    if args.get("includedTaints") and args.get("excludedTaints"):
        yield "either includedTaints or excludedTaints can be set, but not both"


def _spread(args: Args) -> Iterator[str]:
    yield from _common(args)
    known = " ".join(f"{each}:{{}}" for each in _CONSTRAINTS)
    for each in args.get("constraints") or ():
        if each not in _CONSTRAINTS:
            yield f"constraint {each} is not one of map[{known}]"


def _thresholds(thresholds: Any) -> str | None:
    if not thresholds:
        return "no resource threshold is configured"
    for name, percent in thresholds.items():
        if not 0 <= percent <= 100:
            return f"{name} threshold not in [0, 100] range"
    return None


def _evictable(args: Args) -> Iterator[str]:
    if (args.get("evictableNamespaces") or {}).get("include"):
        yield "only Exclude namespaces can be set, inclusion is not supported"


def _high(args: Args) -> Iterator[str]:
    yield from _evictable(args)
    if error := _thresholds(args.get("thresholds")):
        yield error
    for mode in args.get("evictionModes") or ():
        if mode != "OnlyThresholdingResources":
            yield f"invalid eviction mode {mode}"


def _low(args: Args) -> Iterator[str]:
    yield from _evictable(args)
    low, high = args.get("thresholds") or {}, args.get("targetThresholds") or {}
    if error := _thresholds(low):
        yield f"thresholds config is not valid: {error}"
    elif error := _thresholds(high):
        yield f"targetThresholds config is not valid: {error}"
    elif low.keys() != high.keys():
        yield "thresholds and targetThresholds configured different resources"
    elif not args.get("useDeviationThresholds"):
        for name, percent in low.items():
            if percent > high[name]:
                yield f"thresholds' {name} percentage is greater than targetThresholds'"
                return


def _default_evictor(args: Args) -> Iterator[str]:
    if error := check_threshold(args):
        yield error


_CHECKS: Final[dict[str, Callable[[Args], Iterator[str]]]] = {
    "DefaultEvictor": _default_evictor,
    "HighNodeUtilization": _high,
    "LowNodeUtilization": _low,
    "PodLifeTime": _pod_life_time,
    "RemoveDuplicates": _namespaces,
    "RemovePodsHavingTooManyRestarts": _restarts,
    "RemovePodsViolatingNodeAffinity": _node_affinity,
    "RemovePodsViolatingNodeTaints": _node_taints,
    "RemovePodsViolatingTopologySpreadConstraint": _spread,
}
