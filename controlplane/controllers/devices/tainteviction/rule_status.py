"""The condition that tells what a DeviceTaintRule does. Upstream: maybeUpdateRuleStatus of device_taint_eviction.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND, parse_time
from controlplane.controllers.devices.tainteviction.pools import NO_EXECUTE
from controlplane.controllers.devices.tainteviction.state import effect_of

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.controllers.devices.tainteviction.state import DeviceTaints

__all__ = ["PERIOD_NS", "CONDITION", "condition_for", "existing", "wait_before"]

PERIOD_NS: Final = 10 * SECOND
"""The shortest time between two updates of a rule's status."""
CONDITION: Final = "EvictionInProgress"
_NO_MORE: Final = (
    "if the effect was NoExecute. This information will not be updated again."
    " Recreate the DeviceTaintRule to trigger an update."
)


def existing(rule: Object[Any]) -> Tree:
    """Return the condition that a rule has, empty for none."""
    for condition in (rule.tree.get("status") or {}).get("conditions") or ():
        if condition.get("type") == CONDITION:
            found: Tree = condition
            return found
    return {}


def wait_before(rule: Object[Any], now: int) -> int:
    """Return how long the status of a rule must not be updated yet, in nanoseconds."""
    condition = existing(rule)
    if not condition or condition.get("observedGeneration", 0) != _generation(rule):
        return 0
    since = now - parse_time(condition["lastTransitionTime"])
    return max(0, PERIOD_NS - since)


def _generation(rule: Object[Any]) -> int:
    return int(rule.metadata.get("generation") or 0)


def _count(number: int, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{number} {many}"


def condition_for(rule: Object[Any], taints: DeviceTaints) -> Tree:
    """Return the condition of a rule, without its transition time."""
    evicted = taints.evicted_by_rule.get(rule.uid, 0)
    effect, status = effect_of(rule), "False"
    if effect == NO_EXECUTE:
        pods, namespaces = taints.pending(rule)
        message = ""
        if pods:
            status, reason = "True", "PodsPendingEviction"
            needs = _count(pods, "pod needs to be evicted", "pods need to be evicted")
            message = f"{needs} in {_count(namespaces, 'namespace', 'different namespaces')}."
        else:
            reason = "Completed" if evicted else "NotStarted"
    elif effect == "None":
        reason, message = "NoEffect", _simulated(rule, taints)
    else:
        reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
    if evicted:
        done = f"{_count(evicted, 'pod', 'pods')} evicted since starting the controller."
        message = f"{message} {done}".lstrip()
    return {
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": _generation(rule),
    }


def _simulated(rule: Object[Any], taints: DeviceTaints) -> str:
    tried = taints.would_evict(rule)
    pods, namespaces = tried.pending(rule)
    published, allocated = tried.selected(rule)
    return " ".join(
        (
            _count(published, "published device selected.", "published devices selected."),
            _count(allocated, "allocated device selected.", "allocated devices selected."),
            _count(pods, "pod would be evicted in", "pods would be evicted in"),
            _count(namespaces, "namespace", "different namespaces"),
            _NO_MORE,
        )
    )
