"""An API server with a store of its own.

The store is not lost with the process: it survives when the actor is crashed and started again. A
request is handled in parts, as upstream's is: it reads its object, asks admission, and writes if
the object was not written meanwhile, else it begins again with the newer one. Between the parts others
may come in; where no other request could make a difference (`contention`) the parts are one step.
The watch caches receive a write in later steps, so watchers and cached lists may lag
behind; how far is the schedule's choice. Each resource's cache moves on by itself, as upstream's
cachers do (one reflector and one dispatching goroutine for each): events of pods and of nodes
reach watchers in either order, events of pods in the order in which they were written.

External requests arrive as HTTP, see `http_server`.

Points: `recv` (a request arrives), `apiserver.request` (a worker takes a request that others
meet), `apiserver.read` (its object is read), `apiserver.admit` (admission looks at others),
`apiserver.commit` (it is written, unless it was written meanwhile), `apiserver.cache RESOURCE` (the watch cache of a
resource moves on and notifies its watchers), `apiserver.watch` (a bookmark or the time limit of a watch from outside
is
due), `apiserver.webhook` (a webhook is asked), `apiserver.conversion` (events of a watch are converted again after a
conversion webhook failed), `apiserver.policies RESOURCE` (admission policies of a
kind are looked at and compiled), `apiserver.reply`
(the answer to a write from outside leaves),
`apiserver.answer` (where memory is limited: a client has taken a list), `apiserver.expiry`,
`apiserver.compactor` (where history is forgotten in rounds).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from actors import Context, Mailbox
from actors.inlet import ExternalMessage
from actors.log import ERROR, WARNING
from controlplane.api.request import Request, Response
from controlplane.apiserver.loops.contention import (
    READ_VERBS,
    Crowd,
    from_outside,
    line_of,
    resource_from_outside,
)
from controlplane.apiserver.loops.defects import panic
from controlplane.apiserver.loops.etcd import EXPIRY_ROUND_NS
from controlplane.apiserver.loops.records import Records
from controlplane.apiserver.loops.supervisor import SUPERVISOR, Killed
from controlplane.apiserver.loops.watch_streams import WatchStreams
from controlplane.apiserver.loops.webhooks import review
from controlplane.apiserver.loops.workers import Workers
from controlplane.apiserver.requests.admission.policies.source import INTERVAL_NS, Source
from controlplane.apiserver.requests.caches import CacheMade
from controlplane.apiserver.requests.metrics import RequestMetrics, families, key_of
from controlplane.apiserver.requests.server import ApiServer, failure
from controlplane.apiserver.requests.unfinished import finish_deletions
from controlplane.apiserver.schema import status, work
from controlplane.apiserver.storage.store import Store, StoreFailedError
from controlplane.apiserver.storage.transactions import (
    Compact,
    Done,
    Found,
    Get,
    Operation,
    Outcome,
    Range,
    Review,
    Steps,
    Transaction,
    perform,
)
from controlplane.client.loops.informer import WatchBatch

if TYPE_CHECKING:
    from actors import Condition, Message, Task
    from controlplane.apiserver.front.answering import HttpAnswer, WatchAnswer
    from controlplane.apiserver.loops.activity import Activity
    from controlplane.apiserver.loops.http_server import HttpFront
    from controlplane.apiserver.requests.memory import Account
    from controlplane.apiserver.schema.resources import ResourceInfo
    from controlplane.apiserver.storage.watch_cache import WatchCache, Watcher
    from controlplane.metrics.family import Family

MakeCore = Callable[[Context, Store | None, CacheMade | None], ApiServer]
"""Makes a server's memory: over a store of its own (None: the cluster's), or over what it hears of one.

