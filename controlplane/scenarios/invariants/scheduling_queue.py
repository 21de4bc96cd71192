"""The scheduling queue's invariants I1 to I7.

I1, I2, I4, I5 and I7 are asked after every step of the scheduler that touches the queue. I3 and I6
compare with the pods that exist, and the scheduler hears of those late, so they are asked once the
run has settled.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import the_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.scenarios.engine.run import Run
    from controlplane.scheduler.queue.invariants import Check

AFTER_EVERY_STEP = ("I1", "I2", "I4", "I5", "I7")
ONCE_SETTLED = ("I3", "I6")
LEDGER = ("I1", "I2", "I3", "I7")
"""The invariants that a leak of the in-flight ledger breaks."""
ALL = ("I1", "I2", "I3", "I4", "I5", "I6", "I7")
SCHEDULER = "scheduler"
_FINISHED = ("Succeeded", "Failed")


def queue_holds(names: Sequence[str] = ALL) -> tuple[Invariant, ...]:
    """These invariants of the scheduler's queue."""
    every_step = tuple(name for name in AFTER_EVERY_STEP if name in names)
    settled = [name for name in ONCE_SETTLED if name in names]
    found = [Invariant(f"scheduling queue {name}", partial(_ask, name)) for name in settled]
    if every_step:
        check = partial(_ask_each, every_step)
        found.insert(0, Invariant("scheduling queue", check, (SCHEDULER,), looks_at=the_queue))
    return tuple(found)


def _ask(name: str, run: Run) -> str | None:
    from controlplane.scheduler.queue.invariants import INVARIANTS

    core = run.cluster.scheduler.core
    if core is None:
        return None
    live = tuple(_waiting_uids(run)) if name in ONCE_SETTLED else ()
    return INVARIANTS[name](core.queue, live)


def _ask_each(names: tuple[str, ...], run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    queue = core.queue
    for name, check in _checks(names):
        violation = check(queue, ())
        if violation is not None:
            return f"{name}: {violation}"
    return None


@cache
def _checks(names: tuple[str, ...]) -> tuple[tuple[str, Check], ...]:
    """The functions of these names: this is asked after very many steps."""
    from controlplane.scheduler.queue.invariants import INVARIANTS

    return tuple((name, INVARIANTS[name]) for name in names)


def _waiting_uids(run: Run) -> list[str]:
    """Uids of pods that exist and wait for a node."""
    return [
        obj.uid
        for obj in run.objects("/registry/pods/")
        if not (obj.tree.get("spec") or {}).get("nodeName")
        and (obj.tree.get("status") or {}).get("phase") not in _FINISHED
    ]
