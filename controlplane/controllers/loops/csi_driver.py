"""The loop of an emulated CSI driver: a task per call, and one mutex for all of them, as the hostpath driver has.

Points: `csi.begin` (a call has arrived), `csi.work` (the mutex is held), `csi.copied` (between the volumes of a
group), `csi.answer` (the work is done). Its volumes, snapshots and groups are its disk; calls die with the
process. A client that stops waiting does not stop the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from actors.log import INFO
from controlplane.api import identity
from controlplane.api.csi import Write
from controlplane.api.times import SECOND
from controlplane.controllers.storage.csi.faults import AFTER, Fault, Faults, overridden
from controlplane.controllers.storage.csi.hostpath import HostpathDriver
from controlplane.controllers.storage.csi.messages import (
    ABORTED,
    OK,
    UNAVAILABLE,
    CsiReply,
    CsiRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors import Context, Message
    from controlplane.controllers.storage.csi.hostpath import DriverOptions

MOODS: Final = ("well", "refused", "answer lost", "slow", "well", "well")
"""Outcomes of a call where they are explored; the first is the default one.

Most are good: otherwise the first calls of a run use up all failures, and no later one, such as a detach, ever fails.
"""
SLOW_NS: Final = 3 * SECOND
"""How much longer a slow call takes: longer than the pause between two passes of any loop of volumes."""
MOST_FAILURES: Final = 6
"""The maximum number of a process's calls that fail, or are slow, where that is explored.

Backoff grows, and a run has to end.
"""


@frozen
class OpenGate:
    """Let go all calls that hang at a gate, and those to come."""

    gate: str


@frozen
class ClearFaults:
    """Everything works again."""


@define
class SeenCall:
    """One observed call, for observers of the run; steps are the world's."""

    method: str
    fields: Mapping[str, Any]
    began: int
    began_ns: int
    node: str = ""
    """The node whose plugin was asked."""
    ended: int = 0
    reply: CsiReply | None = None


@define
class DriverProbe:
    """Observation of a driver: its disk, and every call."""

    driver: HostpathDriver | None = None
    calls: list[SeenCall] = field(factory=list)


DISK: Final = "driver"


async def run(
    ctx: Context,
    epoch_ns: int,
    options: DriverOptions,
    probe: DriverProbe,
    initial: HostpathDriver | None = None,
    faults: Iterable[Fault] = (),
    *,
    moods: bool = False,
) -> None:
    """Main task of a driver. With `moods` it is explored what becomes of each call."""
    process = _Process(ctx, epoch_ns, options, probe, initial, moods)
    for fault in faults:
        process.faults.add(fault)
    await process.serve()


class _Process:
    """One life of the driver's process."""

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        options: DriverOptions,
        probe: DriverProbe,
        initial: HostpathDriver | None,
        moods: bool,
    ) -> None:
        self._ctx = ctx
        self._epoch = epoch_ns
        self._probe = probe
        self._moods = moods
        self._spent = 0
        self.faults = Faults()
        self._changed = ctx.condition()
        self._held = False
        self._making: dict[str, None] = {}
        kept: HostpathDriver | None = probe.driver if ctx.incarnation > 1 else None
        self._driver = kept or initial or HostpathDriver(options)
        probe.driver = self._driver

    async def serve(self) -> None:
        ctx = self._ctx
        while True:
            message = await ctx.recv(idle=True)
            payload = message.payload
            if isinstance(payload, CsiRequest):
                ctx.spawn(self._call, message, name=payload.method)
            elif isinstance(payload, Write):
                message.reply(self._driver.write(payload.volume, payload.payload, payload.node))
            elif isinstance(payload, Fault):
                self.faults.add(payload)
                message.reply(None)
            elif isinstance(payload, OpenGate):
                self.faults.opened[payload.gate] = None
                self._changed.notify_all()
                message.reply(None)
            elif isinstance(payload, ClearFaults):
                self.faults.clear()
                message.reply(None)

    async def _call(self, ctx: Context, message: Message) -> None:
        request: CsiRequest = message.payload
        seen = SeenCall(request.method, request.fields, ctx.step, ctx.now, request.node)
        self._probe.calls.append(seen)
        name = f"{request.method} {request.fields.get('name', '')}"
        if self._driver.options.aborts_duplicates and request.fields.get("name"):
            if name in self._making:
                text = "an operation with the given name already exists"
                self._answer(ctx, message, seen, CsiReply(ABORTED, text))
                return
            self._making[name] = None
        fault = self.faults.take(request.method) or self._mood(ctx, request)
        await ctx.point("csi.begin")
        if fault is not None and fault.delay_ns:
            await ctx.sleep(fault.delay_ns, point="csi.delay")
        if fault is not None and fault.gate and fault.when != AFTER:
            await self._gate(fault.gate)
        if fault is not None and fault.code != OK and fault.when != AFTER:
            reply = CsiReply(fault.code, fault.message)
        else:
            reply = await self._work(ctx, request)
            if fault is not None:
                if fault.gate and fault.when == AFTER:
                    await self._gate(fault.gate)
                if fault.code != OK:
                    reply = CsiReply(fault.code, fault.message)
                reply = overridden(reply, fault.override)
        self._making.pop(name, None)
        await ctx.point("csi.answer")
        self._answer(ctx, message, seen, reply)

    def _answer(self, ctx: Context, message: Message, seen: SeenCall, reply: CsiReply) -> None:
        seen.ended, seen.reply = ctx.step, reply
        ctx.log("csi.call", level=INFO, data={"method": seen.method, "code": reply.code})
        message.reply(reply)

    def _mood(self, ctx: Context, request: CsiRequest) -> Fault | None:
        if not self._moods or self._spent >= MOST_FAILURES:
            return None
        chosen = MOODS[ctx.choose("csi", len(MOODS), request.method)]
        self._spent += chosen != MOODS[0]
        if chosen == "refused":
            return Fault(request.method, code=UNAVAILABLE, message="not now")
        if chosen == "slow":
            return Fault(request.method, delay_ns=SLOW_NS)
        if chosen == "answer lost":
            return Fault(request.method, code=UNAVAILABLE, message="answer lost", when=AFTER)
        return None

    async def _take_time(self, ctx: Context, point: str) -> None:
        """A call, and each further volume of a group, takes its time."""
        if self._driver.options.call_ns:
            await ctx.sleep(self._driver.options.call_ns, point=point)
        else:
            await ctx.point(point)

    async def _gate(self, gate: str) -> None:
        while gate not in self.faults.opened:
            await self._changed.wait(idle=True, point="csi.gate")

    async def _work(self, ctx: Context, request: CsiRequest) -> CsiReply:
        while self._held:
            await self._changed.wait(point="csi.mutex")
        self._held = True
        await self._take_time(ctx, "csi.work")
        steps = self._driver.handle(
            request, self._epoch + ctx.now, lambda: identity.uid(ctx.serial())
        )
        try:
            while True:
                await self._take_time(ctx, next(steps).name)
        except StopIteration as stop:
            reply: CsiReply = stop.value
            return reply
        finally:
            self._held = False
            self._changed.notify_all()