Each watch cache that is made must be registered with it: nothing else moves them on.
"""
_POINTS: dict[type, str] = {
    Get: "apiserver.read",
    Range: "apiserver.read",
    Review: "apiserver.webhook",
    Transaction: "apiserver.commit",
    Compact: "apiserver.commit",
}


@frozen
class Job:
    """A request: what it is, its handling, and what becomes of their result."""

    request: Request | ExternalMessage
    steps: Callable[[], Steps[Any]]
    writes: bool
    finish: Callable[[Any, int | None], None]
    """Called with the result, and the revision of the last write of its own, if there was one."""
    budget: work.Budget = field(factory=work.Budget)
    """The budget of its computation."""


async def run(ctx: Context, make_core: MakeCore, epoch_ns: int, activity: Activity) -> None:
    """Main task. `epoch_ns` is the wall time of virtual 0."""
    server = _Server(ctx, make_core, None, epoch_ns, activity)
    ctx.spawn(server.expire, name="expiry")
    if server.compacts:
        ctx.spawn(server.compact, name="compactor")
    try:
        while True:
            server.serve(await ctx.recv(idle=True))
    finally:
        server.hang_up()


def _is_write(request: Request | ExternalMessage) -> bool:
    if isinstance(request, Request):
        return request.verb not in READ_VERBS
    return line_of(request).writes


def _is_long(request: Request | ExternalMessage) -> bool:
    """Return whether a request may write very many objects."""
    if isinstance(request, Request):
        return request.verb == "deletecollection"
    return line_of(request).may_write_many


class _Feed:
    """The task and the cache of one resource: the task sleeps until there is news of the resource."""

    __slots__ = ("cache", "news", "resource", "task")

    def __init__(self, resource: str, cache: WatchCache, news: Condition) -> None:
        self.resource = resource
        self.cache = cache
        self.news = news
        self.task: Task | None = None
        """None until there is news for the first time."""


class _Server:
    """The state that the tasks share."""

    def __init__(
        self,
        ctx: Context,
        make_core: MakeCore,
        heard: Store | None,
        epoch_ns: int,
        activity: Activity,
    ) -> None:
        """`heard` is what the server hears of a store that others share; None: the store is its own."""
        self._ctx = ctx
        self._activity = activity
        self._metrics = RequestMetrics()
        activity.families = self._families
        self._feeds: dict[str, _Feed] = {}
        self._core = core = make_core(ctx, heard, self._feed)
        self._epoch = epoch_ns
        if heard is None:
            core.settle(epoch_ns + ctx.now)  # the definitions that its store holds already
            core.policies.refresh()
            if core.store.incarnation > 1:
                finish_deletions(core, epoch_ns + ctx.now)
        self._records = Records(ctx, core)
        self._revision = core.store.revision
        self._streams = WatchStreams(ctx, core, self._perform)
        self._front: HttpFront | None = None
        self._workers = Workers(ctx)
        self._compiles: dict[str, None] = {}
        """Kinds of admission policies that are being looked at."""
        self._under_way: dict[int, Request | ExternalMessage] = {}
        self._crowd = Crowd()
        """The requests in the inbox and under way."""
        ctx.inbox.count(self._crowd)

    def _families(self) -> Iterator[Family]:
        """Return a snapshot of the server's metrics, for observers outside of the run."""
        under_way = [_is_write(request) for request in self._under_way.values()]
        return families(self._core, self._metrics, under_way)

    def serve(self, message: Message) -> None:
        """Answer one request, or open one watch."""
        payload = message.payload
        if isinstance(payload, ExternalMessage):
            self._serve_outside(payload)
            return
        if message.stream is not None:
            self._open(payload, message.stream, self._now())
            return
        if self._is_met(payload):
            self._begin(self._job(message, payload))
            return
        at_hand = self._core.at_hand
        at_hand.written = None
        try:
            response = self._core.handle(payload, self._now())
        except Exception as error:
            response = self._failed(payload.label, error)
        self._answered(message, payload, self._ctx.now, response, at_hand.written)

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    def _job(self, message: Message, request: Request) -> Job:
        steps = partial(self._core.steps, request, self._now())
        writes = request.verb not in READ_VERBS
        finish = partial(self._answered, message, request, self._ctx.now)
        return Job(request, steps, writes, finish)

    def _answered(
        self,
        message: Message,
        request: Request,
        arrived: int,
        response: Response,
        revision: int | None,
    ) -> None:
        """A request of a component has its answer."""
        self._metrics.answered(key_of(request), response.code, self._ctx.now - arrived)
        if request.verb not in READ_VERBS:
            if self._ctx.heard:
                self._records.note_write(request, response, revision)
            self._activity.note(request, response, self._now())
        if self._ctx.noting:
            self._records.note_audit(request, arrived, response.code, response.audit)
        self._wrote()
        self._respond(message, response)

    # ------------------------------------------------------------------ in parts

    def _begin(self, job: Job) -> None:
        """Let a worker do a request in parts, for others meet it."""
        self._under_way[id(job)] = job.request
        self._crowd.come(job.request)
        self._workers.hand_over(partial(self._do, job=job))

    def _handle(self, job: Job) -> None:
        """Do a request at once, unless another one meets it."""
        if self._is_met(job.request):
            self._begin(job)
            return
        at_hand = self._core.at_hand
        at_hand.written = None
        work.on(job.budget)
        try:
            result = at_hand.run(job.steps())
        except Exception as error:
            result = self._result_of(job.request, error)
        finally:
            work.on(work.FREE)
        job.finish(result, at_hand.written)

    def _is_met(self, request: Request | ExternalMessage) -> bool:
        """Return whether a request that waits or is under way could come between the parts of this one."""
        self._ctx.inbox.looked_into()
        core = self._core
        if not core.none_admit() and core.webhooks.stored() and _is_write(request):
            return True  # a webhook's answer may have to be waited for
        if self._asks_another_process(request):
            return True
        if self._front is not None and _is_long(request):
            return True  # others outside are answered meanwhile
        if not self._crowd.size:
            return False
        about = from_outside(request) if isinstance(request, ExternalMessage) else request
        return self._crowd.meets_any(about, self._has_quotas)

    def _asks_another_process(self, request: Request | ExternalMessage) -> bool:
        """True if a conversion webhook, or the process of an aggregated group, may have to be waited for."""
        if isinstance(request, Request):
            place = request.group, request.version, request.resource
        else:
            place = resource_from_outside(request)
        if "." not in place[0]:
            return False
        if place[0] in self._core.options.aggregated:
            return True
        info = self._core.table.get(*place)
        return info is not None and self._core.conversions.concerns(info)

    def _has_quotas(self, namespace: str) -> bool:
        return bool(self._core.lookup.within("", "resourcequotas", namespace))

    async def _do(self, ctx: Context, *, job: Job) -> None:
        """Do a request part by part."""
        result, revision = await self._parts(ctx, job)
        if self._under_way.pop(id(job), None) is not None:
            self._crowd.go(job.request)
        job.finish(result, revision)

    async def _parts(self, ctx: Context, job: Job) -> tuple[Any, int | None]:
        """Do a request part by part; its result, and the revision of its last write."""
        revision = None
        steps = job.steps()
        outcome: Outcome = None
        try:
            while True:
                work.on(job.budget)
                try:
                    operation = steps.send(outcome)
                finally:
                    work.on(work.FREE)
                outcome = await self._perform(ctx, operation)
                if type(outcome) is Done and outcome.made:
                    revision = outcome.revision
                    self._records.changes.made(operation, outcome)
                    job.budget.lift()
                elif type(outcome) is Found and job.writes:
                    await ctx.point("apiserver.admit")
        except StopIteration as end:
            return end.value, revision
        except Exception as error:
            return self._result_of(job.request, error), revision

    async def _perform(self, ctx: Context, operation: Operation) -> Outcome:
        """One operation on the store, or a call of a webhook."""
        if type(operation) is Review:
            return await review(ctx, operation)
        await ctx.point(_POINTS[type(operation)])
        outcome = perform(self._core.store, operation)
        self._wrote()
        return outcome

    def _failed(self, label: str, error: Exception) -> Response:
        """A defect of ours must not take the server down. Upstream: endpoints/filters, WithPanicRecovery.

        What the store says when it cannot write is passed on as upstream passes on what etcd says.
        """
        if isinstance(error, StoreFailedError):
            data = {"request": label, "message": str(error)}
            self._ctx.log("apiserver.unwritten", level=ERROR, data=data)
            return failure(status.plain_error(str(error)))
        self._ctx.log("apiserver.panic", level=ERROR, data=panic(label, error))
        return failure(
            status.internal_error("the request could not be answered because of a defect")
        )

    def _result_of(self, request: Request | ExternalMessage, error: Exception) -> Any:
        """The result of a request whose handling failed."""
        if isinstance(request, Request):
            return self._failed(request.label, error)
        from controlplane.apiserver.front.answering import HttpAnswer

        response = self._failed(f"{request.value['m']} {request.value['p']}", error)
        return HttpAnswer(response.code, {"Content-Type": "application/json"}, response.tree)

    # ------------------------------------------------------------------ answers

    def _respond(self, message: Message, response: Response) -> None:
        """Let an answer leave; where memory is limited, a list holds some until its client has it."""
        account = self._core.memory
        if account is None or response.items is None:
            message.reply(response)
            return
        held, lasts = account.cost(response.items)
        if self._take(account, held):
            self._ctx.spawn(self._send, account, held, lasts, message, response, name="answer")

    async def _send(
        self,
        ctx: Context,
        account: Account,
        held: int,
        lasts: int,
        message: Message | None,
        response: Response | None,
    ) -> None:
        """An answer on its way: hold its memory for as long as that lasts."""
        await ctx.sleep(lasts, point="apiserver.answer")
        account.give(held)
        if message is not None:
            message.reply(response)

    def _take(self, account: Account, held: int) -> bool:
        """Return whether there was memory; if not, the process is killed, as the kernel does it."""
        if account.take(held):
            return True
        ctx = self._ctx
        data = {"held": account.held, "limit": account.memory.limit_bytes}
        ctx.log("apiserver.oom", level=WARNING, data=data)
        ctx.send(SUPERVISOR, Killed(ctx.actor, account.memory.restart_ns))
        ctx.faults.crash(ctx.actor)
        return False

    def _wrote(self) -> None:
        """Wake the watch caches of the written resources; resources without a cache need no news."""
        store = self._core.store
        if store.revision == self._revision:
            return
        self._revision = store.revision
        self._note_policies()
        for feed in self._feeds.values():
            cache = feed.cache
            if cache.keyspace.latest > cache.revision:
                if feed.task is not None:
                    feed.news.notify_all()
                else:
                    name = f"cache {feed.resource}"
                    feed.task = self._ctx.spawn(self._advance, feed, name=name)
        if self._front is not None:  # bookmarks tell clients outside how far a quiet watch is
            self._core.caches.note_progress()

    def _note_policies(self) -> None:
        """Have admission policies compiled that were written, each kind by a task of its own."""
        if self._core.none_admit():
            return
        for source in self._core.policies.each:
            if source.resource not in self._compiles and source.is_stale():
                self._compiles[source.resource] = None
                name = f"policies {source.resource}"
                self._ctx.spawn(self._compile_policies, source, name=name)

    async def _compile_policies(self, ctx: Context, source: Source[Any]) -> None:
        """At the next whole second look at what policies of a kind are stored, until all are known.

        A policy whose parameters are of a kind that is not served is looked at again and again.
        """
        point = f"apiserver.policies {source.resource}"
        while source.is_stale() or source.waits():
            wait = INTERVAL_NS - ctx.now % INTERVAL_NS
            idle = not source.is_stale()
            await ctx.sleep(wait, idle=idle, point=point)
            source.refresh()
        del self._compiles[source.resource]

    def _feed(self, info: ResourceInfo, cache: WatchCache) -> None:
        """A cache was made: it moves on from now on."""
        known = self._feeds.get(info.storage_prefix)
        if known is not None and known.task is not None:  # its definition went and came again
            self._ctx.cancel(known.task)
        self._feeds[info.storage_prefix] = _Feed(info.resource, cache, self._ctx.condition())

    def _serve_outside(self, message: ExternalMessage) -> None:
        if self._front is None:
            from controlplane.apiserver.loops.http_server import HttpFront

            self._front = HttpFront(
                self._ctx,
                self._core,
                self._epoch,
                self._metrics,
                self._records.changes,
                self._records.audit,
            )
        steps = self._front.begin(message)
        if steps is not None:
            writes = line_of(message).writes
            self._handle(Job(message, steps, writes, partial(self._answered_outside, message)))

    def _answered_outside(
        self, message: ExternalMessage, answered: HttpAnswer | WatchAnswer, revision: int | None
    ) -> None:
        """A request from outside has its answer."""
        self._wrote()
        if revision is not None and self._feeds:
            self._ctx.spawn(self._reply, message, answered, revision, name="reply")
        else:
            self._finish(message, answered, revision)

    async def _reply(
        self,
        ctx: Context,
        message: ExternalMessage,
        answered: HttpAnswer | WatchAnswer,
        revision: int,
    ) -> None:
        """The answer to a write leaves one step later: others hear of it no later than its writer."""
        await ctx.point("apiserver.reply")
        self._finish(message, answered, revision)

    def _finish(
        self, message: ExternalMessage, answered: HttpAnswer | WatchAnswer, revision: int | None
    ) -> None:
        assert self._front is not None
        watch = self._front.finish(message, answered, revision)
        if watch is not None:
            self._streams.follow(watch.watcher)

    def hang_up(self) -> None:
        """The process ends: streams to the outside end with it."""
        if self._front is not None:
            self._front.hang_up()

    def _open(self, request: Request, stream: Mailbox, now: int) -> Watcher | None:
        watcher = self._core.watch(request, now)
        if self._ctx.noting:
            if isinstance(watcher, Response):
                self._records.note_audit(request, self._ctx.now, watcher.code, {})
            else:
                self._records.note_audit(request, self._ctx.now, 200, {}, watcher)
        if isinstance(watcher, Response):
            self._metrics.watched(key_of(request), None, watcher.code)
            self._ctx.send(stream, WatchBatch((), end=True, error=watcher.tree))
            return None
        watcher.user_data = stream
        self._metrics.watched(key_of(request), watcher)
        account = self._core.memory
        if account is not None and watcher.buffer:
            first = [event.object for event in watcher.buffer]
            held, lasts = account.cost(first, streamed=True)
            if not self._take(account, held):
                return None
            self._ctx.spawn(self._send, account, held, lasts, None, None, name="stream")
        self._streams.follow(watcher)
        seconds = request.query.get("timeoutSeconds")
        if seconds and not watcher.closed:
            self._ctx.spawn(self._streams.end_later, watcher, int(seconds), name="watch")
        return watcher

    async def _advance(self, ctx: Context, feed: _Feed) -> None:
        """Move one watch cache to the store's revision whenever its resource was written."""
        cache, point = feed.cache, f"apiserver.cache {feed.resource}"
        while True:
            while not cache.is_behind():
                await feed.news.wait(idle=True, point=point)
            cache.advance()
            self._core.caches.note_progress()
            self._streams.flush()
            if self._front is not None:
                self._front.sweep()

    async def expire(self, ctx: Context) -> None:
        """Let leases of the store run out (events live for an hour), in rounds as etcd's lessor does."""
        store = self._core.store
        while True:
            due = store.next_expiry()
            now = self._epoch + ctx.now
            await ctx.sleep(
                max(EXPIRY_ROUND_NS, (due or now) - now), idle=True, point="apiserver.expiry"
            )
            with suppress(StoreFailedError):  # tried again in the next round
                store.expire(self._epoch + ctx.now)
            self._wrote()

    async def compact(self, ctx: Context) -> None:
        """Let the store forget what is older than one round. Upstream: `--etcd-compaction-interval`."""
        store = self._core.store
        noted = 0
        while True:
            await ctx.sleep(
                self._core.options.compaction_ns, idle=True, point="apiserver.compactor"
            )
            with suppress(StoreFailedError):
                store.compact(noted)
            noted = store.revision

    @property
    def compacts(self) -> bool:
        """The history is compacted at intervals."""
        return self._core.options.compaction_ns > 0
