"""One of several API servers over a shared store.

What differs from the server that has the store to itself (`server`): every transaction and every
quorum read is a message to the store's actor and back, so servers interleave; news of writes come
by the same way into the server's own `Mirror`, and each watch cache takes them in from there at its own
pace. So a cached read may be stale, by as much as the schedule, the link or a fault wills: the server
may be cut from the store, or one of its caches held (`Hold`), and still answer `resourceVersion=0`.

Reads go as upstream (section 2.2 and 3.1 of the facts): no version needs the store's revision first
and is answered by the cache once that is as far, else, after three seconds, by the store; version 0
is whatever the cache has; another one waits for the cache at most three seconds.

Points: `recv`, `apiserver.request` (a worker takes a request), `apiserver.etcd` (the store has
answered), `apiserver.fresh` (a cache may have caught up), `apiserver.feed` (news of the store),
`apiserver.cache RESOURCE` (one watch cache moves on), `apiserver.lag`, `apiserver.bookmarks`,
`apiserver.compactor`, `apiserver.definitions` (custom resources are looked for again), `apiserver.watch` (a
watch's time limit).
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from attrs import evolve, frozen

from actors import LinkBroken, Timeout
from actors.inlet import ExternalMessage
from actors.log import DEBUG
from controlplane.api.flags import flag
from controlplane.api.request import Response
from controlplane.api.times import SECOND
from controlplane.apiserver.loops.contention import READ_VERBS
from controlplane.apiserver.loops.etcd import ETCD, Call, Follow
from controlplane.apiserver.loops.server import Job, MakeCore, _Server
from controlplane.apiserver.loops.webhooks import review
from controlplane.apiserver.options import COMPACTION_NS
from controlplane.apiserver.requests.lookup import resource_named
from controlplane.apiserver.requests.metrics import key_of
from controlplane.apiserver.requests.server import failure
from controlplane.apiserver.schema import status
from controlplane.apiserver.storage.mirror import Mirror, News, Snapshot
from controlplane.apiserver.storage.transactions import (
    Compact,
    Done,
    Items,
    Operation,
    Outcome,
    Range,
    Review,
)
from controlplane.client.loops.connection import Ping
from controlplane.client.loops.informer import WatchBatch

if TYPE_CHECKING:
    from actors import Condition, Context, Mailbox, Message, Task
    from controlplane.api.request import Request
    from controlplane.apiserver.loops.activity import Activity
    from controlplane.apiserver.schema.resources import ResourceInfo
    from controlplane.apiserver.storage.watch_cache import WatchCache, Watcher

FRESH_NS = 3 * SECOND
"""The time that a read waits for its cache. Upstream: cacher, blockTimeout."""
REQUEST_NS = 34 * SECOND
"""The time that a request waits for the store. Upstream: the bound of the writing handlers."""
BOOKMARKS_NS = 60 * SECOND
RECONNECT_NS = SECOND
LAG_OPTIONS = 4
TIMES_KEPT = 4096
EVENTS_PREFIX = "/registry/events/"
"""Events have no watch cache: reads go to the store, and what serves their watches does not lag."""
CRDS = "customresourcedefinitions"
POLICIES = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)
NO_PREFIX = "/registry/health/"
"""A prefix without objects: a read of it returns the revision."""


@frozen
class ReplicaOptions:
    """Settings of API servers that share a store.

    Args:
        compaction_ns: the interval (ns) of their attempts to compact the store; 0: never.
        lag_ns: the delay with which a cache may take in a write (a choice each time, none is option 0).
        lagging: the servers whose caches may lag; none named: all.
        consistent_list_from_cache: feature gate ConsistentListFromCache (on from 1.31): lists
            without a version come from the cache; without it from the store.
        progress_notify: the store reports the progress of a watch without events (KEP-1904, from 1.20).
            Without it a cache is only as far as the last event of its own resource, and a version
            that another server handed out may be "too large" for it (issue 91073).
    """

    compaction_ns: int = COMPACTION_NS
    lag_ns: int = 0
    lagging: tuple[str, ...] = ()
    consistent_list_from_cache: bool = True
    progress_notify: bool = True


class Hold(NamedTuple):
    """Fault: the watch cache of a resource takes in nothing more, until `Release`."""

    resource: str

    @property
    def label(self) -> str:
        """The name in the event log."""
        return f"hold {self.resource}"


class Release(NamedTuple):
    """The end of a `Hold`."""

    resource: str

    @property
    def label(self) -> str:
        """The name in the event log."""
        return f"release {self.resource}"


class _Source(NamedTuple):
    """One watch cache and the task that advances it."""

    resource: str
    cache: WatchCache
    news: Condition
    task: Task


async def run(
    ctx: Context,
    make_core: MakeCore,
    epoch_ns: int,
    activity: Activity,
    options: ReplicaOptions,
) -> None:
    """Main task; see `server.run`. A server answers once it has heard of all that is stored."""
    mirror = Mirror()
    stream = await _begun(ctx, mirror)
    server = _Replica(ctx, mirror, make_core, epoch_ns, activity, options)
    ctx.spawn(server.hear, stream, name="feed")
    if server.finds_definitions():
        await server.settle(ctx)
    ctx.spawn(server.send_bookmarks, name="bookmarks")
    if options.compaction_ns:
        ctx.spawn(server.compact, name="compactor")
    try:
        while True:
            server.serve(await ctx.recv(idle=True))
    finally:
        server.hang_up()


async def _begun(ctx: Context, mirror: Mirror) -> Mailbox:
    """Hear of all that is stored; the stream on which more comes."""
    while True:
        try:
            stream = ctx.open(ETCD, Follow(0), name="apiserver.feed")
            heard = (await stream.recv(idle=True)).payload
        except LinkBroken:
            await ctx.sleep(RECONNECT_NS, idle=True, point="apiserver.feed")
            continue
        assert isinstance(heard, Snapshot)
        mirror.begin(heard)
        return stream


class _Replica(_Server):
    """One server's memory besides its core: jobs, feeds, and requests that wait for a cache."""

    def __init__(
        self,
        ctx: Context,
        mirror: Mirror,
        make_core: MakeCore,
        epoch_ns: int,
        activity: Activity,
        options: ReplicaOptions,
    ) -> None:
        self._held: dict[str, None] = {}
        self._fed: dict[str, _Source] = {}
        self._mirror = mirror
        super().__init__(ctx, make_core, mirror, epoch_ns, activity)
        self._options = options
        lags = not options.lagging or ctx.actor in options.lagging
        self._lag_ns = options.lag_ns if lags else 0
        self._heard_revisions: list[int] = []
        self._heard_times: list[int] = []
        self._moved = ctx.condition()
        self._marked: dict[Watcher, None] = {}
        self._core.cache_of("apiextensions.k8s.io", CRDS)
        self._core.policies.refresh()

    # ------------------------------------------------------------------ requests

    def serve(self, message: Message) -> None:
        """Answer what needs no store at once, and hand the rest to a worker."""
        payload = message.payload
        if isinstance(payload, ExternalMessage):
            self._serve_outside(payload)
        elif isinstance(payload, Ping):
            message.reply(None)
        elif isinstance(payload, Hold):
            self._held[payload.resource] = None
            message.reply(None)
        elif isinstance(payload, Release):
            self._held.pop(payload.resource, None)
            self._take_note()
            message.reply(None)
        else:
            self._know(payload)
            if message.stream is None and self._is_local(payload):
                self._read_answered(message, payload, self._core.handle(payload, self._now()))
            elif message.stream is None and payload.verb not in READ_VERBS:
                self._handle(self._job(message, payload))
            else:
                self._workers.hand_over(
                    partial(self._read_or_watch, message=message, request=payload)
                )

    def _handle(self, job: Job) -> None:
        """The store is elsewhere: every request is handled in parts."""
        self._workers.hand_over(partial(self._do, job=job))

    def _wrote(self) -> None:
        """Nothing to do: the store itself tells of what was written."""

    def _know(self, request: Request) -> None:
        """Let a resource that is asked for the first time have its cache, and its feed."""
        info = self._core.table.get(request.group, request.version, request.resource)
        if info is not None and (info.resource != "events" or request.verb == "watch"):
            self._core.caches.of(info)

    def _is_local(self, request: Request) -> bool:
        """Return whether the cache answers as it is."""
        return (
            request.verb in ("get", "list")
            and request.query.get("resourceVersion") == "0"
            and request.resource != "events"
            and not self._asks_another_process(request)
        )

    async def _from_cache(self, ctx: Context, request: Request) -> Response:
        """Answer a read from the cache."""
        if self._asks_another_process(request):
            return await self._in_store(ctx, request)
        return self._core.handle(request, self._now())

    async def _read_or_watch(self, ctx: Context, *, message: Message, request: Request) -> None:
        """Answer a read, or open a watch."""
        if message.stream is not None:
            await self._open_watch(ctx, request, message.stream)
        else:
            arrived = ctx.now
            response = await self._read(ctx, request)
            self._read_answered(message, request, response, ctx.now - arrived)

    def _read_answered(
        self, message: Message, request: Request, response: Response, took: int = 0
    ) -> None:
        """A read of a component has its answer."""
        self._metrics.answered(key_of(request), response.code, took)
        if self._ctx.noting:
            self._records.note_audit(request, self._ctx.now - took, response.code, response.audit)
        self._respond(message, response)

    async def _perform(self, ctx: Context, operation: Operation) -> Outcome:
        """One operation on the store. LinkBroken, Timeout: it may have been performed or not."""
        if type(operation) is Review:
            return await review(ctx, operation)
        deadline = ctx.now + REQUEST_NS
        call = Call(operation, deadline, type(operation).__name__.lower())
        outcome: Outcome = await ctx.ask(ETCD, call, REQUEST_NS, point="apiserver.etcd")
        return outcome

    def _failed(self, label: str, error: Exception) -> Response:
        """Return the answer to a request after a fault of the store or an unexpected exception."""
        if isinstance(error, LinkBroken):
            text = "rpc error: code = Unavailable desc = error reading from server: EOF"
            return failure(status.plain_error(text))
        if isinstance(error, Timeout):
            text = "request did not complete within the allotted timeout"
            return failure(status.timeout(text, 0))
        return super()._failed(label, error)

    async def _in_store(self, ctx: Context, request: Request) -> Response:
        """Handle a read by what the store has."""
        steps = partial(self._core.steps, request, self._now())
        response: Response = (await self._parts(ctx, Job(request, steps, False, _ignored)))[0]
        return response

    # ------------------------------------------------------------------ reading

    async def _read(self, ctx: Context, request: Request) -> Response:
        query = request.query
        version = query.get("resourceVersion", "")
        if version == "0" and self._asks_another_process(request):
            return await self._from_cache(ctx, request)
        if version == "0":
            # Events have no watch cache: any version is the newest one.
            query = {name: value for name, value in query.items() if name != "resourceVersion"}
            return await self._in_store(ctx, evolve(request, query=query))
        if version:
            return await self._read_at(ctx, request)
        if (
            request.verb == "list"
            and self._options.consistent_list_from_cache
            and request.resource != "events"
            and not query.get("continue")
            and not query.get("resourceVersionMatch")
        ):
            current = await self._current(ctx)
            if current is not None and await self._fresh(ctx, request, current):
                fresh = {
                    **query,
                    "resourceVersion": str(current),
                    "resourceVersionMatch": "NotOlderThan",
                }
                return await self._from_cache(ctx, evolve(request, query=fresh))
        return await self._in_store(ctx, request)

    async def _read_at(self, ctx: Context, request: Request) -> Response:
        """A read at or after some version: exact ones are the store's, others wait for the cache."""
        query = request.query
        match = query.get("resourceVersionMatch", "")
        limited = query.get("limit", "0") not in ("", "0")
        exact = match == "Exact" or (request.verb == "list" and limited and not match)
        if exact or request.resource == "events":
            return await self._in_store(ctx, request)
        wanted = self._core.wanted_revision(request)
        if wanted is not None and not await self._fresh(ctx, request, wanted[1]):
            cache, revision = wanted
            return failure(status.too_large_resource_version(revision, cache.revision, 1))
        return await self._from_cache(ctx, request)

    async def _current(self, ctx: Context) -> int | None:
        """The store's revision, read where the store is; None if it cannot be reached."""
        try:
            # Upstream: a read of a key that is never written; the answer's header has the revision.
            listed = await self._perform(ctx, Range(NO_PREFIX))
        except (LinkBroken, Timeout):
            return None
        assert isinstance(listed, Items)
        return listed.revision

    async def _fresh(self, ctx: Context, request: Request, revision: int) -> bool:
        """Wait until the cache has reached a revision; whether it has in time."""
        info = self._core.table.get(request.group, request.version, request.resource)
        if info is None:
            return True
        cache = self._core.caches.of(info)
        limit = ctx.now + FRESH_NS
        while cache.revision < revision:
            if ctx.now >= limit:
                return False
            await self._moved.wait(limit - ctx.now, point="apiserver.fresh")
        return True

    # ------------------------------------------------------------------ watching

    async def _open_watch(self, ctx: Context, request: Request, stream: Mailbox) -> None:
        query = request.query
        version = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents")
        streams_state = flag(initial)
        if not version:
            current = await self._current(ctx)
            if current is None:
                gone = status.timeout("the store cannot be reached", 1)
                self._ctx.send(stream, WatchBatch((), end=True, error=gone.tree))
                return
            if initial is not None and not streams_state:
                request = evolve(request, query={**query, "resourceVersion": str(current)})
            elif not await self._fresh(ctx, request, current):
                late = status.too_large_resource_version(current, self._mirror.revision, 1)
                self._ctx.send(stream, WatchBatch((), end=True, error=late.tree))
                return
        elif streams_state and version.isdigit():
            await self._fresh(ctx, request, int(version))  # not in time: the stream will say so
        if stream.broken or not stream.owner.alive:
            return
        watcher = self._open(request, stream, self._now())
        if watcher is not None and not watcher.closed:
            opened = watcher
            watcher.on_stop = lambda: self._streams.filled.append(opened)
            if flag(query.get("allowWatchBookmarks")):
                self._marked[watcher] = None

    # ------------------------------------------------------------------ news of the store

    async def hear(self, ctx: Context, stream: Mailbox) -> None:
        """Keep a watch on the store. A reset connection is made again, and nothing is lost by it."""
        while True:
            try:
                while True:
                    self._take_in((await stream.recv(idle=True)).payload)
            except LinkBroken:
                ctx.close(stream)
            while True:
                await ctx.sleep(RECONNECT_NS, idle=True, point="apiserver.feed")
                try:
                    stream = ctx.open(ETCD, Follow(self._mirror.revision), name="apiserver.feed")
                except LinkBroken:
                    continue
                break

    def _take_in(self, heard: Snapshot | News) -> None:
        """Let the mirror follow the store, and the caches know of it."""
        if isinstance(heard, Snapshot):
            self._mirror.begin(heard)
        else:
            if heard.revision <= self._mirror.revision:
                return
            self._feed_what_is_written(heard)
            self._mirror.take(heard)
        self._note_time(heard.revision)
        self._take_note()

    def _note_time(self, revision: int) -> None:
        """Remember when news came, for caches that take it in late; of the last few thousand writes."""
        if not self._lag_ns:
            return
        self._heard_revisions.append(revision)
        self._heard_times.append(self._ctx.now)
        if len(self._heard_times) > 2 * TIMES_KEPT:
            del self._heard_revisions[:TIMES_KEPT]
            del self._heard_times[:TIMES_KEPT]

    def _take_note(self) -> None:
        """Handle notifications: caches without news of their keys advance; the others are to take theirs in.

        Upstream a progress notification does the former, requested by the waiting reads.
        """
        heard, held, notifies = self._mirror.revision, self._held, self._options.progress_notify
        for feed in self._fed.values():
            cache = feed.cache
            if cache.revision >= heard or feed.resource in held:
                continue
            if self._has_news(cache):
                feed.news.notify_all()
            elif notifies:
                cache.revision = heard
        self._moved.notify_all()

    def _feed_what_is_written(self, news: News) -> None:
        """Every resource has its cache before any request, at latest when it is first written to."""
        for prefix in dict.fromkeys(prefix for prefix, _ in news.events):
            if prefix in self._fed or prefix == EVENTS_PREFIX:
                continue
            info = next((each for each in self._core.table if each.storage_prefix == prefix), None)
            if info is not None:
                self._core.caches.of(info)

    def _feed(self, info: ResourceInfo, cache: WatchCache) -> None:
        """A cache was made: it takes in news from now on."""
        known = self._fed.get(info.storage_prefix)
        if known is not None:  # its definition went and came again
            self._ctx.cancel(known.task)
        news = self._ctx.condition()
        name = f"cache {info.resource}"
        task = self._ctx.spawn(self._follow_store, info.resource, cache, news, name=name)
        self._fed[info.storage_prefix] = _Source(info.resource, cache, news, task)

    async def _follow_store(
        self, ctx: Context, resource: str, cache: WatchCache, news: Condition
    ) -> None:
        """Take one resource's news into its cache and tell the watchers."""
        due, point = 0, f"apiserver.cache {resource}"
        while True:
            while resource in self._held or not self._has_news(cache):
                await news.wait(idle=True, point=point)
            target = self._mirror.revision
            relists = cache.revision < cache.keyspace.store.compacted
            if self._lag_ns and not relists and resource != "events":
                target = cache.pending()[0].revision
                due = max(due, self._when_heard(target) + self._lag(ctx, resource))
                if due > ctx.now:
                    await ctx.sleep_until(due, point="apiserver.lag")
            while resource in self._held:
                await news.wait(idle=True, point=point)
            relists = cache.revision < cache.keyspace.store.compacted
            if not self._options.progress_notify and not relists:
                target = min(target, cache.keyspace.latest)
            cache.advance(target)
            if relists:
                ctx.log("apiserver.relisted", data={"resource": resource, "rv": cache.revision})
            self._take_note()
            self._streams.flush()
            if self._front is not None:
                self._front.sweep()
            if resource in POLICIES:
                self._note_policies()
            if resource == CRDS:
                await self.settle(ctx)

    def _has_news(self, cache: WatchCache) -> bool:
        """Return whether a received notification is not in the cache yet."""
        keyspace = cache.keyspace
        if keyspace.latest <= cache.revision or self._mirror.revision <= cache.revision:
            return False
        if keyspace.store.compacted > cache.revision:
            return True
        return cache.pending()[0].revision <= self._mirror.revision

    def _when_heard(self, revision: int) -> int:
        """Return the time at which the notification of a write arrived."""
        at = bisect_left(self._heard_revisions, revision)
        return self._heard_times[at] if at < len(self._heard_times) else 0

    def _lag(self, ctx: Context, resource: str) -> int:
        """By how much a piece of news is taken in late. News stays in order."""
        share = ctx.choose("lag", LAG_OPTIONS, f"{ctx.actor} {resource}")
        return self._lag_ns * share // (LAG_OPTIONS - 1)

    def finds_definitions(self) -> bool:
        """Return whether custom resources were defined before this server began."""
        prefix = resource_named("apiextensions.k8s.io", CRDS).storage_prefix
        return bool(self._mirror.keyspace(prefix).entries)

    async def settle(self, ctx: Context) -> None:
        """Serve all defined custom resources; repeat until the store has returned them."""
        while True:
            steps = self._core.settling(self._now())
            try:
                operation = next(steps)
                while True:
                    operation = steps.send(await self._perform(ctx, operation))
            except StopIteration:
                return
            except (LinkBroken, Timeout):
                await ctx.sleep(RECONNECT_NS, idle=True, point="apiserver.definitions")

    # ------------------------------------------------------------------ clocks

    async def send_bookmarks(self, ctx: Context) -> None:
        """Every minute tell the watches that asked for it how far they are."""
        while True:
            await ctx.sleep(BOOKMARKS_NS, idle=True, point="apiserver.bookmarks")
            for watcher in list(self._marked):
                if watcher.closed:
                    del self._marked[watcher]
                else:
                    self._core.send_bookmark(watcher)
            self._streams.flush()

    async def compact(self, ctx: Context) -> None:
        """In turns with the other servers, let the store forget what is older than one round."""
        turn = noted = 0
        while True:
            await ctx.sleep(self._options.compaction_ns, idle=True, point="apiserver.compactor")
            try:
                done = await self._perform(ctx, Compact(turn, noted))
            except (LinkBroken, Timeout):
                continue
            assert isinstance(done, Done)
            if done.made:
                ctx.log("apiserver.compacted", level=DEBUG, data={"revision": noted})
            turn, noted = done.turn, done.revision


def _ignored(_result: object, _revision: int | None) -> None:
    """A read has nothing to finish: its answer is returned."""
