"""Invariants of the contexts that the scheduler's operations derive from its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.scheduling import SCHEDULER

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run


def _contexts_end(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    left = len(core.handle.context)
    if left:
        return f"{left} contexts of operations that have ended are still registered"
    return None


EVERY_CONTEXT_ENDS = Invariant(
    "a context ends with the operation that derived it", _contexts_end, (SCHEDULER,)
)
"""Asked between steps, when no preemption is being computed."""
