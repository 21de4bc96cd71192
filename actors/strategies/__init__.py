"""Strategies answer the choices of the world. One small file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.strategies.base import Option, Strategy
from actors.strategies.fifo import Fifo
from actors.strategies.random_walk import RandomWalk
from actors.strategies.replay import PrefixThenContinue, Replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.strategies.bounded import Cost
    from actors.strategies.pct import By

__all__ = ["Fifo", "Option", "PrefixThenContinue", "RandomWalk", "Replay", "Strategy", "named"]


def _pct(seed: int, by: By) -> Strategy:
    from actors.strategies.pct import Pct

    return Pct(seed, by=by)


def _pos(seed: int) -> Strategy:
    from actors.strategies.pos import Pos

    return Pos(seed)


def _bounded(cost: Cost) -> Strategy:
    from actors.strategies.bounded import Bounded

    return Bounded(cost)


def _dpor() -> Strategy:
    from actors.strategies.dpor import Dpor

    return Dpor()


def _coverage(seed: int) -> Strategy:
    from actors.strategies.coverage import Coverage

    return Coverage(seed)


def _portfolio(seed: int) -> Strategy:
    from actors.strategies.portfolio import Portfolio

    return Portfolio(seed)


def _branching(seed: int) -> Strategy:
    from actors.strategies.branching import Branching

    return Branching(seed)


def _calm(seed: int) -> Strategy:
    from actors.strategies.calm import Calm

    return Calm(seed)


_MAKERS: dict[str, Callable[[int], Strategy]] = {
    "fifo": lambda _seed: Fifo(),
    "random-walk": RandomWalk,
    "pct": lambda seed: _pct(seed, "task"),
    "pct-actor": lambda seed: _pct(seed, "actor"),
    "pct-channel": lambda seed: _pct(seed, "channel"),
    "pos": _pos,
    "coverage": _coverage,
    "portfolio": _portfolio,
    "delay-bounded": lambda _seed: _bounded("delay"),
    "preemption-bounded": lambda _seed: _bounded("preemption"),
    "dpor": lambda _seed: _dpor(),
    "calm": _calm,
    "branching": _branching,
}
NAMES = tuple(_MAKERS)
"""Names of strategies on the command line."""
LEARNING = ("coverage", "portfolio", "branching", "delay-bounded", "preemption-bounded", "dpor")
"""Those whose one object serves all runs of a search: what a run showed decides the next one."""


ENUMERATING = ("delay-bounded", "preemption-bounded", "dpor")
"""Those that go through all schedules, and so have to answer every choice themselves."""


def named(
    name: str,
    seed: int,
    *,
    fair_after: int | None = None,
    fair_within: int | None = None,
    over: Callable[[], bool] | None = None,
) -> Strategy:
    """The strategy that the command line calls `name`, with the fair tail that is asked for (`FairTail`).

    `fair_within` says nothing to a strategy that enumerates. Raises KeyError for an unknown name, ValueError for
    `fair_after` with a strategy that enumerates.
    """
    made = _MAKERS[name](seed)
    if name in ENUMERATING:
        if fair_after is not None:
            raise ValueError(f"strategy {name} enumerates: it cannot have a fair tail")
        fair_within = None
    if fair_after is None and fair_within is None and over is None:
        return made
    from actors.strategies.fair_tail import FairTail

    return FairTail(made, fair_after, within=fair_within, over=over)
