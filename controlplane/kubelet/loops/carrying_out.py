"""Carries the managers' operations out: where they stop, others may run, or the process may die.

Point: `kubelet.checkpoint` (memory has changed, the file is about to be written), besides those that the
operations name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from controlplane.decisions import Point, Write
from controlplane.kubelet.cm.assignments import assignments
from controlplane.kubelet.cm.container_manager import FILES
from controlplane.kubelet.cm.devicemanager.plugin import PluginFailed
from controlplane.kubelet.cm.devicemanager.pod_devices import FILE as DEVICES_FILE
from controlplane.kubelet.cm.pod_resources import WRITTEN
from controlplane.kubelet.effects import Kill, PluginCall

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.decisions import Content
    from controlplane.kubelet.effects import Steps
    from controlplane.kubelet.loops.host import Host

    T = TypeVar("T")

CHECKPOINT = "kubelet.checkpoint"
STATE_FILES = (*FILES, DEVICES_FILE)
"""The files that a process beside the kubelet watches."""


def save(ctx: Context, file: str, content: Content) -> None:
    """Write a file whole; it survives any crash from now on."""
    ctx.disk.write_later(file, lambda: content.text)
    ctx.disk.sync()


class Helper(Protocol):
    """Does what only the kubelet as a whole can do, in the name of the task that carries out."""

    async def kill(self, ctx: Context, pod: Pod) -> None:
        """Stop a pod that has to make room, and wait for it."""

    async def fetch_node(self, ctx: Context) -> None:
        """Read the node afresh."""

    async def call_plugin(self, ctx: Context, call: PluginCall) -> Any:
        """Call a device plugin. Raises PluginFailed."""


async def carry_out(ctx: Context, host: Host, steps: Steps[T], helper: Helper | None = None) -> T:
    """Carry an operation out. Until a point comes, or its end, its writes belong together (`host.writing`).

    For observers outside the run, a process that is killed amid them stays so until another begins.
    """
    writing = False
    answer: Any = None
    failure: PluginFailed | None = None
    try:
        while True:
            try:
                step = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                host.writing -= writing
                result: T = stop.value
                return result
            answer = failure = None
            if isinstance(step, Write):
                if not writing:
                    writing = True
                    host.writing += 1
                number = host.begun[step.file] = host.begun.get(step.file, 0) + 1
                await ctx.region(CHECKPOINT)
                # Upstream's state has a lock of its own around memory and file: what changed later is written later.
                if number < host.saved.get(step.file, 0):
                    continue
                host.saved[step.file] = number
                _note(ctx, host, step)
                save(ctx, step.file, step.content)
                if host.sockets.state_watch is not None and step.file in STATE_FILES:
                    ctx.send(host.sockets.state_watch, WRITTEN)
                continue
            if writing:
                writing = False
                host.writing -= 1
            if isinstance(step, Point):
                await ctx.region(step.name)
            elif isinstance(step, Kill):
                assert helper is not None
                await helper.kill(ctx, step.pod)
            elif isinstance(step, PluginCall):
                assert helper is not None
                try:
                    answer = await helper.call_plugin(ctx, step)
                except PluginFailed as error:
                    failure = error
            else:
                assert helper is not None
                await helper.fetch_node(ctx)
    except Exception:
        host.writing -= writing
        raise


def _note(ctx: Context, host: Host, step: Write) -> None:
    """Log the containers that got or lost CPUs and memory, where the whole log is kept."""
    if not ctx.noting or step.file not in FILES:
        return
    for each in assignments(ctx.disk.read(step.file), step.content.text):
        key = "" if host.key_of is None else host.key_of(each.uid)
        data = {"file": step.file, "container": each.container, "has": each.has, "had": each.had}
        ctx.note("kubelet.assigned", obj=f"Pod/{key}" if key else None, uid=each.uid, data=data)
