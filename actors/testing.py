"""Helpers for tests of actors: is a scenario deterministic, and where is the first difference if not."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import trio

from actors.errors import ActorsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.log import Event
    from actors.world import Driver, World


class NotDeterministic(ActorsError):
    """Two runs of one scenario differed."""


def first_difference(one: World, other: World) -> str | None:
    """The first event in which the kept logs of two runs differ, in one line; None if they are equal."""
    for left, right in zip_longest(one.log, other.log):
        if left != right:
            return f"{_shown(left)}  |  {_shown(right)}"
    return None


def _shown(event: Event | None) -> str:
    if event is None:
        return "(the log ends)"
    return f"step {event.step} {event.actor}/{event.task} {event.event} {event.obj or ''} {event.data or ''}".rstrip()


def assert_deterministic(
    build: Callable[[], World], runs: int = 2, drivers: tuple[Driver, ...] = ("bare", "trio")
) -> str:
    """Run a scenario `runs` times on each driver; the one trace hash.

    Raises NotDeterministic at the first difference.
    """
    reference: World | None = None
    expected = ""
    for driver in drivers:
        for _ in range(runs):
            world = build()
            trace_hash = world.run(driver).trace_hash
            if reference is None:
                reference, expected = world, trace_hash
            elif trace_hash != expected:
                where = first_difference(reference, world) or "the kept logs are equal"
                raise NotDeterministic(
                    f"driver {driver}: trace {trace_hash}, expected {expected}: {where}"
                )
    return expected


class OneRunnable(trio.abc.Instrument):
    """Asserts, from Trio's side, that never more than one task of ours is runnable.

    An exception in an instrument would only remove it, so violations are collected in `violations`.
    Watches tasks whose name contains "/" (every actor task's does).
    """

    def __init__(self) -> None:
        self._outstanding = 0
        self.violations: list[str] = []

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """A task became runnable."""
        if "/" in task.name:
            self._outstanding += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        if "/" in task.name:
            if self._outstanding != 1:
                self.violations.append(f"{self._outstanding} tasks runnable before {task.name}")
            self._outstanding -= 1
