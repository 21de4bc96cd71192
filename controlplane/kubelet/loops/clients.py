"""Clients at the standard input of containers: what their sessions wrote, and with which code they ended.

The session itself is outside of the world; the API server passes on what it comes to. Point: `kubelet.attached`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.attached import Attached

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.kubelet.loops.host import Host


async def run(
    ctx: Context, host: Host, now: Callable[[], int], look_at: Callable[[str], None]
) -> None:
    """Take in what sessions come to; `look_at` is told of pods whose containers may have ended."""
    mailbox = host.attached
    assert mailbox is not None
    while True:
        told = (await mailbox.recv(idle=True)).payload
        if not isinstance(told, Attached):
            continue
        await ctx.region("kubelet.attached")
        sandbox = host.sandboxes.get(told.uid)
        container = None if sandbox is None else sandbox.containers.get(told.container)
        if (
            container is None
            or container.life is None
            or container.container_id != told.container_id
        ):
            continue
        container.life.tell(now(), told.text)
        if told.code is not None:
            container.leave(told.code, now())
            look_at(told.uid)
