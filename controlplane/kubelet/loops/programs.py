"""The programs of pods that write to volumes: a task each, while a container of the pod runs.

A write goes to the driver that has the volume, through what the kubelet mounted: what is not published on the
node, or not attached to it any more, cannot be written to. Point: `pod.write`. How far a program has come
outlives the kubelet, as the program does; but it stands still while there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken, Timeout
from actors.log import DEBUG
from controlplane.api.csi import Write
from controlplane.api.times import SECOND
from controlplane.kubelet.pod.volume_writes import writing_of

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod.container_runtime import Sandbox
    from controlplane.kubelet.pod.volume_writes import Writing

ANSWER_NS = 10 * SECOND
POINT = "pod.write"


class Programs:
    """The programs of one kubelet's pods that write."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._running: dict[str, None] = {}

    def look_at(self, pod: Pod, sandbox: Sandbox) -> None:
        """A container of a pod may have been started."""
        if pod.uid in self._running or not sandbox.running():
            return
        plan = writing_of(pod)
        if plan is not None and not plan.over(self._shared.host.written.get(pod.uid, 0)):
            self._running[pod.uid] = None
            self._shared.ctx.spawn(self._write, pod, sandbox, plan, name="program")

    async def _write(self, ctx: Context, pod: Pod, sandbox: Sandbox, plan: Writing) -> None:
        host, node = self._shared.host, self._shared.node.name
        while sandbox.running() and not plan.over(number := host.written.get(pod.uid, 0)):
            mount = host.mounts.published.get((pod.uid, plan.volume(number)))
            if mount is not None:
                try:
                    done = await ctx.ask(
                        mount.driver, Write(mount.handle, number, node), ANSWER_NS, point=POINT
                    )
                except (Timeout, LinkBroken):
                    done = False
                if done:
                    host.written[pod.uid] = number + 1
                    data = {"volume": mount.volume, "number": number}
                    ctx.log("pod.written", level=DEBUG, obj=f"Pod/{pod.key}", data=data)
            await ctx.sleep(plan.pause_ns, idle=plan.count is None, point=POINT)
        self._running.pop(pod.uid, None)
