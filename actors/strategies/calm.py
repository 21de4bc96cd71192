"""The default schedule, under which only what users draw differs from seed to seed.

Tasks and messages go first in, first out and nothing fails by chance: what goes wrong in such a run was put there on
purpose, by a plan.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option

DRAWN = ("workload",)
"""The kinds of choices that are drawn: those of users."""


class Calm:
    """First in, first out; users draw with a seed. Seed 0 draws the default of everything."""

    name = "calm"
    footprint: Footprint | None = None
    exhausted = False

    def __init__(self, seed: int = 0, *, draws: int | None = None) -> None:
        """`draws` seeds what users draw, if that is not the seed itself."""
        self.seed: int | None = seed
        self._draws = seed if draws is None else draws
        self.begin()

    def begin(self) -> None:
        """Draw from the start again."""
        self._random = Random(self._draws)

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The default, except for what users draw."""
        if self._draws and kind in DRAWN:
            return self._random.randrange(len(options))
        return 0

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """The seed of what users draw."""
        return {"draws": self._draws}
