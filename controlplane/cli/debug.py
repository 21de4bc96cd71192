"""For defects: `controlplane --debug` prints tracebacks as they are, `replay --break` opens the debugger at a step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrs import define

if TYPE_CHECKING:
    from controlplane.scenarios.engine.execution import Execution

ON = False
"""Set once, when the command line is read."""


@define
class Break:
    """A step before which the debugger opens; `left` once the user has ended the run there."""

    step: int
    left: bool = False


def before_step(run: Execution, step: int) -> Break:
    """Open pdb before a step of a run that has not begun: its commands see run, world, cluster and step."""
    found = Break(step)
    run.world.faults.at_step(step, partial(_debug, run, found))
    return found


def _debug(run: Execution, at: Break) -> None:
    from pdb import Pdb

    class Debugger(Pdb):
        def set_quit(self) -> None:
            at.left = True
            super().set_quit()

    world, cluster = run.world, run.cluster
    found = {"run": run, "world": world, "cluster": cluster, "step": at.step}
    debugger = Debugger(nosigint=True)
    debugger.run("pass  # before this step", {}, found)
    if at.left:
        world.interrupt(f"left in the debugger before step {at.step}")
