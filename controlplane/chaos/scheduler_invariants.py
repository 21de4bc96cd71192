"""The scheduling queue's invariants I1 to I7, attached to a cluster.

I1, I2, I4, I5 and I7 are asked after every step of the scheduler. I3 and I6 compare with the pods
that exist, and the scheduler hears of those late, so they are asked once the run has settled.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controlplane.cluster import SCHEDULER
from controlplane.scheduler.queue.invariants import INVARIANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.cluster import Cluster
    from controlplane.scheduler.queue.scheduling_queue import PriorityQueue

AFTER_EVERY_STEP = ("I1", "I2", "I4", "I5", "I7")
ONCE_SETTLED = ("I3", "I6")
LEDGER = ("I1", "I2", "I3", "I7")
"""What a leak of the in-flight ledger breaks."""
ALL = ("I1", "I2", "I3", "I4", "I5", "I6", "I7")
_FINISHED = ("Succeeded", "Failed")


def attach(cluster: Cluster, names: Sequence[str] = ALL) -> None:
    """Ask these invariants of this cluster's scheduler."""
    every_step = [name for name in AFTER_EVERY_STEP if name in names]

    def ask(name: str) -> str | None:
        core = cluster.scheduler.core
        if core is None:
            return None
        live: tuple[str, ...] = ()
        if name in ONCE_SETTLED:
            live = tuple(_waiting_uids(cluster))
        return INVARIANTS[name](core.queue, live)

    seen: tuple[int, ...] = ()

    def ask_all() -> str | None:
        nonlocal seen
        core = cluster.scheduler.core
        now = () if core is None else _sizes(core.queue)
        if now == seen:  # most steps do not touch the queue
            return None
        seen = now
        for name in every_step:
            violation = ask(name)
            if violation is not None:
                return f"{name}: {violation}"
        return None

    cluster.world.invariant("scheduling queue", ask_all, after=SCHEDULER)
    for name in ONCE_SETTLED:
        if name not in names:
            continue
        cluster.world.invariant(f"scheduling queue {name}", partial(ask, name))


def _sizes(queue: PriorityQueue) -> tuple[int, ...]:
    """Changes with every move of a pod or an event."""
    active = queue.active_q
    return (
        queue.scheduling_cycle,
        len(active.heap),
        len(active.in_flight),
        len(active.ledger),
        len(queue.backoff_q.heap),
        len(queue.backoff_q.error_heap),
        len(queue.unschedulable),
    )


def _waiting_uids(cluster: Cluster) -> list[str]:
    """Uids of pods that exist and wait for a node."""
    return [
        obj.uid
        for obj in cluster.objects("/registry/pods/")
        if not (obj.tree.get("spec") or {}).get("nodeName")
        and (obj.tree.get("status") or {}).get("phase") not in _FINISHED
    ]
