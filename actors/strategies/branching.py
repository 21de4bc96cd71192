"""A portfolio whose long runs are ended in several ways each, by forking the process amid them (`actors.branching`).

Runs of fewer than `SHORT` steps are not forked, as a fork costs some milliseconds. A longer run is forked once in each
of its `STRETCHES`: after the first step there that is new to the search, or at a drawn step.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from actors.branching import AVAILABLE, Branches
from actors.process import Task
from actors.strategies.pct import Pct
from actors.strategies.portfolio import Portfolio
from actors.strategies.random_walk import RandomWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.strategies.base import Option, Strategy

SHORT = 1_500
"""Runs of fewer steps are not forked."""
STRETCHES = ((0.3, 0.5), (0.5, 0.7), (0.7, 0.9))
"""The parts of a run in each of which it is forked once, as shares of the mean number of steps of a run."""
CHILDREN = 2
"""The number of child processes of each fork."""
ENDS: tuple[Callable[[int, int], Strategy], ...] = (
    lambda seed, _left: RandomWalk(seed),
    lambda seed, left: Pct(seed, by="actor", horizon=left),
    lambda seed, left: Pct(seed, by="task", depth=2, horizon=left),
    lambda seed, left: Pct(seed, by="channel", horizon=left),
    lambda seed, left: Pct(seed, by="actor", depth=2, horizon=left),
    lambda seed, left: Pct(seed, by="task", horizon=left),
)
"""The strategies of child processes, given a seed and the number of choices that are left; none reads footprints."""


class Branching(Portfolio):
    """A portfolio that forks. From run to run it learns the length of runs, and the pairs of steps in a row."""

    name = "branching"

    def __init__(self, seed: int = 0) -> None:
        """Begin as a plain portfolio, until `branch` is called."""
        super().__init__(seed)
        self._branches: Branches | None = None
        self._otherwise: Strategy | None = None
        """The strategy of a child process."""
        self._known: dict[tuple[str, str], None] = {}
        """Points of two steps in a row, of all runs so far."""
        self._last = ""
        self._new = False
        self._step = 0
        self._choices = 0
        self._mean_steps = 0
        self._mean_choices = 0
        self._run = 0
        self._path: tuple[int, ...] = ()
        self._stretches: list[tuple[int, int]] = []

    def branch(self) -> Branches | None:
        """From now on fork; return the forks, for the search to gather. None where the system cannot fork."""
        if AVAILABLE:
            self._branches = Branches()
        return self._branches

    def begin(self) -> None:
        """Begin the next member's run, and draw the steps at which it is forked."""
        super().begin()
        self._run += 1
        self._last = ""
        self._choices = 0
        self._stretches = []
        steps = self._mean_steps
        if self._branches is None or steps < SHORT:
            return
        draw = Random(f"{self.seed}:{self._run}:branching").random
        for begin, end in STRETCHES:
            latest = begin + draw() * (end - begin)
            self._stretches.append((int(begin * steps), int(latest * steps)))

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """As the portfolio's member chooses, in a child process as its own strategy does."""
        self._step = step
        self._choices += 1
        if self._stretches and step >= self._stretches[0][0]:
            self._fork_if_due(step)
        if self._otherwise is None:
            index = super().choose(kind, options, step)
        else:
            index = self._otherwise.choose(kind, options, step)
        chosen = options[index]
        if isinstance(chosen, Task):
            pair = self._last, f"{chosen.actor.name}/{chosen.point}"
            self._new = pair not in self._known
            self._known[pair] = None
            self._last = pair[1]
        return index

    def _fork_if_due(self, step: int) -> None:
        """Fork, if the last step showed something new or the drawn step has come."""
        branches = self._branches
        assert branches is not None
        if not (self._new or step >= self._stretches[0][1]):
            return
        del self._stretches[0]
        for child in range(CHILDREN):
            if not branches.wanted:
                return
            if branches.fork(step):
                self._path = (*self._path, child)
                self._end_otherwise()
                return

    def _end_otherwise(self) -> None:
        """In a child process: let another strategy choose from here on."""
        name = ".".join(map(str, self._path))
        draw = Random(f"{self.seed}:{self._run}:{name}:branch").random
        make = ENDS[int(draw() * len(ENDS))]
        left = max(1, self._mean_choices - self._choices)
        self._otherwise = make(int(draw() * (1 << 48)), left)

    def end(self) -> None:
        """Take the length of the run into account."""
        self._mean_steps += (self._step - self._mean_steps) // self._run
        self._mean_choices += (self._choices - self._mean_choices) // self._run
        super().end()
