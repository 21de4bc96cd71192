"""Taint eviction: the pods that leave a node with NoExecute taints, and the times. Upstream:
pkg/controller/tainteviction.

Work is keyed by namespace and name only, as upstream: a pod created again under the name, and seen
as one update on the same node, keeps the dead pod's timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controlplane.api.taints import NO_EXECUTE, first_tolerating
from controlplane.api.times import MILLISECOND, SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controlplane.api.constraints import Taint, Toleration

RETRIES = 5
RETRY_NS = 10 * MILLISECOND
REASON = "DeletionByTaintManager"
MESSAGE = "Taint manager: deleting due to NoExecute taint"


def no_execute(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that drive pods away."""
    return tuple(taint for taint in taints if taint.effect == NO_EXECUTE)


def matching(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> list[Toleration] | None:
    """The first toleration that covers each taint; None when one is not tolerated."""
    used = []
    for taint in taints:
        found = first_tolerating(tolerations, taint)
        if found is None:
            return None
        used.append(found)
    return used


def shortest(used: Iterable[Toleration]) -> int | None:
    """Return the time for which tolerations hold together, in nanoseconds; None: for ever."""
    limits = [each.toleration_seconds for each in used if each.toleration_seconds is not None]
    return max(0, min(limits)) * SECOND if limits else None


class Timer(NamedTuple):
    """A deletion that is due at `fires_at`, decided at `since`."""

    since: int
    fires_at: int


class Evictions:
    """The deletions that are scheduled, by pod key. A key is kept without a timer while its deletion is under way."""

    __slots__ = ("_timers",)

    def __init__(self) -> None:
        self._timers: dict[str, Timer | None] = {}

    def cancel(self, key: str) -> bool:
        """Give a scheduled deletion up; whether there was one that had not begun."""
        return self._timers.pop(key, None) is not None

    def schedule(self, key: str, wait_ns: int, now: int) -> bool:
        """Let the pod be deleted after a while; whether it is to be deleted at once.

        What is scheduled already, or was begun, is left alone.
        """
        if key in self._timers:
            return False
        self._timers[key] = Timer(now, now + wait_ns) if wait_ns > 0 else None
        return wait_ns <= 0

    @property
    def timers(self) -> Mapping[str, Timer | None]:
        """All of them, by pod key."""
        return self._timers

    def timer(self, key: str) -> Timer | None:
        """The timer of a pod, None if there is none or its deletion was begun."""
        return self._timers.get(key)

    def finished(self, key: str) -> None:
        """The deletion is over, whether or not it succeeded: the pod may be scheduled anew."""
        self._timers.pop(key, None)

    def next_due(self) -> int | None:
        """Return the time of the first timer."""
        return min((timer.fires_at for timer in self._timers.values() if timer), default=None)

    def fire(self, now: int) -> list[str]:
        """The pods whose time has come; their deletions have begun."""
        due = [(timer.fires_at, key) for key, timer in self._timers.items() if timer]
        due = sorted(((at, key) for at, key in due if at <= now), key=lambda found: found[0])
        for _, key in due:
            self._timers[key] = None
        return [key for _, key in due]


class Outcome(NamedTuple):
    """The result for a pod on a tainted node: a cancelled deletion, and a deletion to begin now."""

    cancelled: bool = False
    delete_now: bool = False


def look_at(
    evictions: Evictions,
    key: str,
    taints: Sequence[Taint],
    tolerations: Sequence[Toleration],
    now: int,
) -> Outcome:
    """Decide about one pod of a tainted node. A deletion scheduled earlier is not moved by another look."""
    used = matching(taints, tolerations)
    if used is None:
        cancelled = evictions.cancel(key)
        return Outcome(cancelled, evictions.schedule(key, 0, now))
    wait = shortest(used)
    if wait is None:
        return Outcome(evictions.cancel(key))
    scheduled = evictions.timer(key)
    if scheduled is not None and scheduled.since < now:
        return Outcome()
    cancelled = scheduled is not None and evictions.cancel(key)
    return Outcome(cancelled, evictions.schedule(key, wait, now))
