"""The reflector: lists and watches one resource and queues what it hears. Upstream: client-go tools/cache/reflector.go.

With the plain client library it asks for one whole list from the server's cache and watches
without a time limit. A release's own library begins with a stream of the current state
(WatchListClient) or lists in pages, and lets the server end each watch after five to ten minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol

from actors import LinkBroken
from actors.log import WARNING
from controlplane.api.generic import V, V_co
from controlplane.api.times import SECOND
from controlplane.client.deltas import ADDED, DELETED, UPDATED, Delta
from controlplane.client.errors import ApiError, is_expired, is_not_found, is_too_large
from controlplane.client.loops.clientset import Client, ObjectList, Resource
from controlplane.client.loops.connection import connection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors import Context, Mailbox
    from controlplane.api.object import Object
    from controlplane.client.deltas import DeltaQueue
    from controlplane.client.features import ClientFeatures
    from controlplane.client.loops.connection import RestConfig
    from controlplane.client.older_queues import DeltaFifo, RealFifo

BACKOFF_START_NS = 800_000_000
BACKOFF_MAX_NS = 30 * SECOND
BACKOFF_RESET_NS = 120 * SECOND
HOPELESS_LISTS = 8
"""A resource that is not served so often in a row no longer keeps a run from settling; it is still asked for."""
JITTER_OPTIONS = 8
TOO_MANY_REQUESTS = 429
WATCH_SECONDS = 300
"""A watch is asked for this long at least, and for less than twice as long."""
TIMEOUT_OPTIONS = 16
INITIAL_END = "k8s.io/initial-events-end"
_DELTA_TYPES = {"ADDED": ADDED, "MODIFIED": UPDATED, "DELETED": DELETED}


class WatchEvent(Protocol[V_co]):
    """One event of a watch: ADDED, MODIFIED, DELETED with the object, BOOKMARK with one that has a version only.

    ERROR comes with a Status, and nothing comes after it.
    """

    @property
    def type(self) -> str:
        """Return the type of the event."""

    @property
    def object(self) -> Object[V_co]:
        """The object as it was then."""

    @property
    def revision(self) -> int:
        """The version of the store."""


class WatchBatch(NamedTuple, Generic[V_co]):
    """One message of a watch stream: events in order, and the end of the stream, if it ends.

    `error` is a Status tree; `end` without an error is a clean end (the server's time limit).
    """

    events: Sequence[WatchEvent[V_co]]
    end: bool = False
    error: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        """Return its name in the event log."""
        if len(self.events) == 1:
            event = self.events[0]
            return f"{event.type} {event.object.key}"
        return f"{len(self.events)} events"


class Backoff:
    """Waits that double, and begin anew when two minutes passed since the last one."""

    __slots__ = ("_last", "_next")

    def __init__(self) -> None:
        self._next = BACKOFF_START_NS
        self._last = 0

    def next(self, now: int) -> int:
        """The next wait, without jitter."""
        if now - self._last > BACKOFF_RESET_NS:
            self._next = BACKOFF_START_NS
        self._last = now
        wait = self._next
        self._next = min(2 * wait, BACKOFF_MAX_NS)
        return wait


class Reflector(Generic[V]):
    """Keeps a delta queue fed. `queued` is called when something was queued."""

    def __init__(
        self,
        resource: Resource[V],
        server: RestConfig,
        query: dict[str, str],
        features: ClientFeatures,
        queue: DeltaQueue[V] | RealFifo[V] | DeltaFifo[V],
        queued: Callable[[], None],
    ) -> None:
        self.resource = resource
        self._server = server
        self._direct = server.direct is not None
        self._query = query
        self._features = features
        self._queue = queue
        self._queued = queued
        self._last_version = ""
        self._unavailable = False
        self._paginated = False
        self._streams_state = features.watch_list_client
        self._backoff = Backoff()
        self._unserved = 0
        self.on_unserved: Callable[[], None] | None = None
        """Told when the server does not know the resource."""
        self._stream: Mailbox | None = None

    @property
    def unserved(self) -> bool:
        """Return whether the server did not know the resource when it was asked last."""
        return self._unserved > 0

    def close(self, ctx: Context) -> None:
        """Tell the server that the watch has ended, once the task is cancelled."""
        if self._stream is not None:
            ctx.close(self._stream)
            self._stream = None

    async def run(self, ctx: Context) -> None:
        """List and watch for ever; between two attempts, even clean ones, there is a backoff."""
        client = Client(ctx, self._server)
        while True:
            try:
                stream = None
                if self._streams_state:
                    stream = await self._watch_list(ctx, client)
                if stream is None:
                    await self._list(client)
                self._unserved = 0
                await self._watch(ctx, client, stream)
            except (ApiError, LinkBroken) as error:
                told = str(error)
                if isinstance(error, ApiError) and is_not_found(error):
                    self._unserved += 1
                    if self.on_unserved is not None:
                        self.on_unserved()
                    told = f"failed to list {self.resource.full_name}: {told}"
                ctx.log("reflector.error", level=WARNING, data={"message": told})
            await self._back_off(ctx)

    async def _back_off(self, ctx: Context) -> None:
        share = ctx.choose("jitter", JITTER_OPTIONS, "reflector backoff")
        wait = self._backoff.next(ctx.now)
        wait += wait * share // JITTER_OPTIONS
        await ctx.sleep(wait, idle=self._unserved > HOPELESS_LISTS, point="reflector.backoff")

    # ------------------------------------------------------------------ the state

    async def _list(self, client: Client) -> None:
        """Fill the store anew: not older than what it has seen, or the newest there is if that cannot be had."""
        query = dict(self._query)
        if not self._unavailable:
            query["resourceVersion"] = self._last_version or "0"
        try:
            answer = await self._pages(client, query)
        except ApiError as error:
            if not (is_expired(error) or is_too_large(error)):
                raise
            self._unavailable = True
            query.pop("resourceVersion", None)
            answer = await self._pages(client, query)
        self._unavailable = False
        self._replaced(answer.items, answer.resource_version)

    def _replaced(self, items: Sequence[Object[V]], version: str) -> None:
        self._last_version = version
        self._queue.replace(tuple(items), version)
        self._queued()

    async def _pages(self, client: Client, query: dict[str, str]) -> ObjectList[V]:
        """A whole list, in pages where upstream's pager asks for pages.

        A page that is too old makes the list begin again, whole and without pages.
        """
        size = self._features.page_size
        version = query.get("resourceVersion", "")
        if not size or (version not in ("", "0") and not self._paginated):
            return await client.list(self.resource, **query)
        limit = {"limit": str(size)}
        page = await client.list(self.resource, **query, **limit)
        if not page.continue_token:
            return page
        self._paginated = self._paginated or version == "0"
        items = list(page.items)
        rest = {name: value for name, value in query.items() if name != "resourceVersion"}
        while page.continue_token:
            more = {**rest, **limit, "continue": page.continue_token}
            try:
                page = await client.list(self.resource, **more)
            except ApiError as error:
                if not is_expired(error):
                    raise
                return await client.list(self.resource, **query)
            items += page.items
        return ObjectList(items, page.resource_version)

    async def _watch_list(self, ctx: Context, client: Client) -> Mailbox | None:
        """Fill the store from a stream of the current state; the stream goes on as the watch.

        None when the server cannot do it: then a list has to.
        """
        while True:
            version = "" if self._unavailable else self._last_version
            try:
                stream = client.watch(
                    self.resource,
                    **self._watch_query(ctx, version),
                    sendInitialEvents="true",
                    resourceVersionMatch="NotOlderThan",
                )
            except LinkBroken as error:
                ctx.log("reflector.error", level=WARNING, data={"message": str(error)})
                await self._back_off(ctx)
                continue
            try:
                complete = await self._collect(ctx, stream)
            except ApiError as error:
                ctx.close(stream)
                if is_expired(error) or is_too_large(error):
                    if self._unavailable or not self._last_version:
                        await self._back_off(ctx)
                    self._unavailable = True
                elif error.code == TOO_MANY_REQUESTS:
                    await self._back_off(ctx)
                else:
                    data = {"message": f"falling back to list: {error}"}
                    ctx.log("reflector.error", level=WARNING, data=data)
                    self._streams_state = False
                    return None
            else:
                if complete:
                    self._unavailable = False
                    return stream
                ctx.close(stream)
                await self._back_off(ctx)

    async def _collect(self, ctx: Context, stream: Mailbox) -> bool:
        """Read the current state up to its closing bookmark; False when the stream ends before.

        Raises ApiError for what the server refuses with.
        """
        state: dict[str, Object[V]] = {}
        while True:
            try:
                message = await self._receive(ctx, stream)
            except LinkBroken:
                return False
            batch: WatchBatch[V] = message.payload
            for number, event in enumerate(batch.events):
                obj = event.object
                if event.type == "ERROR":
                    raise ApiError(obj.tree.get("code", 500), obj.tree)
                if event.type == "BOOKMARK":
                    if INITIAL_END in (obj.metadata.get("annotations") or {}):
                        self._replaced(list(state.values()), str(event.revision))
                        self._take(batch._replace(events=batch.events[number + 1 :]))
                        return True
                elif event.type == "DELETED":
                    state.pop(obj.key, None)
                else:
                    state[obj.key] = obj
            if batch.error is not None:
                raise ApiError(batch.error.get("code", 500), batch.error)
            if batch.end:
                return False

    # ------------------------------------------------------------------ the changes

    def _watch_query(self, ctx: Context, version: str) -> dict[str, str]:
        query = {**self._query, "resourceVersion": version} if version else dict(self._query)
        if self._features.watch_timeouts:
            share = ctx.choose("timeout", TIMEOUT_OPTIONS, f"watch {self.resource.name}")
            seconds = WATCH_SECONDS + WATCH_SECONDS * share // TIMEOUT_OPTIONS
            query["timeoutSeconds"] = str(seconds)
        return query

    async def _watch(self, ctx: Context, client: Client, stream: Mailbox | None) -> None:
        """Watch until something happens that needs a new list. `stream` is open already, if given.

        A stream that ends, or whose connection breaks, is opened again at the version reached; so
        is one that the server cannot be asked for at all, or only later (429), after a backoff.
        """
        while True:
            if stream is None:
                try:
                    stream = client.watch(
                        self.resource, **self._watch_query(ctx, self._last_version)
                    )
                except LinkBroken as error:
                    ctx.log("reflector.error", level=WARNING, data={"message": str(error)})
                    await self._back_off(ctx)
                    continue
            self._stream = stream
            opened = ctx.now
            events = 0
            try:
                while (batch := await self._read(ctx, stream)) is not None:
                    events += len(batch.events)
                    if batch.error is not None:
                        raise ApiError(batch.error.get("code", 500), batch.error)
                    if batch.end:
                        break
            except ApiError as error:
                if error.code != TOO_MANY_REQUESTS:
                    raise
                await self._back_off(ctx)
                continue
            finally:
                ctx.close(stream)
                stream = None
            if not events and ctx.now - opened < SECOND:
                data = {"message": f"very short watch of {self.resource.name}: no events received"}
                ctx.log("reflector.error", level=WARNING, data=data)
                return

    async def _receive(self, ctx: Context, stream: Mailbox) -> Any:
        if self._direct:
            message = await stream.recv(idle=True)
        else:
            message = await connection(ctx, self._server).read(ctx, stream)
        ctx.reads()
        return message

    async def _read(self, ctx: Context, stream: Mailbox) -> WatchBatch[V] | None:
        """Queue what the next message brings; None when the connection broke."""
        try:
            message = await self._receive(ctx, stream)
        except LinkBroken:
            return None
        return self._take(message.payload)

    def _take(self, batch: WatchBatch[V]) -> WatchBatch[V]:
        """Queue what came, up to an error."""
        for event in batch.events:
            if event.type == "ERROR":
                batch = batch._replace(error=event.object.tree)
                break
            self._last_version = version = str(event.revision)
            if event.type == "BOOKMARK":
                self._queue.bookmark(version)
            else:
                self._queue.add(Delta(_DELTA_TYPES[event.type], event.object, (), version))
        if batch.events:
            self._queued()
        return batch
