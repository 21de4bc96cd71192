"""The reports of an emulated DRA driver on the health of its devices (DRAResourceHealth of its kubelet API).

Task `health` reports to the kubelet that watches: when anything changes, and three times within the life of a report.
Points: those of an informer, `dra.health`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.client.loops.clientset import NODES
from controlplane.client.loops.informer import Informer, handler
from controlplane.kubelet.cm.dra.driver import DeviceFault, HealthSilence, device_health

if TYPE_CHECKING:
    from actors import Context, Mailbox
    from controlplane.api.object import Object
    from controlplane.client.loops.connection import RestConfig
    from controlplane.kubelet.cm.dra.driver import DriverOptions

__all__ = ["HealthReports"]

REPORTS_WITHIN_TIMEOUT: Final = 3


class HealthReports:
    """The health of one driver's devices, in one life of its process."""

    def __init__(self, ctx: Context, node: str, options: DriverOptions, server: RestConfig) -> None:
        self._ctx = ctx
        self._options = options
        self._faults: dict[str, DeviceFault] = {}
        self._silent = False
        self._stream: Mailbox | None = None
        self._slices: Informer[Any] | None = None
        self._changed = ctx.condition()
        self._nodes: Informer[Any] = Informer(
            ctx, NODES, server=server, immediate=True, fieldSelector=f"metadata.name={node}"
        )
        self._notify_of(self._nodes)

    def _notify_of(self, informer: Informer[Any]) -> None:
        def changed(_old: Object[Any], _new: Any) -> None:
            self._changed.notify_all()

        informer.add_handler(handler(lambda _new: self._changed.notify_all(), changed, changed))

    def follow(self, slices: Informer[Any]) -> None:
        """Report the devices of these slices, which are not yet listed."""
        self._slices = slices
        self._notify_of(slices)
        self._nodes.start()
        self._ctx.spawn(self._report, name="health")

    def watched(self, stream: Mailbox) -> None:
        """A kubelet watches; a node has one."""
        self._stream = stream
        self._changed.notify_all()

    def take(self, fault: DeviceFault | HealthSilence) -> None:
        """Report otherwise from now on."""
        if isinstance(fault, HealthSilence):
            self._silent = fault.on
        else:
            self._faults[fault.device] = fault
        self._changed.notify_all()

    async def _report(self, ctx: Context) -> None:
        assert self._slices is not None
        period = self._options.health_ns // REPORTS_WITHIN_TIMEOUT
        while True:
            known = self._nodes.has_synced and self._slices.has_synced
            if known and self._stream is not None and not self._silent:
                node = next(iter(self._nodes.store), None)
                tree = {} if node is None else node.tree
                slices = [each.tree for each in self._slices.store]
                ctx.send(self._stream, device_health(self._options, tree, slices, self._faults))
            await self._changed.wait(period, idle=True, point="dra.health")
