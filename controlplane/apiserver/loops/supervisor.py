"""Starts API servers again that were killed for want of memory, as the kubelet of their node does.

Point: `supervisor.restart` (a server that was killed is about to be started).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from actors import Context

SUPERVISOR: Final = "supervisor"


class Killed(NamedTuple):
    """A server was killed and is to be started again after the given time (ns)."""

    server: str
    restart_ns: int

    @property
    def label(self) -> str:
        """The name in the log."""
        return f"killed {self.server}"


async def run(ctx: Context) -> None:
    """Main task: wait for news of killed servers."""
    while True:
        message = await ctx.recv(idle=True)
        killed: Killed = message.payload
        ctx.spawn(_restart, killed, name=killed.server)


async def _restart(ctx: Context, killed: Killed) -> None:
    await ctx.sleep(killed.restart_ns, point="supervisor.restart")
    ctx.faults.restart(killed.server)
