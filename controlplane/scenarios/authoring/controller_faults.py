"""The three published patterns of controller failures, as faults (Sieve, OSDI 2022).

Each happens a given number of times, at moments that are choices of kind "fault"; a moment that never
comes is no harm. Points are named as a log names them: requests are `create pods`, deliveries `watch pods`, and the
workers of a controller stand at `NAME.sync` before they reconcile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.authoring.faults import CHAOS
from controlplane.scenarios.engine.scenario import Fault
from controlplane.scenarios.engine.user import AtPoint

if TYPE_CHECKING:
    from controlplane.scenarios.engine.user import User

WRITES = "create *|update *|patch *|delete *"
DELIVERIES = "watch *"
RECONCILES = "*.sync"
LASTS_S = (1, 5, 40)
"""For how many virtual seconds a controller does not look."""


def intermediate_state(actor: str, *, times: int = 1, moments: int = 8) -> Fault:
    """A controller dies right after one of its writes, and begins again: what else it meant to write is open."""

    async def chaos(user: User) -> None:
        for _ in range(times):
            nth = 1 + user.ctx.choose("fault", moments, "after which write")
            async with AtPoint(user.ctx, actor, WRITES, nth, idle=True):
                user.crash(actor)
            user.restart(actor)

    return Fault(CHAOS, chaos)


def stale_state(actor: str, *, times: int = 1, moments: int = 8) -> Fault:
    """A controller that has seen a state loses its connections, and may find a server whose caches are older.

    It needs a world with several API servers, of which some lag.
    """

    async def chaos(user: User) -> None:
        for _ in range(times):
            nth = 1 + user.ctx.choose("fault", moments, "after which delivery")
            async with AtPoint(user.ctx, actor, DELIVERIES, nth, idle=True):
                for server in user.cluster.apiservers:
                    user.break_link(actor, server)

    return Fault(CHAOS, chaos)


def unobserved_state(
    actor: str, *, times: int = 1, moments: int = 8, points: str = RECONCILES
) -> Fault:
    """A controller is held before it looks, while things change and change again: what was in between it never sees."""

    async def chaos(user: User) -> None:
        for _ in range(times):
            nth = 1 + user.ctx.choose("fault", moments, "before which look")
            lasts = LASTS_S[user.ctx.choose("fault", len(LASTS_S), "how long")]
            async with AtPoint(user.ctx, actor, points, nth, idle=True):
                await user.sleep(lasts)

    return Fault(CHAOS, chaos)
