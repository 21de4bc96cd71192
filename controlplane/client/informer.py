"""Reflector, processor and listeners: the three kinds of task that keep a component's cache of one resource.

The reflector lists and watches and queues deltas; the processor brings the store up to them and
hands notifications to the listeners; each listener calls one handler, in order, at its own pace. So
a handler may read a store that is ahead of what it is told, and two handlers may be at different
places: as in client-go (tools/cache, section 5 of the facts).

Points: `reflector.backoff`, `watch <resource>` (an event batch arrives), `informer.process`,
`informer.notify`, and one for the list request.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors import LinkBroken
from actors.log import DEBUG, WARNING
from controlplane.client.clientset import Client, Resource
from controlplane.client.deltas import (
    ADDED,
    BOOKMARK,
    DELETED,
    REPLACED_ALL,
    UPDATED,
    Delta,
    DeltaQueue,
    Notification,
    apply,
)
from controlplane.client.errors import ApiError, is_expired, is_too_large
from controlplane.client.indexer import Indexer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors import Condition, Context, Mailbox
    from controlplane.api.object import Object

SECOND = 1_000_000_000
BACKOFF_START_NS = 800_000_000
BACKOFF_MAX_NS = 30 * SECOND
BACKOFF_RESET_NS = 120 * SECOND
JITTER_OPTIONS = 8
TOO_MANY_REQUESTS = 429
_DELTA_TYPES = {"ADDED": ADDED, "MODIFIED": UPDATED, "DELETED": DELETED}


class WatchEvent(Protocol):
    """One event of a watch: ADDED, MODIFIED, DELETED with the object, BOOKMARK with one that has a version only.

    ERROR comes with a Status, and nothing comes after it.
    """

    type: str
    object: Object
    revision: int


class WatchBatch(NamedTuple):
    """What the server sends in one message of a watch stream: events in order, and how the stream ends, if it does.

    `error` is a Status tree; `end` without an error is a clean end (the server's time limit).
    """

    events: Sequence[WatchEvent]
    end: bool = False
    error: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        """What the event log calls it."""
        if len(self.events) == 1:
            event = self.events[0]
            return f"{event.type} {event.object.key}"
        return f"{len(self.events)} events"


class Handler(Protocol):
    """What a component does about changes; called one notification at a time, synchronously."""

    def __call__(self, notification: Notification) -> None:
        """Take one notification."""


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


class Listener:
    """One handler and what it has still to be told."""

    __slots__ = ("condition", "deletes_only", "handler", "name", "pending", "synced")

    def __init__(
        self, name: str, handler: Handler, condition: Condition, *, deletes_only: bool
    ) -> None:
        self.name = name
        self.handler = handler
        self.condition = condition
        self.deletes_only = deletes_only
        self.pending: deque[Notification] = deque()
        self.synced = False


class Informer:
    """The cache of one resource in one component.

    Args:
        ctx: the component's context; the informer's tasks belong to it.
        resource: what to watch.
        store: where objects go (give indexes there).
        immediate: let the reflector bring the store up to date and call the handlers itself, in the
            same step: a bare reflector without a queue behind it, as the kubelet has.
        query: selectors for list and watch (fieldSelector, labelSelector).
    """

    def __init__(
        self,
        ctx: Context,
        resource: Resource,
        store: Indexer | None = None,
        *,
        server: str = "apiserver",
        immediate: bool = False,
        **query: str,
    ) -> None:
        self.resource = resource
        self._immediate = immediate
        self.store = store if store is not None else Indexer()
        self._ctx = ctx
        self._server = server
        self._query = query
        self._queue = DeltaQueue()
        self._work = ctx.condition()
        self._listeners: list[Listener] = []
        self._synced = ctx.event()
        self._last_version = ""
        self._unavailable = False
        self._backoff = Backoff()

    def add_handler(
        self, handler: Handler, name: str = "handler", *, deletes_only: bool = False
    ) -> None:
        """Add a handler, before the informer starts. With `deletes_only` it hears of nothing else."""
        condition = self._ctx.condition()
        self._listeners.append(Listener(name, handler, condition, deletes_only=deletes_only))

    def start(self) -> None:
        """Start the tasks."""
        self._ctx.spawn(self._reflect, name=f"{self.resource.name}.reflector")
        if self._immediate:
            return
        self._ctx.spawn(self._process, name=f"{self.resource.name}.processor")
        for listener in self._listeners:
            self._ctx.spawn(self._listen, listener, name=f"{self.resource.name}.{listener.name}")

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the store and every handler has been told of it."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the first list is in the store and every handler has been told of it."""
        await self._synced.wait(idle=True, point="informer.sync")

    # ------------------------------------------------------------------ reflector

    async def _reflect(self, ctx: Context) -> None:
        """List and watch for ever; between two attempts, even clean ones, there is a backoff."""
        client = Client(ctx, self._server)
        while True:
            try:
                await self._list(client)
                await self._watch(ctx, client)
            except (ApiError, LinkBroken) as error:
                ctx.log("reflector.error", level=WARNING, data={"message": str(error)})
            await self._back_off(ctx)

    async def _back_off(self, ctx: Context) -> None:
        share = ctx.choose("jitter", JITTER_OPTIONS, "reflector backoff")
        wait = self._backoff.next(ctx.now)
        await ctx.sleep(wait + wait * share // JITTER_OPTIONS, point="reflector.backoff")

    async def _list(self, client: Client) -> None:
        """Fill the store anew: not older than what it has seen, or the newest there is if that cannot be had."""
        query = dict(self._query)
        if not self._unavailable:
            query["resourceVersion"] = self._last_version or "0"
        try:
            answer = await client.list(self.resource, **query)
        except ApiError as error:
            if not (is_expired(error) or is_too_large(error)):
                raise
            self._unavailable = True
            query.pop("resourceVersion", None)
            answer = await client.list(self.resource, **query)
        self._unavailable = False
        self._last_version = answer.resource_version
        self._queue.add(Delta(REPLACED_ALL, None, tuple(answer.items), answer.resource_version))
        self._queued()

    async def _watch(self, ctx: Context, client: Client) -> None:
        """Watch until something happens that needs a new list.

        A stream that ends, or whose connection breaks, is opened again at the version reached; so
        is one that the server cannot be asked for at all, or only later (429), after a backoff.
        """
        while True:
            try:
                stream = client.watch(
                    self.resource, resourceVersion=self._last_version, **self._query
                )
            except LinkBroken as error:
                ctx.log("reflector.error", level=WARNING, data={"message": str(error)})
                await self._back_off(ctx)
                continue
            opened = ctx.now
            events = 0
            try:
                while (batch := await self._read(stream)) is not None:
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
            if not events and ctx.now - opened < SECOND:
                data = {"message": f"very short watch of {self.resource.name}: no events received"}
                ctx.log("reflector.error", level=WARNING, data=data)
                return

    async def _read(self, stream: Mailbox) -> WatchBatch | None:
        """Queue what the next message brings; None when the connection broke."""
        try:
            message = await stream.recv(idle=True)
        except LinkBroken:
            return None
        batch: WatchBatch = message.payload
        for event in batch.events:
            if event.type == "ERROR":
                batch = batch._replace(error=event.object.tree)
                break
            self._last_version = version = str(event.revision)
            if event.type == "BOOKMARK":
                self._queue.add(Delta(BOOKMARK, None, (), version))
            else:
                self._queue.add(Delta(_DELTA_TYPES[event.type], event.object, (), version))
        if batch.events:
            self._queued()
        return batch

    # ------------------------------------------------------------------ processor and listeners

    def _queued(self) -> None:
        """Deltas were queued: wake the processor, or do its work at once."""
        if not self._immediate:
            self._work.notify_all()
            return
        while self._queue:
            self._process_batch()
        for listener in self._listeners:
            while listener.pending:
                listener.handler(listener.pending.popleft())
            listener.synced = True
        self._listeners_synced()

    def _process_batch(self) -> None:
        """Bring the store up to the next batch and tell the listeners."""
        queue = self._queue
        notifications = apply(queue.pop_batch(), self.store, initial=not queue.synced)
        first = not queue.synced
        queue.synced = True
        for listener in self._listeners:
            told = notifications
            if listener.deletes_only:
                told = [each for each in notifications if each.new is None]
            if told or first:
                listener.pending.extend(told)
                listener.condition.notify_all()
        if first and not self._listeners:
            self._listeners_synced()

    async def _process(self, ctx: Context) -> None:
        queue = self._queue
        while True:
            while not queue:
                await self._work.wait(idle=True, point="informer.process")
            self._process_batch()
            if queue:
                await ctx.point("informer.process")

    async def _listen(self, ctx: Context, listener: Listener) -> None:
        pending = listener.pending
        handler = listener.handler
        while True:
            while not pending:
                if not listener.synced and self._queue.synced:
                    listener.synced = True
                    self._listeners_synced()
                await listener.condition.wait(idle=True, point="informer.notify")
            notification = pending.popleft()
            handler(notification)
            if pending:
                await ctx.point("informer.notify")

    def _listeners_synced(self) -> None:
        if self._synced.is_set():
            return
        if self._queue.synced and all(listener.synced for listener in self._listeners):
            self._ctx.log("informer.synced", level=DEBUG, data={"resource": self.resource.name})
            self._synced.set()


def handler(
    on_add: Callable[[Object], None],
    on_update: Callable[[Object, Object], None],
    on_delete: Callable[[Object, bool], None],
) -> Handler:
    """A handler from three functions; the flag of `on_delete` says that the final state is unknown."""

    def call(notification: Notification) -> None:
        if notification.new is None:
            assert notification.old is not None
            on_delete(notification.old, notification.final_state_unknown)
        elif notification.old is None:
            on_add(notification.new)
        else:
            on_update(notification.old, notification.new)

    return call


def together(*handlers: Handler) -> Handler:
    """One handler that tells several, in this order: they share a listener, and so one step per notification."""

    def call(notification: Notification) -> None:
        for each in handlers:
            each(notification)

    return call
