"""Faults that a user of a scenario causes; each leaves an event in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.times import SECOND

if TYPE_CHECKING:
    from actors import Context
    from controlplane.cluster import Cluster
    from controlplane.scenarios.engine.run import Run


class UserFaults:
    """The part of a `User` that lets something fail."""

    __slots__ = ("ctx", "run")

    def __init__(self, ctx: Context, run: Run) -> None:
        self.ctx = ctx
        self.run = run

    @property
    def cluster(self) -> Cluster:
        """The cluster, for reading only; a change through this field would bypass the messages."""
        return self.run.cluster

    def crash(self, actor: str) -> None:
        """Kill a process as SIGKILL would."""
        self.ctx.faults.crash(actor)

    def restart(self, actor: str) -> None:
        """Start a crashed process again."""
        self.ctx.faults.restart(actor)

    def restart_scheduler(self, **features: bool) -> None:
        """Kill the scheduler and start it with these feature gates, the others as they were."""
        self.cluster.scheduler_features.update(features)
        self.ctx.faults.crash("scheduler")
        self.ctx.faults.restart("scheduler")

    def cut(self, one: str, other: str) -> None:
        """Cut two processes off from each other: messages wait until `heal`."""
        self.ctx.faults.cut(one, other)

    def heal(self, one: str, other: str) -> None:
        """End a cut or a delay."""
        self.ctx.faults.heal(one, other)

    def delay(self, one: str, other: str, seconds: float) -> None:
        """Delay messages between two processes by this number of virtual seconds from now on."""
        self.ctx.faults.delay(one, other, round(seconds * SECOND))

    def lose(self, one: str, other: str, count: int = 1) -> None:
        """Lose the next messages and answers from one process to another."""
        self.ctx.faults.lose(one, other, count)

    def break_link(self, one: str, other: str) -> None:
        """Reset all connections between two processes."""
        self.ctx.faults.break_link(one, other)
