"""The benchmark's own view of the pods, through an informer, and what it waits for.

Also its clock: intervals of background operations (churn, deletions at a rate) end when their length has passed on
the wall, or in the world. While pods are being scheduled virtual time stands still and the wall counts, as it does
upstream; while all tasks wait, virtual time advances without a real wait.
"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

from controlplane.api.tree import Tree
from controlplane.client.loops.clientset import PODS
from controlplane.client.loops.informer import Informer
from controlplane.perf.measuring import Collection

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Condition, Context
    from controlplane.api.object import Object
    from controlplane.client.deltas import Notification

SCHEDULED = "Scheduled"
ATTEMPTED = "Attempted"


def is_scheduled(obj: Object) -> bool:
    """Return whether the pod has a node."""
    return bool(obj.tree["spec"].get("nodeName"))


def is_attempted(obj: Object) -> bool:
    """Return whether the scheduler has said something about the pod."""
    status: Tree = obj.tree.get("status") or {}
    return is_scheduled(obj) or any(
        condition.get("type") == "PodScheduled" for condition in status.get("conditions") or ()
    )


class _Wait:
    """Wait until `count` pods of a namespace are in the wanted state."""

    def __init__(self, want: int, holds: Callable[[Object], bool], changed: Condition) -> None:
        self.want = want
        self.holds = holds
        self.changed = changed
        self.found: dict[str, None] = {}

    @property
    def is_over(self) -> bool:
        return len(self.found) >= self.want

    def look(self, obj: Object) -> None:
        if self.holds(obj):
            self.found[obj.uid] = None
            if self.is_over:
                self.changed.notify_all()


class Watching:
    """Pods as an informer shows them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._informer = Informer(ctx, PODS, immediate=True)
        self._informer.add_handler(self._handle, "benchmark")
        self._waits: dict[str, list[_Wait]] = {}
        self._alarms: list[tuple[float, int, Ticker]] = []
        self._alarm_no = 0
        self.collection: Collection | None = None

    async def start(self) -> None:
        """Start the informer and wait for it."""
        self._informer.start()
        await self._informer.wait_synced()

    def pods(self, namespace: str) -> list[Object]:
        """The pods of a namespace."""
        return [obj for obj in self._informer.store if obj.namespace == namespace]

    def _handle(self, notification: Notification) -> None:
        new, old = notification.new, notification.old
        collection = self.collection
        if new is not None:
            if collection is not None and collection.wants(new):
                if old is None:
                    collection.created(new)
                if is_scheduled(new) and (old is None or not is_scheduled(old)):
                    collection.bound(new)
            if self._waits:
                for wait in self._waits.get(new.namespace, ()):
                    wait.look(new)
        self.poll()

    async def until(
        self,
        namespace: str,
        want: int,
        stage: str,
        selects: Callable[[Object], bool] | None = None,
    ) -> None:
        """Wait until `want` pods (that are selected) of a namespace are scheduled, or attempted."""
        test = is_attempted if stage == ATTEMPTED else is_scheduled

        def holds(obj: Object) -> bool:
            return test(obj) and (selects is None or selects(obj))

        wait = _Wait(want, holds, self._ctx.condition())
        for obj in self.pods(namespace):
            wait.look(obj)
        waits = self._waits.setdefault(namespace, [])
        waits.append(wait)
        while not wait.is_over:
            point = f"{len(wait.found)} of {want} pods in {namespace} {stage.lower()}"
            await wait.changed.wait(point=point)
        waits.remove(wait)
        if not waits:
            del self._waits[namespace]

    # ------------------------------------------------------------------ intervals

    def poll(self) -> None:
        """End the intervals that are over on the wall. Called often."""
        alarms = self._alarms
        if alarms and alarms[0][0] <= time.perf_counter():
            _, number, ticker = heapq.heappop(alarms)
            ticker.ring(number)

    def ticker(self, ctx: Context, interval_ns: int) -> Ticker:
        """Ticks at an interval in nanoseconds, of the wall clock or of virtual time."""
        return Ticker(self, ctx, interval_ns)

    def alarm(self, at: float, ticker: Ticker) -> int:
        """Ring a ticker at a time of the wall clock; the number of this alarm."""
        self._alarm_no += 1
        heapq.heappush(self._alarms, (at, self._alarm_no, ticker))
        return self._alarm_no


class Ticker:
    """One task's intervals."""

    def __init__(self, watching: Watching, ctx: Context, interval_ns: int) -> None:
        self._watching = watching
        self._interval = interval_ns
        self._changed = ctx.condition()
        self._next = time.perf_counter()
        self._alarm = 0

    async def tick(self) -> None:
        """Wait for the next tick."""
        self._next = max(self._next + self._interval / 1e9, time.perf_counter())
        self._alarm = self._watching.alarm(self._next, self)
        rang = await self._changed.wait(self._interval, point="benchmark.tick")
        self._alarm = 0
        if not rang:
            self._next = time.perf_counter()

    def ring(self, alarm: int) -> None:
        """The time on the wall has come; for an alarm that is not waited for any more nothing happens."""
        if alarm == self._alarm:
            self._changed.notify_all()
