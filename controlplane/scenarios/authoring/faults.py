"""Faults as values: operations, and the times at which they happen.

An `Operation` is one thing that goes wrong, or is set right again, at one moment; its caller (a user, a fault, a
strategy) leaves an event "fault" in the log. `sometimes` makes a fault of
operations: a chaos tool that does them at moments that are choices. A new operation is one function
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.scenarios.engine.scenario import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.scenarios.engine.user import User

CHAOS = "chaos"
"""The actor that does what may fail."""


@frozen
class Operation:
    """One thing that goes wrong. `name` is what the log calls it; `does` does it."""

    name: str
    does: Callable[[User], None]
    actor: str = ""
    """The process that the fault stops or starts."""


def crash(actor: str) -> Operation:
    """A process dies as by SIGKILL: tasks, memory, unsynced writes and connections are lost."""
    return Operation("crash", lambda user: user.crash(actor), actor)


def restart(actor: str) -> Operation:
    """A process that died begins again, with the disk that it left."""
    return Operation("restart", lambda user: user.restart(actor), actor)


def cut(one: str, other: str) -> Operation:
    """Two processes are cut off from each other: messages wait."""
    return Operation("cut", lambda user: user.cut(one, other))


def heal(one: str, other: str) -> Operation:
    """A cut or a delay ends: what waited goes on, in order."""
    return Operation("heal", lambda user: user.heal(one, other))


def delay(one: str, other: str, seconds: float) -> Operation:
    """Messages between two processes take longer from now on."""
    return Operation("delay", lambda user: user.delay(one, other, seconds))


def lose(one: str, other: str, count: int = 1) -> Operation:
    """The next messages and answers from one process to another never arrive; what they asked for may have happened."""
    return Operation("lose", lambda user: user.lose(one, other, count))


def break_link(one: str, other: str) -> Operation:
    """All connections between two processes are reset."""
    return Operation("break", lambda user: user.break_link(one, other))


OPERATIONS = {each.__name__: each for each in (crash, restart, cut, heal, delay, lose, break_link)}
"""By name."""


def sometimes(
    operation: Operation,
    then: Operation | None = None,
    *,
    times: int = 1,
    moments: int = 8,
    every_s: float = 1,
    lasts_s: tuple[float, ...] = (0, 1),
) -> Fault:
    """A fault that occurs a given number of times and is repaired each time.

    Each time it waits for one of `moments`, `every_s` virtual seconds apart, does `operation`, and
    after one of the durations `lasts_s` does `then`. Which ones are choices of kind "fault".
    """

    async def chaos(user: User) -> None:
        for _ in range(times):
            await user.sleep((1 + user.ctx.choose("fault", moments, "when")) * every_s)
            operation.does(user)
            if then is None:
                continue
            lasts = lasts_s[user.ctx.choose("fault", len(lasts_s), "how long")]
            if lasts:
                await user.sleep(lasts)
            then.does(user)

    return Fault(CHAOS, chaos)


def restarts(actor: str, times: int = 1, **when: object) -> Fault:
    """Crash and restart a process a given number of times; `when` as in `sometimes`."""
    return sometimes(crash(actor), restart(actor), times=times, **when)  # type: ignore[arg-type]


def restarts_amid(actor: str, times: int = 1, *, moments: int = 16, steps: int = 24) -> Fault:
    """Crash and restart a process a given number of times, in the middle of work that has just begun.

    Each time it waits for one of `moments` half seconds, and then for a number of the next `steps`.
    """

    async def chaos(user: User) -> None:
        ctx = user.ctx

        def fault() -> None:
            user.crash(actor)
            user.restart(actor)

        for _ in range(times):
            await user.sleep((1 + ctx.choose("fault", moments, "when")) * 0.5)
            ctx.faults.at_step(ctx.step + 1 + ctx.choose("fault", steps, "how soon"), fault)

    return Fault(CHAOS, chaos)
