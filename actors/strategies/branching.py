"""A portfolio whose long runs are ended in several ways each, by forking amid them (`actors.branching`).

Short runs are not forked: a fork costs some milliseconds. Where to fork is drawn from the second part of what a run
had so far; in a stretch around it the first step that does what no earlier run of the search did is taken, if there is
one, since what is new is what is worth several tries.
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

    from actors.footprint import Footprint
    from actors.strategies.base import Option, Strategy

SHORT = 1_500
"""Runs of fewer steps are not forked."""
STRETCHES = ((0.3, 0.5), (0.5, 0.7), (0.7, 0.9))
"""The parts of a run in each of which it is forked once, as shares of the steps that runs have."""
CHILDREN = 2
"""How many other ends each fork is given."""
ENDS: tuple[Callable[[int, int], Strategy], ...] = (
    lambda seed, _left: RandomWalk(seed),
    lambda seed, left: Pct(seed, by="actor", horizon=left),
    lambda seed, left: Pct(seed, by="task", depth=2, horizon=left),
    lambda seed, left: Pct(seed, by="channel", horizon=left),
    lambda seed, left: Pct(seed, by="actor", depth=2, horizon=left),
    lambda seed, left: Pct(seed, by="task", horizon=left),
)
"""The strategies that end a run, given a seed and the number of choices that are left; none reads footprints."""


class Branching:
    """A portfolio that forks. It learns from run to run how long they are, and what they do."""

    name = "branching"
    exhausted = False

    def __init__(self, seed: int = 0) -> None:
        """Until `branch` is called nothing is forked: a portfolio."""
        self._trunk = Portfolio(seed)
        self._then: Strategy = self._trunk
        self._branches: Branches | None = None
        self._done: dict[tuple[str, str], None] = {}
        self._last = ""
        self._new = False
        self._step = 0
        self._choices = 0
        self._steps_of_a_run = 0
        self._choices_of_a_run = 0
        self._run = 0
        self._path: tuple[int, ...] = ()
        self._stretches: list[tuple[int, int]] = []

    def branch(self) -> Branches | None:
        """From now on fork; return the forks, for the search to gather. None where the system cannot fork."""
        if AVAILABLE:
            self._branches = Branches()
        return self._branches

    @property
    def seed(self) -> int | None:
        """The portfolio's."""
        return self._trunk.seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._trunk.seed = seed

    @property
    def footprint(self) -> Footprint | None:
        """The record of each step that the portfolio's member reads."""
        return self._trunk.footprint

    @footprint.setter
    def footprint(self, footprint: Footprint | None) -> None:
        self._trunk.footprint = footprint

    def begin(self) -> None:
        """The next member's turn; choose where it may be forked."""
        self._trunk.begin()
        self._then = self._trunk
        self._run += 1
        self._last = ""
        self._choices = 0
        self._path = ()
        self._stretches = []
        steps = self._steps_of_a_run
        if self._branches is None or steps < SHORT:
            return
        draw = Random(f"{self.seed}:{self._run}:branching").random
        for begin, end in STRETCHES:
            middle = begin + draw() * (end - begin)
            self._stretches.append((int(begin * steps), int(middle * steps)))

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """As the member says, in each child another one."""
        self._step = step
        self._choices += 1
        if self._stretches and step >= self._stretches[0][0]:
            self._at_stretch(step)
        index = self._then.choose(kind, options, step)
        chosen = options[index]
        if isinstance(chosen, Task):
            pair = self._last, f"{chosen.actor.name}/{chosen.point}"
            self._new = pair not in self._done
            self._done[pair] = None
            self._last = pair[1]
        return index

    def _at_stretch(self, step: int) -> None:
        """Fork, if this step does something new or the stretch is half over."""
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
        """In a child: let another strategy choose from here on."""
        name = ".".join(map(str, self._path))
        draw = Random(f"{self.seed}:{self._run}:{name}:branch").random
        make = ENDS[int(draw() * len(ENDS))]
        left = max(1, self._choices_of_a_run - self._choices)
        self._then = make(int(draw() * (1 << 48)), left)

    def end(self) -> None:
        """Remember how long the run was."""
        self._steps_of_a_run += (self._step - self._steps_of_a_run) // self._run
        self._choices_of_a_run += (self._choices - self._choices_of_a_run) // self._run
        self._trunk.end()

    def parameters(self) -> dict[str, int | str | float]:
        """The portfolio's."""
        return self._trunk.parameters()
