"""The loop of an emulated DRA driver on a node: it publishes slices, and serves the kubelet's calls.

Tasks: `slices` keeps the ResourceSlices of the driver's node there, a task per call serves it. Points: those of an
informer and of requests, `dra.begin` (a call has arrived), `dra.answer` (the work is done), `dra.delay`, `dra.publish`.
The claims that it prepared are its disk; calls die with the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from actors import LinkBroken
from actors.log import INFO, WARNING
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.loops.clientset import NODES, Client
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.client.loops.informer import Informer, handler
from controlplane.client.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from controlplane.kubelet.cm.dra.driver import (
    MAYBE,
    Connect,
    Connected,
    DeviceFault,
    DriverFault,
    DriverOptions,
    Faults,
    HealthSilence,
    WatchHealth,
    outcome,
    prepared_in,
    prepared_text,
    slice_tree,
)
from controlplane.kubelet.cm.dra.messages import (
    PREPARE,
    ClaimRef,
    DriverCall,
    DriverFailed,
    Prepared,
    Response,
)
from controlplane.kubelet.loops.dra_health import HealthReports

if TYPE_CHECKING:
    from actors import Context, Message
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig

__all__ = ["DriverProbe", "run"]

FILE: Final = "claims"
RETRY_NS: Final = 5_000_000_000
MOODS: Final = 2
"""Outcomes of a call where they are explored: well, or refused."""
MOST_FAILURES: Final = 6


@define
class DriverProbe:
    """The prepared claims of a driver, by uid, for observers of the run."""

    prepared: dict[str, ClaimRef] = field(factory=dict)


async def run(
    ctx: Context,
    node: str,
    options: DriverOptions,
    probe: DriverProbe,
    *,
    server: RestConfig = IN_CLUSTER,
) -> None:
    """Main task of a driver on a node."""
    driver = _Driver(ctx, node, options, probe, server)
    ctx.spawn(driver.keep_slices, name="slices")
    await driver.serve()


class _Driver:
    """One life of the driver's process."""

    def __init__(
        self,
        ctx: Context,
        node: str,
        options: DriverOptions,
        probe: DriverProbe,
        server: RestConfig,
    ) -> None:
        self._ctx = ctx
        self._node = node
        self._options = options
        self._server = server
        self._faults = Faults()
        failures = options.failures if ctx.incarnation == 1 else 0
        if failures > 0:
            self._faults.waiting.append(DriverFault(PREPARE, count=failures))
        self._moods = MOST_FAILURES if options.failures == MAYBE else 0
        probe.prepared = self._prepared = prepared_in(ctx.disk.read(FILE) or "")
        self._missing: dict[str, Tree] = {}
        """Slices that were there and are not: by name, with their content."""
        self.health = HealthReports(ctx, node, options, server) if options.health_ns else None
        self._changed = ctx.condition()

    # ------------------------------------------------------------------ calls

    async def serve(self) -> None:
        """Take what comes: a task for each call."""
        ctx = self._ctx
        while True:
            message = await ctx.recv(idle=True)
            payload = message.payload
            if isinstance(payload, DriverCall):
                ctx.spawn(self._call, message, name=payload.method)
            elif isinstance(payload, Connect):
                assert message.stream is not None
                reports = self.health is not None
                ctx.send(message.stream, Connected(self._options.name, reports))
            elif isinstance(payload, WatchHealth):
                assert message.stream is not None
                assert self.health is not None
                self.health.watched(message.stream)
            elif isinstance(payload, DeviceFault | HealthSilence):
                if self.health is not None:
                    self.health.take(payload)
                message.reply(None)
            elif isinstance(payload, DriverFault):
                self._faults.waiting.append(payload)
                message.reply(None)

    async def _call(self, ctx: Context, message: Message) -> None:
        call: DriverCall = message.payload
        await ctx.point("dra.begin")
        fault = self._faults.take(call.method) or self._mood(ctx, call.method)
        if fault is not None and fault.delay_ns:
            await ctx.sleep(fault.delay_ns, point="dra.delay")
        if fault is not None and not fault.claim and not fault.lost:
            self._log(call, fault.message)
            message.fail(DriverFailed(f"rpc error: code = Unknown desc = {fault.message}"))
            return
        results = {}
        for ref in call.claims:
            results[ref.uid] = await self._work(ctx, call.method, ref, fault)
        await ctx.point("dra.answer")
        self._log(call, "" if fault is None else fault.message)
        if fault is not None and fault.lost:
            message.fail(DriverFailed(f"rpc error: code = Unavailable desc = {fault.message}"))
        else:
            message.reply(Response(results))

    async def _work(
        self, ctx: Context, method: str, ref: ClaimRef, fault: DriverFault | None
    ) -> Prepared:
        if fault is not None and fault.claim == ref.uid:
            return Prepared(error=fault.message)
        if method != PREPARE:
            if self._prepared.pop(ref.uid, None) is not None:
                self._save(ctx)
            return Prepared()
        result = outcome(self._options.name, ref, await self._claim(ctx, ref))
        if not result.error:
            self._prepared[ref.uid] = ref
            self._save(ctx)
        return result

    async def _claim(self, ctx: Context, ref: ClaimRef) -> Tree | None:
        try:
            client = Client(ctx, self._server)
            found: Tree = (await client.get(RESOURCE_CLAIMS, ref.namespace, ref.name)).tree
        except (ApiError, LinkBroken):
            return None
        return found

    def _save(self, ctx: Context) -> None:
        ctx.disk.write(FILE, prepared_text(self._prepared.values()))
        ctx.disk.sync()

    def _mood(self, ctx: Context, method: str) -> DriverFault | None:
        if not self._moods or not ctx.choose("dra", MOODS, method):
            return None
        self._moods -= 1
        return DriverFault(method)

    def _log(self, call: DriverCall, error: str) -> None:
        names = ",".join(f"{ref.namespace}/{ref.name}" for ref in call.claims)
        data = {"driver": call.driver, "method": call.method, "claims": names, "error": error}
        self._ctx.log("dra.call", level=WARNING if error else INFO, data=data)

    # ------------------------------------------------------------------ slices

    async def keep_slices(self, ctx: Context) -> None:
        """Publish the own slice once the Node is there, and publish again what others delete.

        A slice that a user wrote for this driver and node is kept, too, from when it was first seen.
        """
        slices: Informer[Any] = Informer(
            ctx,
            RESOURCE_SLICES,
            server=self._server,
            immediate=True,
            fieldSelector=f"spec.driver={self._options.name},spec.nodeName={self._node}",
        )

        def gone(old: Object[Any], _unknown: bool) -> None:
            self._missing[old.name] = old.tree
            self._changed.notify_all()

        slices.add_handler(handler(lambda _new: None, lambda _old, _new: None, gone))
        if self.health is not None:
            self.health.follow(slices)
        slices.start()
        await slices.wait_synced()
        if self._options.devices and not len(slices.store):
            await self._publish(ctx, None)
        while True:
            while self._missing:
                name = next(iter(self._missing))
                await self._publish(ctx, self._missing.pop(name))
            await self._changed.wait(idle=True, point="dra.publish")

    async def _publish(self, ctx: Context, lost: Tree | None) -> None:
        """Create a slice: the own one, or one that was `lost`. While the Node is not there, wait for it."""
        client = Client(ctx, self._server)
        tried = 0
        while True:
            try:
                node = (await client.get(NODES, "", self._node)).tree
                await client.create(RESOURCE_SLICES, self._slice(node, lost))
            except (ApiError, LinkBroken) as error:
                tried += 1
                gone = isinstance(error, ApiError) and is_not_found(error)
                if not gone:
                    ctx.log("dra.error", level=WARNING, data={"message": str(error)})
                await ctx.sleep(RETRY_NS, idle=gone and tried > 1, point="dra.publish")
            else:
                return

    def _slice(self, node: Tree, lost: Tree | None) -> Tree:
        own = slice_tree(self._options, node)
        if lost is None:
            return own
        metadata = {
            key: value
            for key, value in lost["metadata"].items()
            if key in {"name", "labels", "annotations"}
        }
        metadata["ownerReferences"] = own["metadata"]["ownerReferences"]
        return {**own, "metadata": metadata, "spec": lost["spec"]}
