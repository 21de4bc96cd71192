"""First in, first out: always the default option. The plain run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option


class Fifo:
    """Takes option 0 every time."""

    name = "fifo"
    footprint: Footprint | None = None
    exhausted = False
    seed: int | None = None

    def begin(self) -> None:
        """Nothing to forget."""

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """Option 0."""
        return 0

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """None."""
        return {}
