"""The kubelet's side of device plugins: a stream of devices from each, and calls.

Task: `device-plugin` holds the stream of one plugin. Points: `kubelet.device_manager.stream`, `kubelet.checkpoint`, and
one for each call. Upstream: pkg/kubelet/cm/devicemanager/plugin/v1beta1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors import LinkBroken
from actors.log import INFO, WARNING
from controlplane.api.times import SECOND
from controlplane.kubelet.cm.devicemanager.plugin import Listed, PluginFailed, Watch
from controlplane.kubelet.loops.carrying_out import carry_out
from controlplane.kubelet.loops.driver_calls import call_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actors import Context
    from controlplane.kubelet.cm.devicemanager.manager import DeviceManager
    from controlplane.kubelet.effects import PluginCall
    from controlplane.kubelet.loops.shared import Shared

__all__ = ["PluginDevices"]

LONGEST_DELAY_NS: Final = 16 * SECOND
CALL_TIMEOUT_NS: Final = 120 * SECOND
"""An emulated plugin that takes longer counts as failed; upstream sets no limit to Allocate."""
STREAM: Final = "kubelet.device_manager.stream"


class PluginDevices:
    """The plugins of one node: by resource, the actor that serves it."""

    def __init__(self, shared: Shared, actors: Mapping[str, str], manager: DeviceManager) -> None:
        self._shared = shared
        self._actors = actors
        self._manager = manager

    def start(
        self, ctx: Context, tell: Callable[[], None], sync: Callable[[Iterable[str]], None] | None
    ) -> None:
        """Follow the plugins; `tell` is called when the Node has to show other amounts.

        `sync` is called with the pods whose devices have another health, None for a kubelet that does not tell of it.
        """
        for resource, actor in self._actors.items():
            ctx.spawn(self._follow, resource, actor, tell, sync, name="device-plugin")

    async def _follow(
        self,
        ctx: Context,
        resource: str,
        actor: str,
        tell: Callable[[], None],
        sync: Callable[[Iterable[str]], None] | None,
    ) -> None:
        delay = SECOND
        while True:
            try:
                stream = ctx.open(actor, Watch(), "device-plugin")
                while True:
                    told: Listed = (await stream.recv(idle=True, point=STREAM)).payload
                    delay = SECOND
                    healthy = sum(each.healthy for each in told.devices)
                    self._log(resource, INFO, f"{healthy} of {len(told.devices)} devices healthy")
                    if sync is not None:
                        # Heard of at a later step: the list is taken in within this one.
                        sync(self._manager.pods_affected(resource, told))
                    await carry_out(ctx, self._shared.host, self._manager.listed(resource, told))
                    tell()
            except LinkBroken:
                endpoint = self._manager.endpoints.get(resource)
                if endpoint is not None and endpoint.stopped is None:
                    self._manager.disconnected(resource)
                    self._log(resource, WARNING, "away")
                    tell()
            await ctx.sleep(delay, idle=True, point=STREAM)
            delay = min(2 * delay, LONGEST_DELAY_NS)

    def _log(self, resource: str, level: Any, state: str) -> None:
        self._shared.ctx.log(
            "kubelet.plugin", level=level, data={"resource": resource, "is": state}
        )

    async def call(self, ctx: Context, call: PluginCall) -> Any:
        """Call a plugin. Raises PluginFailed, with the text of the gRPC error."""
        actor, point = self._actors[call.resource], f"plugin {call.method}"
        return await call_driver(ctx, actor, call, CALL_TIMEOUT_NS, PluginFailed, point=point)
