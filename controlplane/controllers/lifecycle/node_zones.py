"""The rate of NoExecute taints: a rate-limited queue per zone, slowed down or stopped by disruption.

Upstream: pkg/controller/nodelifecycle (handleDisruption, ComputeZoneState) and
scheduler/rate_limited_queue.go. Rates are intervals in nanoseconds; bursts are 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controlplane.api.times import MILLISECOND, SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INTERVAL_NS = 10 * SECOND
"""A tenth of a node per second."""
SLOW_INTERVAL_NS = 100 * SECOND
LARGE_ZONE = 50
UNHEALTHY = 0.55
"""The part of a zone's nodes that have to be missing before it counts as disrupted."""
RETRY_NS = 50 * MILLISECOND
INITIAL = "Initial"
NORMAL = "Normal"
PARTIAL = "PartialDisruption"
FULL = "FullDisruption"


class Limiter:
    """A token bucket of one token. An interval of None never gives one."""

    __slots__ = ("_interval", "next_at")

    def __init__(self, interval_ns: int | None) -> None:
        self._interval = interval_ns
        self.next_at: int | None = None if interval_ns is None else 0

    def take(self, now: int) -> bool:
        """Take the token if there is one."""
        if self._interval is None or self.next_at is None or now < self.next_at:
            return False
        self.next_at = now + self._interval
        return True


class TaintQueue:
    """Nodes of one zone waiting for their NoExecute taint, earliest first.

    A node that got its taint stays known, so that it is not queued again before it is removed.
    """

    __slots__ = ("_due", "_known", "_seq", "limiter")

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self._due: dict[str, tuple[int, int]] = {}
        self._seq = 0
        self.limiter = Limiter(INTERVAL_NS)

    def add(self, name: str, now: int) -> bool:
        """Queue a node; False if it is known already."""
        if name in self._known:
            return False
        self._known[name] = None
        self._put(name, now)
        return True

    def _put(self, name: str, at: int) -> None:
        self._seq += 1
        self._due[name] = (at, self._seq)

    def remove(self, name: str) -> bool:
        """Forget a node; whether it was known."""
        self._due.pop(name, None)
        return self._known.pop(name, 0) is None

    def head(self) -> str | None:
        """The next node."""
        return min(self._due, key=self._due.__getitem__, default=None)

    def next_at(self) -> int | None:
        """Return the time at which the next node may be handled; None if none waits or the rate is zero."""
        head = self.head()
        if head is None or self.limiter.next_at is None:
            return None
        return max(self._due[head][0], self.limiter.next_at)

    def take(self, now: int) -> str | None:
        """The next node, if the rate allows one now and its time has come. Say `done` or `again` afterwards."""
        head = self.head()
        if head is None or not self.limiter.take(now) or now < self._due[head][0]:
            return None
        return head

    def done(self, name: str) -> None:
        """The node was handled."""
        self._due.pop(name, None)

    def again(self, name: str, now: int, wait_ns: int = 0) -> None:
        """The node could not be handled: it comes again after a while."""
        if name in self._due:
            self._put(name, now + wait_ns + 1)

    def swap(self, interval_ns: int | None, now: int) -> None:
        """Go on at another rate; a used token stays used."""
        made = Limiter(interval_ns)
        if not self.limiter.take(now):
            made.take(now)
        self.limiter = made


class Verdict(NamedTuple):
    """Actions of the monitor after a change of the zones' states."""

    untaint_all: bool = False
    restart_clocks: bool = False


def zone_state(ready: Sequence[bool], unhealthy: float = UNHEALTHY) -> str:
    """The state of a zone, from whether each of its nodes is ready."""
    missing = ready.count(False)
    if missing and missing == len(ready):
        return FULL
    if missing > 2 and missing / len(ready) >= unhealthy:
        return PARTIAL
    return NORMAL


def reduced_interval(nodes: int, large: int = LARGE_ZONE) -> int | None:
    """The time between two nodes of a disrupted zone; None: never, as a small zone may be wrong about all."""
    return SLOW_INTERVAL_NS if nodes > large else None


class Zones:
    """The state and the queue of each zone."""

    __slots__ = ("_states", "queues")

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self.queues: dict[str, TaintQueue] = {}

    @property
    def states(self) -> Mapping[str, str]:
        """The state of each zone."""
        return self._states

    def queue(self, zone: str) -> TaintQueue:
        """The zone's queue, made when a zone is first met."""
        if zone not in self._states:
            self._states[zone] = INITIAL
            self.queues[zone] = TaintQueue()
        return self.queues[zone]

    def update(self, ready: Mapping[str, Sequence[bool]], now: int) -> Verdict:
        """Take in whether the nodes of each zone are ready, and set the rates.

        When all zones are fully disrupted the fault is taken to be on this side: all taints are
        removed and none is set until some node is ready again.
        """
        states = {zone: zone_state(nodes) for zone, nodes in ready.items()}
        all_now = all(state == FULL for state in states.values())
        for zone in states:
            self.queue(zone)
        all_before = True
        for zone, state in list(self._states.items()):
            if zone not in states:
                del self._states[zone]
            elif state != FULL:
                all_before = False
                break
        if all_now and all_before:
            return Verdict()
        if all_now:
            for zone in self._states:
                self.queues[zone].swap(None, now)
                self._states[zone] = FULL
            return Verdict(untaint_all=True)
        for zone, state in self._states.items():
            changed = states.get(zone, NORMAL)
            if all_before or state != changed:
                self._set_rate(zone, len(ready.get(zone, ())), changed, now)
                self._states[zone] = changed
        return Verdict(restart_clocks=all_before)

    def _set_rate(self, zone: str, nodes: int, state: str, now: int) -> None:
        interval = reduced_interval(nodes) if state == PARTIAL else INTERVAL_NS
        self.queues[zone].swap(interval, now)
