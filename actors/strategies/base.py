"""The interface of a strategy: three methods, after Shuttle's scheduler interface (shuttle-engine/src/scheduler)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.footprint import Footprint


class Option(Protocol):
    """One option of a choice. `label` names it the same way in every run: no addresses, no numbers that drift."""

    @property
    def label(self) -> str:
        """The name."""
        ...


class Strategy(Protocol):
    """Answers choices. A strategy object serves one run after another; `begin` makes it forget the run before."""

    name: str
    seed: int | None
    footprint: Footprint | None
    """The record of each step that the strategy reads; a fresh one for each run, made by `begin`."""
    exhausted: bool
    """The strategy has run its whole space; only searches that enumerate ever set it."""

    def begin(self) -> None:
        """A run starts."""

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The index of the option to take. `options` has at least two entries, in canonical order.

        `kind` is "task" (which ready task runs next), "message" (which link is read first), or the
        kind that the actor code named: "latency", "fault", ... For "task" the options are `Task`
        objects, which also tell their actor; a strategy must not change them.
        """
        ...

    def end(self) -> None:
        """The run is over."""

    def parameters(self) -> dict[str, int | str | float]:
        """Return the parameters besides name and seed; they go into the recording's header."""
        ...
