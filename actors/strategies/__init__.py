"""Strategies: who answers when the world asks for a choice. One small file each."""

from actors.strategies.base import Option, Strategy
from actors.strategies.fifo import Fifo
from actors.strategies.random_walk import RandomWalk
from actors.strategies.replay import PrefixThenContinue, Replay

__all__ = ["Fifo", "Option", "PrefixThenContinue", "RandomWalk", "Replay", "Strategy", "named"]


def named(name: str, seed: int) -> Strategy:
    """The strategy that the command line calls `name`. Raises KeyError for an unknown one."""
    if name == "fifo":
        return Fifo()
    if name == "random-walk":
        return RandomWalk(seed)
    raise KeyError(name)


NAMES = ("fifo", "random-walk")
