"""How one of several API servers over a shared store lives.

What differs from the server that has the store to itself (`actor`): every transaction and every
quorum read is a message to the store's actor and back, so servers interleave; news of writes comes
by the same way, and each watch cache takes it in at its own pace. So a cached read may be stale, by
as much as the schedule, the link or a fault wills: the server may be cut from the store, or one of
its caches held (`Hold`), and still answer `resourceVersion=0`.

Reads go as upstream (section 2.2 and 3.1 of the facts): no version needs the store's revision first
and is answered by the cache once that is as far, else, after three seconds, by the store; version 0
is whatever the cache has; another one waits for the cache at most three seconds.

Points: `recv`, `apiserver.request` (a worker takes a request), `apiserver.etcd` (the store has
answered), `apiserver.fresh` (a cache may have caught up), `apiserver.feed` (news of the store),
`apiserver.cache` (one watch cache moves on), `apiserver.lag`, `apiserver.bookmarks`,
`apiserver.compactor`, `apiserver.watch` (a watch's time limit).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import evolve, frozen

from actors import LinkBroken, Timeout
from actors.inlet import ExternalMessage
from actors.log import DEBUG
from controlplane.api.request import Response
from controlplane.api.times import SECOND
from controlplane.apiserver.loops.etcd import ETCD, CompactionRecord, Follow, Publish, Transaction
from controlplane.apiserver.loops.server import READ_VERBS, Activity, _Server
from controlplane.apiserver.requests.server import ApiServer, failure
from controlplane.apiserver.schema import status
from controlplane.client.loops.connection import Ping
from controlplane.client.loops.informer import WatchBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Condition, Context, Mailbox, Message, Task
    from controlplane.api.request import Request
    from controlplane.apiserver.schema.resources import ResourceInfo
    from controlplane.apiserver.storage.watch_cache import WatchCache, Watcher

FRESH_NS = 3 * SECOND
"""How long a read waits for its cache. Upstream: cacher, blockTimeout."""
REQUEST_NS = 34 * SECOND
"""How long a request waits for the store. Upstream: the bound of the writing handlers."""
BOOKMARKS_NS = 60 * SECOND
COMPACTION_NS = 300 * SECOND
"""`--etcd-compaction-interval`."""
RECONNECT_NS = SECOND
LAG_OPTIONS = 4
TIMES_KEPT = 4096
EVENTS_PREFIX = "/registry/events/"
"""Events have no watch cache: reads go to the store, and what serves their watches does not lag."""
CRDS = "customresourcedefinitions"


@frozen
class ReplicaOptions:
    """What may be set for API servers that share a store.

    Args:
        compaction_ns: how often they try to compact the store; 0: never.
        lag_ns: by how much a cache may take in a write late (a choice each time, none is option 0).
        lagging: the servers to which that may happen; none named: all.
        consistent_list_from_cache: feature gate ConsistentListFromCache (on from 1.31): lists
            without a version come from the cache; without it from the store.
        progress_notify: the store tells how far a watch without events is (KEP-1904, from 1.20).
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
        """What the event log calls it."""
        return f"hold {self.resource}"


class Release(NamedTuple):
    """The end of a `Hold`."""

    resource: str

    @property
    def label(self) -> str:
        """What the event log calls it."""
        return f"release {self.resource}"


class _Feed(NamedTuple):
    """One watch cache and who moves it on."""

    resource: str
    cache: WatchCache
    news: Condition
    task: Task


async def run(
    ctx: Context,
    make_core: Callable[[Context], ApiServer],
    epoch_ns: int,
    activity: Activity,
    options: ReplicaOptions,
    record: CompactionRecord,
) -> None:
    """Main task; see `actor.run`. `record` is the key by which the servers agree on compaction."""
    core = make_core(ctx)
    server = _Replica(ctx, core, epoch_ns, activity, options)
    ctx.spawn(server.hear, name="feed")
    ctx.spawn(server.send_bookmarks, name="bookmarks")
    if options.compaction_ns:
        ctx.spawn(server.compact, record, name="compactor")
    try:
        while True:
            server.serve(await ctx.recv(idle=True))
    finally:
        server.hang_up()


