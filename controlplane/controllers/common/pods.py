"""Questions of controllers about pods. Upstream: pkg/api/v1/pod/util.go, pkg/controller/controller_utils.go."""

from __future__ import annotations

import re
from functools import cmp_to_key
from math import frexp
from sys import intern
from typing import TYPE_CHECKING, Any

from controlplane.api.times import SECOND
from controlplane.api.validation import parse_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controlplane.api.pod import Pod
    from controlplane.api.pod_status import PodCondition
    from controlplane.api.times import Time

MAX_NAME = 253
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_COST = re.compile("0|-[0-9]+|[1-9][0-9]*")
_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


def condition(pod: Pod, kind: str) -> PodCondition | None:
    """The pod's condition of that type."""
    for found in pod.status.conditions:
        if found.type == kind:
            return found
    return None


def generate_name(owner: str) -> str:
    """The generateName of what is created for an owner: its name and a dash, unless that is too long for a name."""
    prefix = f"{owner}-"
    return intern(prefix if len(prefix) <= MAX_NAME else owner)  # each of its pods has it


def is_active(pod: Pod) -> bool:
    """Neither finished nor being deleted."""
    return (
        pod.status.phase not in {"Succeeded", "Failed"} and pod.metadata.deletion_timestamp is None
    )


def is_terminating(pod: Pod) -> bool:
    """Being deleted and not finished yet."""
    return pod.metadata.deletion_timestamp is not None and pod.status.phase not in {
        "Succeeded",
        "Failed",
    }


def is_ready(pod: Pod) -> bool:
    """Its Ready condition is True."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def available_later_ns(min_ready_seconds: int, before: Pod, pod: Pod) -> int | None:
    """Return the delay after which a pod that has just become ready counts as available; None for another one.

    A second more than asked for, so that clocks that differ do no harm. Upstream: the handlers of pod updates.
    """
    if min_ready_seconds and is_ready(pod) and not is_ready(before):
        return (min_ready_seconds + 1) * SECOND
    return None


def is_available(pod: Pod, min_ready_seconds: int, now: int) -> bool:
    """Ready, and for `min_ready_seconds` at least; `now` in nanoseconds since the epoch."""
    if not is_ready(pod):
        return False
    if min_ready_seconds == 0:
        return True
    at = available_at(pod, min_ready_seconds)
    return at is not None and at <= now


def available_at(pod: Pod, min_ready_seconds: int) -> int | None:
    """Return the time at which a ready pod becomes available, in nanoseconds since the epoch; None if its start is
    unknown.
    """
    since = _ready_since(pod)
    return since + min_ready_seconds * SECOND if since else None


def _log_rank(age_ns: int) -> int:
    return -1 if age_ns <= 0 else frexp(age_ns)[1] - 1


def _deletion_cost(pod: Pod) -> int:
    """The deletion cost; 0 where the text is no plain decimal int32 (a sign +, leading zeros)."""
    text = pod.annotations.get(DELETION_COST, "0")
    if not _COST.fullmatch(text):
        return 0
    cost = parse_int64(text) or 0
    return cost if -(2**31) <= cost < 2**31 else 0


def _restarts(pod: Pod) -> tuple[int, int]:
    """The most restarts of a regular container, and of a sidecar."""
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    status = pod.status
    return (
        max((each.restart_count for each in status.container_statuses), default=0),
        max(
            (
                each.restart_count
                for each in status.init_container_statuses
                if each.name in sidecars
            ),
            default=0,
        ),
    )


def _later_first(one: int | None, other: int | None, now: int, uids: tuple[str, str]) -> int:
    """Order two different times: an absent one is later, then by the logarithm of the age, then by uid."""
    if not one or not other:
        return -1 if not one else 1
    ranks = _log_rank(now - one), _log_rank(now - other)
    return _order(*(ranks if ranks[0] != ranks[1] else uids))


def _order(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _ready_since(pod: Pod) -> Time | None:
    ready = condition(pod, "Ready")
    return ready.last_transition_time if ready is not None else None


def compare_by_deletion_rank(
    one: Pod, other: Pod, related_on_node: Mapping[str, int], now: int
) -> int:
    """Negative if `one` is to be deleted before `other`, zero where nothing decides."""

    def rank(pod: Pod) -> tuple[int, ...]:
        return (
            1 if pod.spec.node_name else 0,
            _PHASE_RANK.get(pod.status.phase, 0),
            1 if is_ready(pod) else 0,
            _deletion_cost(pod),
            -related_on_node.get(pod.spec.node_name, 0),
        )

    if found := _order(rank(one), rank(other)):
        return found
    uids = one.uid, other.uid
    if is_ready(one):
        since = _ready_since(one), _ready_since(other)
        if since[0] != since[1]:
            return _later_first(*since, now, uids)
    if found := _order(_restarts(other), _restarts(one)):
        return found
    created = one.metadata.creation_timestamp, other.metadata.creation_timestamp
    return _later_first(*created, now, uids) if created[0] != created[1] else 0


def by_deletion_rank(
    pods: Iterable[Pod], related_on_node: Mapping[str, int], now: int
) -> list[Pod]:
    """Pods in the order in which they are to be deleted.

    `related_on_node` counts, per node, active pods of all replica sets with the same owner. Ages
    are compared by their binary logarithm, so that among pods of about the same age the uid
    decides. What nothing decides keeps its order. Upstream: ActivePodsWithRanks.
    """

    def compare(one: Pod, other: Pod) -> int:
        return compare_by_deletion_rank(one, other, related_on_node, now)

    return sorted(pods, key=cmp_to_key(compare))


def by_activity(pods: Iterable[Pod]) -> list[Pod]:
    """Pods with the one first that does the least: what Jobs and DaemonSets delete first.

    As `by_deletion_rank`, but without deletion cost and related pods, and with times as they are.
    Upstream: ActivePods.
    """

    def rank(pod: Pod) -> tuple[Any, ...]:
        ready = is_ready(pod)
        regular, sidecars = _restarts(pod)
        return (
            bool(pod.spec.node_name),
            _PHASE_RANK.get(pod.status.phase, 0),
            ready,
            _newest_first(_ready_since(pod) if ready else 0),
            -regular,
            -sidecars,
            _newest_first(pod.metadata.creation_timestamp),
        )

    return sorted(pods, key=rank)


def _newest_first(at: int | None) -> tuple[bool, int]:
    return (True, -at) if at else (False, 0)
