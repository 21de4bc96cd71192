"""Decisions in several steps: other tasks may run between them.

What upstream does under one lock is one step. A decision that goes through several lock regions is a
generator that yields the name of a point before each further one; the caller that runs it lets other tasks run
first there. Run at once, it is a plain function.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Steps = Generator[str, None, R]
"""Yields names of points, or `LOCKED`; its value is the decision."""

LOCKED: Final = "scheduler.queue.lock"
"""Yielded while another task holds the queue's lock: wait until it may be free, then go on."""


def at_once(steps: Steps[R]) -> R:
    """Run all steps without a gap for other tasks."""
    while True:
        try:
            point = next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        assert point != LOCKED, "the queue's lock is held by a decision that was left half done"


def in_one_step(call: Callable[[], R]) -> Steps[R]:
    """A call as steps without a point."""
    return call()
    yield  # what makes it steps


class InSteps(Generic[P, R]):
    """A decision in steps: called, it runs at once; `steps` hands out the steps."""

    def __init__(self, steps: Callable[P, Steps[R]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """All steps at once."""
        return at_once(self.steps(*args, **kwargs))
