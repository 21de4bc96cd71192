"""Faults with a budget, at any step: each run draws in advance the few faults that may occur.

Each fault is two or three choices of kind "fault": which operation (0: none), before which step, and
for how long. So a search meets every step, the plain run meets none, and shrinking drops faults one by
one. `swarm` draws, once per run, which operations there are at all (Groce et al., ISSTA 2012).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.scenarios.authoring.faults import Operation
from controlplane.scenarios.engine.scenario import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.scenarios.engine.user import User

    InjectedFaults = Callable[[User], Sequence["InjectedFault"]]

NEMESIS = "nemesis"
HORIZON = 600
"""The number of steps from which the step of a fault is drawn."""
LASTS_S = (1, 5, 40, 200)
"""Virtual seconds until the fault is repaired."""


@frozen
class InjectedFault:
    """One thing that may go wrong, and what sets it right again, if anything has to."""

    does: Operation
    undoes: Operation | None = None


def refused(one: str, other: str, code: int, count: int = 1) -> Operation:
    """The next requests from one process to another are answered with an error of the API, and never arrive."""

    def does(user: User) -> None:
        from controlplane.api.request import Response
        from controlplane.apiserver.schema import status

        errors = {
            409: status.ApiError(409, "Conflict", "the object has been modified", {}),
            429: status.too_many_requests("the server has received too many requests", 1),
            500: status.internal_error("the store is unavailable"),
        }
        error = errors[code]
        answer = Response(error.code, error.tree)
        user.ctx.faults.intercept(one, other, answer, count=count, label=str(code))

    return Operation(f"refuse {code}", does)


def compacted() -> Operation:
    """Compact the store: a client whose revision is too old has to list again."""

    def does(user: User) -> None:
        store = user.cluster.store
        store.compact(store.revision)

    return Operation("compact", does)


def of_components(user: User) -> list[InjectedFault]:
    """The faults for the processes of this cluster: crash, partition, slow, refused and lost answers."""
    from controlplane.scenarios.authoring.faults import (
        break_link,
        crash,
        cut,
        delay,
        heal,
        lose,
        restart,
    )

    cluster = user.cluster
    found: list[InjectedFault] = []
    servers = cluster.apiservers
    for name in cluster.components():
        found.append(InjectedFault(crash(name), restart(name)))
        for server in servers:
            if name == server:
                continue
            found += [
                InjectedFault(cut(name, server), heal(name, server)),
                InjectedFault(delay(name, server, 0.3), heal(name, server)),
                InjectedFault(break_link(name, server)),
                InjectedFault(lose(server, name)),
                InjectedFault(lose(name, server)),
                *(InjectedFault(refused(name, server, code)) for code in (409, 429, 500)),
            ]
    return found


def nemesis(
    budget: int,
    faults: InjectedFaults = of_components,
    *,
    horizon: int = HORIZON,
    lasts_s: Sequence[float] = LASTS_S,
    swarm: bool = False,
) -> Fault:
    """A fault that occurs at most `budget` times, each at a step that is a choice."""

    async def main(user: User) -> None:
        ctx = user.ctx
        possible = list(faults(user))
        if swarm:
            possible = [each for each in possible if not ctx.choose("fault", 2, "is left out")]
        for _ in range(budget):
            which = ctx.choose("fault", len(possible) + 1, "which")
            if not which:
                continue
            fault = possible[which - 1]
            step = 1 + ctx.choose("fault", horizon, "before which step")
            lasts = lasts_s[ctx.choose("fault", len(lasts_s), "how long")] if fault.undoes else 0
            ctx.faults.at_step(ctx.step + step, partial(_inject, user, fault, lasts))

    return Fault(NEMESIS, main)


def _inject(user: User, fault: InjectedFault, for_s: float) -> None:
    """Do it, unless it is done already, and note when it ends."""
    if not _can(user, fault.does):
        return
    fault.does.does(user)
    undoes = fault.undoes
    if undoes is not None:
        at = user.ctx.now + round(for_s * SECOND)
        user.ctx.faults.at_time(at, lambda: undoes.does(user) if _can(user, undoes) else None)


def _can(user: User, operation: Operation) -> bool:
    """Return whether it makes sense now: only the dead are started again, and only the living killed."""
    if not operation.actor:
        return True
    alive = user.run.world.alive(operation.actor)
    return alive if operation.name == "crash" else not alive
