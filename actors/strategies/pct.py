"""PCT: random priorities with a few random points at which the leader falls back.

Burckhardt, Kothari, Musuvathi, Nagarakatti: A Randomized Scheduler with Probabilistic Guarantees of
Finding Bugs, ASPLOS 2010. What has a priority is a *chain*: a task, an actor (a whole slow process) or
a channel (a slow link). Of n chains and k choices a bug of depth d is met in a run with probability
1 / (n * k^(d-1)) at least.

Priorities are unfair: a task of low priority may wait for ever, while another task loops without virtual time
passing. So the task that has been ready longest is passed over `PATIENCE` times at most.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Literal

from actors.process import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option

By = Literal["task", "actor", "channel"]
FIRST_HORIZON = 100
"""The number of choices that a run is taken to have before one was seen."""


PATIENCE = 100
"""After this number of choices the task that has been ready longest goes on."""


class Pct:
    """Priorities per chain; `depth` - 1 times in a run the chain that leads gets the lowest one.

    `horizon` is the number of schedule choices expected; what a run had is taken for the next one.
    """

    footprint: Footprint | None = None
    exhausted = False

    def __init__(
        self, seed: int = 0, *, by: By = "task", depth: int = 3, horizon: int = FIRST_HORIZON
    ) -> None:
        self.name = "pct" if by == "task" else f"pct-{by}"
        self.seed: int | None = seed
        self.by = by
        self.depth = depth
        self.horizon = horizon
        self._count = 0
        self.begin()

    def begin(self) -> None:
        """Draw the points of change; chains get their priorities when they are first seen."""
        self.horizon = max(self.horizon, self._count)
        self._random = Random(f"{self.seed}:pct").random
        self._data: dict[str, Random] = {}
        self._count = 0
        self._priority: dict[str, float] = {}
        self._oldest: dict[str, str] = {}
        self._since: dict[str, int] = {}
        self._changes: dict[int, int] = {}
        for rank in range(1, self.depth):
            self._changes[1 + int(self._random() * max(1, self.horizon - 1))] = rank

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The option of the chain with the highest priority; uniformly, where no chain is concerned."""
        if kind not in {"task", "message"}:
            stream = self._data.get(kind)
            if stream is None:
                stream = self._data[kind] = Random(f"{self.seed}:{kind}")
            return int(stream.random() * len(options))
        self._count += 1
        oldest = options[0].label
        if oldest != self._oldest.get(kind):
            self._oldest[kind] = oldest
            self._since[kind] = self._count
        elif self._count - self._since[kind] > PATIENCE:
            del self._oldest[kind]
            return 0
        chains = [self._chain(option) for option in options]
        for chain in chains:
            if chain not in self._priority:
                self._priority[chain] = 1 + self._random()
        leader = max(chains, key=self._priority.__getitem__)
        rank = self._changes.get(self._count)
        if rank is not None:
            self._priority[leader] = -rank
            leader = max(chains, key=self._priority.__getitem__)
        return chains.index(leader)

    def _chain(self, option: Option) -> str:
        if not isinstance(option, Task):
            return option.label
        if self.by == "task":
            return option.label
        if self.by == "actor":
            return option.actor.name
        return f"{option.actor.name} at {option.point}"

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """Chain, depth and horizon."""
        return {"by": self.by, "depth": self.depth, "horizon": self.horizon}
