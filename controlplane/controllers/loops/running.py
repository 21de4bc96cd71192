"""The loop of a controller: its queues' workers, its periodic tasks, and its effects carried out.

Points: those of `controllers.loops.worker` for each queue, `<periodic>.sleep`, those that a
controller names, `client.throttle` (a request waits for its turn, where the client has a rate limit), and one
for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from actors import LinkBroken, Timeout
from actors.log import INFO, WARNING
from controlplane.client.calls import Call
from controlplane.client.errors import ApiError, ConnectionLost
from controlplane.client.loops.clientset import Client
from controlplane.client.loops.event_recorder import EventRecorder, reference
from controlplane.client.rate_limits import Bucket, PerItemBackoff
from controlplane.controllers.common.effects import Retry, T
from controlplane.controllers.loops.worker import Workers
from controlplane.decisions import Ask, Choose, Hang, NoAnswer, Point, Sleep, Spawn, Together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors import Context
    from controlplane.api.tree import Tree
    from controlplane.api.usage import UsageSource
    from controlplane.api.view import View
    from controlplane.client.loops.connection import RestConfig
    from controlplane.controllers.common.controller import Caches, Controller, Periodic, Work
    from controlplane.controllers.common.effects import Effect, Failure, Reconcile
    from controlplane.controllers.common.rest_mapper import RESTMapper
    from controlplane.gates import FixGates


class Throttle:
    """The rate limit of a process's client: a number of requests a second, after a burst.

    Upstream: client-go's flow control, which the process's own watches and lists pass too; here they do not,
    and neither do its events. `by_kind`: each kind of objects has a limit of its own, as the clients of
    controller-runtime have it.
    """

    def __init__(self, rate: tuple[int, int], *, by_kind: bool = False) -> None:
        self._rate = rate
        self._by_kind = by_kind
        self._buckets: dict[str, Bucket] = {}

    async def admit(self, ctx: Context, call: Call) -> None:
        """Wait until one more request may be sent."""
        kind = call.resource.full_name if self._by_kind else ""
        bucket = self._buckets.get(kind)
        if bucket is None:
            bucket = self._buckets[kind] = Bucket(*self._rate)
        due = bucket.when("", ctx.now)
        if due > ctx.now:
            await ctx.sleep(due - ctx.now, point="client.throttle")


async def carry_out(
    ctx: Context, server: RestConfig, reconcile: Reconcile[T], throttle: Throttle | None = None
) -> T:
    """Carry the effects of a reconcile out in this task; its result."""
    client = Client(ctx, server)
    answer: Any = None
    failure: Failure | NoAnswer | None = None
    while True:
        try:
            effect = reconcile.send(answer) if failure is None else reconcile.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answer = failure = None
        if isinstance(effect, Call):
            if throttle is not None:
                await throttle.admit(ctx, effect)
            try:
                answer = await client.send(effect)
            except ApiError as error:
                failure = error
            except LinkBroken as error:
                failure = ConnectionLost(str(error))
        elif isinstance(effect, Ask):
            try:
                answer = await ctx.ask(
                    effect.to, effect.message, effect.timeout_ns, point=effect.point
                )
            except Timeout as error:
                failure = NoAnswer(str(error), late=True)
            except LinkBroken as error:
                failure = NoAnswer(str(error), late=False)
        else:
            answer = await _other(ctx, server, effect, throttle)


async def _other(
    ctx: Context, server: RestConfig, effect: Effect, throttle: Throttle | None
) -> Any:
    if isinstance(effect, Together):
        tasks = [
            ctx.spawn(carry_out, server, part, throttle, name=effect.name) for part in effect.parts
        ]
        return [await ctx.join(task) for task in tasks]
    if isinstance(effect, Choose):
        return ctx.choose(effect.kind, effect.options, effect.label)
    if isinstance(effect, Spawn):
        ctx.spawn(carry_out, server, effect.part, throttle, name=effect.name)
    elif isinstance(effect, Point):
        await ctx.point(effect.name)
    elif isinstance(effect, Sleep):
        await ctx.sleep(effect.duration_ns, point=effect.point)
    elif isinstance(effect, Hang):
        await ctx.condition().wait(point=effect.point)
    return None


class _Queue:
    """A work queue with its workers, as the controller sees it."""

    def __init__(self, ctx: Context, name: str, throttle: Throttle | None) -> None:
        self._ctx = ctx
        self._throttle = throttle
        self._reconcile: Callable[[str], Reconcile[None]] | None = None
        self._server: RestConfig | None = None
        self.workers = Workers(ctx, name, self._sync)
        self.add = self.workers.add
        self.add_rate_limited = self.workers.add_rate_limited
        self.forget = self.workers.forget
        self.failures = self.workers.failures
        self.relax = self.workers.relax
        self._count = 0
        """The workers that wait for the first key."""
        self._delayed = False
        """A key was added by `add_after`."""

    @property
    def processing(self) -> Mapping[str, int]:
        return self.workers.processing

    def add_after(self, key: str, delay_ns: int, *, idle: bool = False) -> None:
        self.workers.add_after(key, self._ctx.now + delay_ns, idle=idle)
        self._delayed = True
        if self._count:
            self._begin()

    def start(self, server: RestConfig, work: Work, workers: int) -> None:
        self._server = server
        self._reconcile = work.reconcile
        self.workers.max_retries = work.max_retries
        if work.backoff_ns is not None:
            self.workers.limiter = PerItemBackoff(*work.backoff_ns)
        self._count = workers if work.workers is None else work.workers
        if not work.on_demand or self._delayed:
            self._begin()

    def _begin(self) -> None:
        count, self._count = self._count, 0
        if count:
            self.workers.start(count)

    async def _sync(self, ctx: Context, key: str) -> None:
        assert self._reconcile is not None
        assert self._server is not None
        await carry_out(ctx, self._server, self._reconcile(key), self._throttle)


@frozen
class ManagerProcess:
    """The parts of a process that all its controllers share; see `Host`."""

    server: RestConfig
    caches: Caches
    features: Mapping[str, bool]
    fixes: FixGates
    rest_mapper: RESTMapper
    root_ca: str
    usage: UsageSource | None = None


class Running:
    """One controller in a world; it is the controller's host."""

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        kind: type[Controller],
        process: ManagerProcess,
        throttle: Throttle | None = None,
    ) -> None:
        self._throttle = throttle
        self.features = process.features
        self.fixes = process.fixes
        self.rest_mapper = process.rest_mapper
        self.root_ca = process.root_ca
        self.usage = process.usage
        self._ctx = ctx
        self._epoch = epoch_ns
        self._server = server = process.server
        self._queues: dict[str, _Queue] = {}
        self._workers = 1
        self._recorder = EventRecorder(ctx, kind.component or kind.name, epoch_ns, server=server)
        self.controller = kind(self, process.caches)

    @property
    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self._epoch + self._ctx.now

    def queue(self, name: str) -> _Queue:
        """The queue of this name."""
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = _Queue(self._ctx, name, self._throttle)
        return found

    def event(self, about: View | Tree, kind: str, reason: str, message: str) -> None:
        """Report an event."""
        named = about if isinstance(about, dict) else reference(about)
        self._recorder.about(named, kind, reason, message)

    def log(self, event: str, about: View, data: Tree) -> None:
        """Write to the log."""
        place = f"{about.kind}/{about.key}"
        self._ctx.log(event, level=INFO, obj=place, uid=about.uid, data=data)

    def start_work(self, work: Work) -> None:
        """Start the workers of a queue."""
        self.queue(work.queue).start(self._server, work, self._workers)

    def follow(self, workers: int) -> None:
        """Start the workers of the queues that replicas work which do not lead."""
        self._workers = workers
        for work in self.controller.work():
            if work.on_followers:
                self.start_work(work)

    def lead(self, workers: int) -> None:
        """Start all other workers, as this replica leads now, and the periodic tasks."""
        self._workers = workers
        self.controller.elected()
        for work in self.controller.work():
            if not work.on_followers:
                self.start_work(work)
        self._start_periodic()

    def start(self, workers: int) -> None:
        """Start the workers and the periodic tasks."""
        self._workers = workers
        for work in self.controller.work():
            self.start_work(work)
        self._start_periodic()

    def _start_periodic(self) -> None:
        for periodic in self.controller.periodic():
            self._ctx.spawn(self._again, periodic, name=periodic.name)

    async def _again(self, ctx: Context, periodic: Periodic) -> None:
        point = f"{periodic.name}.sleep"
        wait = periodic.after_ns
        while True:
            if wait:
                await ctx.sleep(wait, idle=True, point=point)
            wait = periodic.interval_ns
            try:
                await carry_out(ctx, self._server, periodic.reconcile(), self._throttle)
            except (ApiError, ConnectionLost, Retry) as error:
                data = {"task": periodic.name, "error": str(error)}
                ctx.log("controller.retry", level=WARNING, data=data)
