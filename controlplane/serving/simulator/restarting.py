"""The restart of the scheduler with another configuration.

The task stands for what restarts the simulator's scheduler, and is no component of Kubernetes. What it is told comes
from outside as input, so a replay restarts the scheduler in the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.scheduler.config import user_plugins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from actors.inlet import ExternalMessage
    from controlplane.scheduler.config.model import SchedulerConfig
    from controlplane.scheduler.plugins.registry import Registry

__all__ = ["RESTARTER", "Restarted", "run"]

RESTARTER: Final = "scheduler-restarter"
"""The actor to which configurations are sent: a KubeSchedulerConfiguration as a tree, None for the initial one."""


@frozen
class Restarted:
    """The schedulers of a cluster, and what they read at each start.

    schedulers: their actors.
    registry: all plugins that a configuration may name.
    configuration: the configuration in place of that of the session's beginning, if there is one.
    """

    schedulers: Sequence[str]
    registry: Registry
    configuration: list[SchedulerConfig]


async def run(ctx: Context, restarted: Restarted) -> None:
    """Main task: end each scheduler and start it again with the configuration that comes."""
    while True:
        message = await ctx.recv(idle=True)
        external: ExternalMessage = message.payload
        tree: dict[str, Any] | None = external.value
        restarted.configuration[:] = (
            []
            if tree is None
            else [user_plugins.checked_config(tree, restarted.registry, "schedulerConfig")]
        )
        for name in restarted.schedulers:
            ctx.faults.crash(name)
            ctx.faults.restart(name)
        external.reply(True)
