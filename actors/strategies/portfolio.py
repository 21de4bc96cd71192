"""A portfolio: strategies that take turns, since no single one wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.strategies.coverage import Coverage
from actors.strategies.pct import Pct
from actors.strategies.pos import Pos
from actors.strategies.random_walk import RandomWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option, Strategy

MEMBERS: tuple[Callable[[int], Strategy], ...] = (
    lambda seed: Pct(seed, by="actor"),
    RandomWalk,
    lambda seed: Pct(seed, by="task"),
    Pos,
    lambda seed: Pct(seed, by="task", depth=2),
    lambda seed: Pct(seed, by="channel"),
    lambda seed: Pct(seed, by="actor", depth=2),
    Coverage,
)


class Portfolio:
    """Run after run the next member, each with a seed of its own; members remember what they learned."""

    name = "portfolio"
    exhausted = False

    def __init__(self, seed: int = 0) -> None:
        self.seed: int | None = seed
        self._turn = -1
        self._members = [make(seed + number) for number, make in enumerate(MEMBERS)]
        self._member = self._members[0]

    @property
    def footprint(self) -> Footprint | None:
        """The record of each step that the current member reads."""
        return self._member.footprint

    @footprint.setter
    def footprint(self, footprint: Footprint | None) -> None:
        self._member.footprint = footprint

    def begin(self) -> None:
        """The next member's turn, with the next seed."""
        self._turn += 1
        self._member = self._members[self._turn % len(self._members)]
        if not isinstance(self._member, Coverage):
            assert self.seed is not None
            self._member.seed = self.seed + self._turn
        self._member.begin()

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """As the member whose turn it is says."""
        return self._member.choose(kind, options, step)

    def end(self) -> None:
        """The member's run is over."""
        self._member.end()

    def parameters(self) -> dict[str, int | str | float]:
        """The current member and its parameters."""
        return {"member": self._member.name, **self._member.parameters()}
