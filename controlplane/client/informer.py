"""Reflector, processor and listeners: the three kinds of task that keep a component's cache of one resource.

The reflector lists and watches and queues deltas; the processor brings the store up to them and
hands notifications to the listeners; each listener calls one handler, in order, at its own pace. So
a handler may read a store that is ahead of what it is told, and two handlers may be at different
places: as in client-go (tools/cache, section 5 of the facts).

Points: `reflector.list`, `reflector.watch`, `watch <resource>` (an event batch arrives),
`informer.process`, `informer.notify`.
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
from controlplane.client.errors import ApiError
from controlplane.client.indexer import Indexer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors import Condition, Context, Mailbox
    from controlplane.api.object import Object

SECOND = 1_000_000_000
BACKOFF_START_NS = 800_000_000
BACKOFF_MAX_NS = 30 * SECOND
JITTER_OPTIONS = 8
_DELTA_TYPES = {"ADDED": ADDED, "MODIFIED": UPDATED, "DELETED": DELETED}


class WatchEvent(Protocol):
    """One event of a watch: ADDED, MODIFIED, DELETED with the object, BOOKMARK with one that has a version only."""

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


class Listener:
    """One handler and what it has still to be told."""

    __slots__ = ("condition", "handler", "name", "pending", "synced")

    def __init__(self, name: str, handler: Handler, condition: Condition) -> None:
        self.name = name
        self.handler = handler
        self.condition = condition
        self.pending: deque[Notification] = deque()
        self.synced = False


class Informer:
    """The cache of one resource in one component.

    Args:
        ctx: the component's context; the informer's tasks belong to it.
        resource: what to watch.
        store: where objects go (give indexes there).
        query: selectors for list and watch (fieldSelector, labelSelector).
    """

    def __init__(
        self,
        ctx: Context,
        resource: Resource,
        store: Indexer | None = None,
        *,
        server: str = "apiserver",
        **query: str,
    ) -> None:
        self.resource = resource
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

    def add_handler(self, handler: Handler, name: str = "handler") -> None:
        """Add a handler, before the informer starts."""
        self._listeners.append(Listener(name, handler, self._ctx.condition()))

    def start(self) -> None:
        """Start the tasks."""
        self._ctx.spawn(self._reflect, name=f"{self.resource.name}.reflector")
        self._ctx.spawn(self._process, name=f"{self.resource.name}.processor")
        for listener in self._listeners:
            self._ctx.spawn(self._listen, listener, name=f"{self.resource.name}.{listener.name}")

    async def wait_synced(self) -> None:
        """Wait until the first list is in the store and every handler has been told of it."""
        await self._synced.wait(idle=True, point="informer.sync")

    # ------------------------------------------------------------------ reflector

    async def _reflect(self, ctx: Context) -> None:
        client = Client(ctx, self._server)
        backoff = BACKOFF_START_NS
        while True:
            try:
                await self._list(client)
                backoff = BACKOFF_START_NS
                await self._watch(ctx, client)
            except ApiError as error:
                if error.code == 410 or error.reason in {"Expired", "Gone"}:
                    # The next list still asks for "not older than what I have": it cannot go back in time.
                    self._unavailable = bool(self._unavailable or not self._last_version)
                ctx.log("reflector.error", level=WARNING, data={"message": error.message})
            except LinkBroken as error:
                ctx.log("reflector.error", level=WARNING, data={"message": str(error)})
            jitter = (
                backoff
                * ctx.choose("jitter", JITTER_OPTIONS, "reflector backoff")
                // JITTER_OPTIONS
            )
            await ctx.sleep(backoff + jitter, point="reflector.backoff")
            backoff = min(backoff * 2, BACKOFF_MAX_NS)

    async def _list(self, client: Client) -> None:
        query = dict(self._query)
        if not self._unavailable:
            query["resourceVersion"] = self._last_version or "0"
        try:
            answer = await client.list(self.resource, **query)
        except ApiError as error:
            if error.code != 410 or self._unavailable:
                raise
            self._unavailable = True
            query.pop("resourceVersion", None)
            answer = await client.list(self.resource, **query)
        self._unavailable = False
        self._last_version = answer.resource_version
        self._queue.add(Delta(REPLACED_ALL, None, tuple(answer.items), answer.resource_version))
        self._work.notify_all()

    async def _watch(self, ctx: Context, client: Client) -> None:
        """Watch until the server says something that needs a new list."""
        while True:
            stream = client.watch(self.resource, resourceVersion=self._last_version, **self._query)
            try:
                await self._read(stream)
            finally:
                ctx.close(stream)

    async def _read(self, stream: Mailbox) -> None:
        while True:
            message = await stream.recv(idle=True)
            batch: WatchBatch = message.payload
            for event in batch.events:
                self._last_version = version = str(event.revision)
                if event.type == "BOOKMARK":
                    self._queue.add(Delta(BOOKMARK, None, (), version))
                else:
                    self._queue.add(Delta(_DELTA_TYPES[event.type], event.object, (), version))
            if batch.events:
                self._work.notify_all()
            if batch.error is not None:
                raise ApiError(batch.error.get("code", 500), batch.error)
            if batch.end:
                return

    # ------------------------------------------------------------------ processor and listeners

    async def _process(self, ctx: Context) -> None:
        queue = self._queue
        while True:
            while not queue:
                await self._work.wait(idle=True, point="informer.process")
            batch = queue.pop_batch()
            notifications = apply(batch, self.store, initial=not queue.synced)
            first = not queue.synced
            queue.synced = True
            if notifications or first:
                for listener in self._listeners:
                    listener.pending.extend(notifications)
                    listener.condition.notify_all()
            if first and not self._listeners:
                self._listeners_synced()
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