class _Replica(_Server):
    """One server's memory beside its core: jobs, feeds, and who waits for a cache."""

    def __init__(
        self,
        ctx: Context,
        core: ApiServer,
        epoch_ns: int,
        activity: Activity,
        options: ReplicaOptions,
    ) -> None:
        super().__init__(ctx, core, epoch_ns, activity)
        self._options = options
        self._heard = core.store.revision
        core.heard = lambda: self._heard
        lags = not options.lagging or ctx.actor in options.lagging
        self._lag_ns = options.lag_ns if lags else 0
        self._heard_revisions: list[int] = []
        self._heard_times: list[int] = []
        self._jobs: deque[Message] = deque()
        self._work = ctx.condition()
        self._idle_workers = 0
        self._moved = ctx.condition()
        self._held: dict[str, None] = {}
        self._fed: dict[str, _Feed] = {}
        self._marked: dict[Watcher, Request] = {}
        self._feed(core.registry_of("apiextensions.k8s.io", CRDS).info)

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
                self._respond(message, self._core.handle(payload, self._now()))
            else:
                self._hand_over(message)

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    def _wrote(self) -> None:
        """A request from outside the world, which runs in one step here, may have written."""
        with suppress(LinkBroken):
            self._ctx.send(ETCD, Publish())

    def _know(self, request: Request) -> None:
        """Let a resource that is asked for the first time have its cache, and its feed."""
        info = self._core.table.get(request.group, request.version, request.resource)
        if info is not None and (info.resource != "events" or request.verb == "watch"):
            self._feed(info)

    def _is_local(self, request: Request) -> bool:
        """Whether the cache answers as it is."""
        return (
            request.verb in ("get", "list")
            and request.query.get("resourceVersion") == "0"
            and request.resource != "events"
        )

    def _hand_over(self, message: Message) -> None:
        self._jobs.append(message)
        if self._idle_workers:
            self._work.notify()
        else:
            self._ctx.spawn(self._worker, name="request")

    async def _worker(self, ctx: Context) -> None:
        """Answer requests, one after the other; there are as many workers as were ever needed at once."""
        while True:
            while not self._jobs:
                self._idle_workers += 1
                await self._work.wait(idle=True, point="apiserver.request")
                self._idle_workers -= 1
            message = self._jobs.popleft()
            request: Request = message.payload
            if message.stream is not None:
                await self._open_watch(ctx, request, message.stream)
            elif request.verb in READ_VERBS:
                self._respond(message, await self._read(ctx, request))
            else:
                self._respond(message, await self._write(ctx, request))

    async def _transaction(self, ctx: Context, run: Callable[[], Any], label: str) -> Any:
        """Let the store do something in one step. LinkBroken, Timeout: it may have done it or not."""
        deadline = ctx.now + REQUEST_NS
        return await ctx.ask(
            ETCD, Transaction(run, deadline, label), REQUEST_NS, point="apiserver.etcd"
        )

    async def _in_store(self, ctx: Context, request: Request) -> tuple[Response, int | None]:
        """Handle a request where the store is; the answer, and the revision if something was written."""
        core = self._core
        store = core.store

        def handle() -> tuple[Response, int | None]:
            before = store.revision
            response = core.handle(request, self._now())
            return response, store.revision if store.revision != before else None

        try:
            done: tuple[Response, int | None] = await self._transaction(ctx, handle, request.label)
        except LinkBroken:
            text = "rpc error: code = Unavailable desc = error reading from server: EOF"
            return failure(status.plain_error(text)), None
        except Timeout:
            text = "request did not complete within the allotted timeout"
            return failure(status.timeout(text, 0)), None
        return done

    async def _write(self, ctx: Context, request: Request) -> Response:
        response, revision = await self._in_store(ctx, request)
        self._log(request, response, revision)
        self._activity.note(request, response, self._now())
        return response

    # ------------------------------------------------------------------ reading

    async def _read(self, ctx: Context, request: Request) -> Response:
        query = request.query
        version = query.get("resourceVersion", "")
        if version == "0":
            # Events have no watch cache: any version is the newest one.
            query = {name: value for name, value in query.items() if name != "resourceVersion"}
            return (await self._in_store(ctx, evolve(request, query=query)))[0]
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
                return self._core.handle(evolve(request, query=fresh), self._now())
        return (await self._in_store(ctx, request))[0]

    async def _read_at(self, ctx: Context, request: Request) -> Response:
        """A read at or after some version: exact ones are the store's, others wait for the cache."""
        query = request.query
        match = query.get("resourceVersionMatch", "")
        limited = query.get("limit", "0") not in ("", "0")
        exact = match == "Exact" or (request.verb == "list" and limited and not match)
        if exact or request.resource == "events":
            return (await self._in_store(ctx, request))[0]
        wanted = self._core.wanted_revision(request)
        if wanted is not None and not await self._fresh(ctx, request, wanted[1]):
            cache, revision = wanted
            return failure(status.too_large_resource_version(revision, cache.revision, 1))
        return self._core.handle(request, self._now())

    async def _current(self, ctx: Context) -> int | None:
        """The store's revision, read where the store is; None if it cannot be reached."""
        store = self._core.store
        try:
            revision: int = await self._transaction(ctx, lambda: store.revision, "revision")
        except (LinkBroken, Timeout):
            return None
        return revision

    async def _fresh(self, ctx: Context, request: Request, revision: int) -> bool:
        """Wait until the cache has reached a revision; whether it has in time."""
        info = self._core.table.get(request.group, request.version, request.resource)
        if info is None:
            return True
        cache = self._core.cache(info)
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
        streams_state = initial not in (None, "0", "false")
        if not version:
            current = await self._current(ctx)
            if current is None:
                gone = status.timeout("the store cannot be reached", 1)
                self._ctx.send(stream, WatchBatch((), end=True, error=gone.tree))
                return
            if initial is not None and not streams_state:
                request = evolve(request, query={**query, "resourceVersion": str(current)})
            elif not await self._fresh(ctx, request, current):
                late = status.too_large_resource_version(current, self._heard, 1)
                self._ctx.send(stream, WatchBatch((), end=True, error=late.tree))
                return
        elif streams_state and version.isdigit():
            await self._fresh(ctx, request, int(version))  # not in time: the stream will say so
        if stream.broken or not stream.owner.alive:
            return
        watcher = self._open(request, stream, self._now())
        if watcher is not None and not watcher.closed:
            opened = watcher
            watcher.on_stop = lambda: self._filled.append(opened)
            if query.get("allowWatchBookmarks") in ("true", "1"):
                self._marked[watcher] = request

    # ------------------------------------------------------------------ news of the store

    async def hear(self, ctx: Context) -> None:
        """Keep a watch on the store. A reset connection is made again, and nothing is lost by it."""
        while True:
            try:
                stream = ctx.open(ETCD, Follow(), name="apiserver.feed")
            except LinkBroken:
                await ctx.sleep(RECONNECT_NS, idle=True, point="apiserver.feed")
                continue
            try:
                while True:
                    revision = (await stream.recv(idle=True)).payload.revision
                    if revision > self._heard:
                        self._feed_what_is_written()
                        self._note_time(revision)
                        self._heard = revision
                        self._take_note()
            except LinkBroken:
                ctx.close(stream)
                await ctx.sleep(RECONNECT_NS, idle=True, point="apiserver.feed")

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
        """News came: caches whose keys it is not about are as far; the others have something to take in.

        Upstream a progress notification does the former, asked for by whoever waits.
        """
        for feed in self._fed.values():
            if feed.resource in self._held:
                continue
            if self._has_news(feed.cache):
                feed.news.notify_all()
            elif self._options.progress_notify:
                feed.cache.revision = max(feed.cache.revision, self._heard)
        self._moved.notify_all()

    def _feed_what_is_written(self) -> None:
        """Every resource has its cache before anybody asks, at latest when it is first written to."""
        store = self._core.store
        for prefix in store.prefixes():
            if prefix in self._fed or prefix == EVENTS_PREFIX:
                continue
            if store.keyspace(prefix).latest > self._heard:
                info = next(
                    (each for each in self._core.table if each.storage_prefix == prefix), None
                )
                if info is not None:
                    self._feed(info)

    def _feed(self, info: ResourceInfo) -> None:
        """Make sure that a resource's cache is there and fed."""
        prefix = info.storage_prefix
        cache = self._core.cache(info)
        known = self._fed.get(prefix)
        if known is not None and known.cache is cache:
            return
        if known is not None:  # its definition went and came again
            self._ctx.cancel(known.task)
        news = self._ctx.condition()
        name = f"cache {info.resource}"
        task = self._ctx.spawn(self._follow_store, info.resource, cache, news, name=name)
        self._fed[prefix] = _Feed(info.resource, cache, news, task)

    async def _follow_store(
        self, ctx: Context, resource: str, cache: WatchCache, news: Condition
    ) -> None:
        """Take one resource's news into its cache and tell the watchers."""
        due = 0
        while True:
            while resource in self._held or not self._has_news(cache):
                await news.wait(idle=True, point="apiserver.cache")
            target = self._heard
            relists = cache.revision < cache.keyspace.store.compacted
            if self._lag_ns and not relists and resource != "events":
                target = cache.pending()[0].revision
                due = max(due, self._when_heard(target) + self._lag(ctx, resource))
                if due > ctx.now:
                    await ctx.sleep_until(due, point="apiserver.lag")
            while resource in self._held:
                await news.wait(idle=True, point="apiserver.cache")
            relists = cache.revision < cache.keyspace.store.compacted
            if not self._options.progress_notify and not relists:
                target = min(target, cache.keyspace.latest)
            cache.advance(target)
            if relists:
                ctx.log("apiserver.relisted", data={"resource": resource, "rv": cache.revision})
            self._take_note()
            self._flush()
            if self._front is not None:
                self._front.sweep()
            if resource == CRDS:
                await self._settle(ctx)

    def _has_news(self, cache: WatchCache) -> bool:
        """Whether something was heard that the cache has not taken in."""
        keyspace = cache.keyspace
        if keyspace.latest <= cache.revision or self._heard <= cache.revision:
            return False
        if keyspace.store.compacted > cache.revision:
            return True
        return cache.pending()[0].revision <= self._heard

    def _when_heard(self, revision: int) -> int:
        """When the news of a write came."""
        at = bisect_left(self._heard_revisions, revision)
        return self._heard_times[at] if at < len(self._heard_times) else 0

    def _lag(self, ctx: Context, resource: str) -> int:
        """By how much a piece of news is taken in late. News stays in order."""
        share = ctx.choose("lag", LAG_OPTIONS, f"{ctx.actor} {resource}")
        return self._lag_ns * share // (LAG_OPTIONS - 1)

    async def _settle(self, ctx: Context) -> None:
        """Serve the custom resources that another server has defined."""
        core = self._core
        with suppress(LinkBroken, Timeout):
            await self._transaction(ctx, lambda: core.settle(self._now()), "settle")

    # ------------------------------------------------------------------ clocks

    async def send_bookmarks(self, ctx: Context) -> None:
        """Every minute tell the watches that asked for it how far they are."""
        while True:
            await ctx.sleep(BOOKMARKS_NS, idle=True, point="apiserver.bookmarks")
            for watcher, request in list(self._marked.items()):
                if watcher.closed:
                    del self._marked[watcher]
                else:
                    self._core.send_bookmark(request, watcher)
            self._flush()

    async def compact(self, ctx: Context, record: CompactionRecord) -> None:
        """In turns with the other servers, let the store forget what is older than one round."""
        store = self._core.store
        turn = noted = 0

        def attempt() -> tuple[int, int]:
            if record.version != turn:
                return record.version, store.revision
            record.version += 1
            revision = store.advance_revision()
            if noted:
                store.compact(noted)
            return record.version, revision

        while True:
            await ctx.sleep(self._options.compaction_ns, idle=True, point="apiserver.compactor")
            try:
                turn, noted = await self._transaction(ctx, attempt, "compact")
            except (LinkBroken, Timeout):
                continue
            ctx.log("apiserver.compacted", level=DEBUG, data={"revision": store.compacted})
