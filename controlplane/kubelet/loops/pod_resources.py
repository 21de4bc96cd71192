"""The server of the pod resources API, for a process beside the kubelet on its machine.

Task: `pod-resources`. Point: that of its mailbox. Writes of the managers' state files are announced to the process that
watches them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from controlplane.kubelet.cm.pod_resources import LIST, NodeResourcesReport, report

if TYPE_CHECKING:
    from actors import Context
    from controlplane.kubelet.loops.host import Host, Sockets
    from controlplane.kubelet.loops.pod_workers import PodWorkers

__all__ = ["ask", "run"]

TIMEOUT_NS = 10_000_000_000


async def run(ctx: Context, host: Host, workers: PodWorkers) -> None:
    """Answer requests until the process ends."""
    host.sockets.pod_resources = mailbox = ctx.mailbox("pod-resources")
    while True:
        message = await mailbox.recv(idle=True)
        containers = host.containers
        if containers is None:
            message.fail(LinkBroken("the kubelet has no managers of resources"))
        else:
            message.reply(report(containers, workers.active_pods()))


async def ask(ctx: Context, sockets: Sockets) -> NodeResourcesReport:
    """Ask the kubelet of this machine. Raises LinkBroken, Timeout."""
    if sockets.pod_resources is None:
        raise LinkBroken("the kubelet does not serve the pod resources API")
    answer: NodeResourcesReport = await ctx.ask(
        sockets.pod_resources, LIST, TIMEOUT_NS, point="pod-resources.list"
    )
    return answer
