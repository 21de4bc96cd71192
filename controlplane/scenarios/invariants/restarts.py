"""A world at rest stays as it is when its processes start anew.

A process that starts lists everything and looks at every object. What it then changes, its predecessor should have
changed before it came to rest: an event was lost, a key was not queued again, something was left over. Level-triggered
controllers promise this; upstream's resyncs hide it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.scenarios.engine.convergence import change, state_of
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import all_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.user import User

__all__ = ["A_RESTART_CHANGES_NOTHING", "restart_at_rest"]

AFTER: Final = "what a restart at rest changed"
"""Note: the change, or None."""


async def restart_at_rest(
    user: User, actors: Sequence[str], rest_s: float, laws: Sequence[Invariant] = ()
) -> None:
    """Restart processes of a world at rest, let it rest again, and note what changed.

    A world in which one of these laws of worlds at rest does not hold is left as it is: a restart would mend it.
    """
    if any(law.check(user.run) is not None for law in laws):
        return
    before = state_of(all_objects(user.run))
    for actor in actors:
        user.crash(actor)
        user.restart(actor)
    await user.sleep(rest_s)
    user.notes[AFTER] = change(before, state_of(all_objects(user.run)))


def _changed(run: Run) -> str | None:
    found: str | None = run.notes.get(AFTER)
    return None if found is None else f"after all processes were restarted: {found}"


A_RESTART_CHANGES_NOTHING = Invariant("a restart at rest changes nothing", _changed)
"""For workloads that end with `restart_at_rest`."""
