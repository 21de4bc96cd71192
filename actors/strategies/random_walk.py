"""Random walk: every option equally likely, at every choice. Fair with probability 1."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option


class RandomWalk:
    """Draws uniformly. Scheduling has a stream of its own, so that one more latency draw reshuffles nothing else.

    Only `Random.random` keeps its sequence across Python versions, hence `int(u * n)`.
    """

    name = "random-walk"
    footprint: Footprint | None = None
    exhausted = False

    def __init__(self, seed: int = 0) -> None:
        self.seed: int | None = seed
        self._streams: dict[str, Callable[[], float]] = {}
        self.begin()

    def begin(self) -> None:
        """Start all streams again from the seed."""
        self._schedule = Random(f"{self.seed}:schedule").random
        self._streams = {"task": self._schedule, "message": self._schedule}

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """A uniformly drawn option."""
        stream = self._streams.get(kind)
        if stream is None:
            stream = self._streams[kind] = Random(f"{self.seed}:{kind}").random
        return int(stream() * len(options))

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """None."""
        return {}
