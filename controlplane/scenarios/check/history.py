"""The history of a run: every write to the objects that matter, with its time and its author."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.scenarios.engine.load import Overload

__all__ = ["Change", "History", "Kept", "Phase"]


@frozen
class Change:
    """One write: `new` is None for the end of an object, `old` for its creation; `by` is PROCESS/PART."""

    t_ns: int
    by: str
    resource: str
    key: str
    old: Any = field(default=None, repr=False)
    new: Any = field(default=None, repr=False)

    @property
    def actor(self) -> str:
        """The process that wrote."""
        return self.by.partition("/")[0]


@frozen
class Kept:
    """A pod that a drain cannot end: its workload, the budget that keeps it ("" for another reason), and why."""

    workload: str
    budget: str
    says: str


@frozen
class Phase:
    """A part of a run: from something that happens until the cluster is at rest, or until patience ends.

    `event` is what happened ("" in the beginning), `ended` whether the phase follows its end; `kinds` are the kinds
    of events that hold. `blocked` is what kept a node from being drained.
    """

    begin_ns: int
    end_ns: int
    event: str = ""
    kinds: tuple[str, ...] = ()
    ended: bool = False
    rested: bool = True
    blocked: tuple[Kept, ...] = ()
    down: tuple[str, ...] = ()
    """Nodes that are drained, tainted or lost in this phase."""


@frozen
class History:
    """The writes of a run in their order, its phases, and why pods were evicted, by their keys."""

    changes: Sequence[Change] = field(repr=False)
    phases: Sequence[Phase]
    reasons: dict[str, str] = field(factory=dict, repr=False)
    failures: Sequence[tuple[int, Overload]] = ()
    """Machines that failed by overload, with the times."""
