"""Reflector, processor and listeners: the three kinds of task that keep a component's cache of one resource.

The reflector lists and watches (in `reflector`) and queues deltas; the processor brings the store up to them and
hands notifications to the listeners; each listener calls one handler, in order, at its own pace. So
a handler may read a store that is ahead of what it is told, and two handlers may be at different
places: as in client-go (tools/cache, section 5 of the facts).

Which queue, and how the reflector begins, is a matter of the client library's release
(`features.ClientFeatures`, which come with the server's address).

Points: `reflector.backoff`, `watch <resource>` (an event batch arrives), `informer.process`,
`informer.notify`, `informer.resync`, and one for the list request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic

from actors.log import DEBUG
from controlplane.api.generic import V
from controlplane.client.deltas import DeltaQueue, Notification, apply
from controlplane.client.indexer import Indexer
from controlplane.client.loops.clientset import Resource
from controlplane.client.loops.connection import IN_CLUSTER, RestConfig
from controlplane.client.loops.reflector import Reflector, WatchBatch, WatchEvent
from controlplane.client.older_queues import queue_of

if TYPE_CHECKING:
    from actors import Condition, Context, Task
    from controlplane.api.object import Object

__all__ = ["Handler", "Informer", "Listener", "WatchBatch", "WatchEvent", "handler", "together"]


Handler = Callable[[Notification[V]], None]
"""A component's reaction to changes; called with one notification at a time, synchronously."""

TaskHandler = Callable[["Context", Notification[V]], Awaitable[None]]
"""The same in several steps: it runs in its listener's task, and others may overtake it."""


class Listener(Generic[V]):
    """One handler and what it has still to be told. `steps` is the handler when it takes several steps."""

    __slots__ = (
        "condition",
        "deletes_only",
        "handler",
        "name",
        "pending",
        "started",
        "steps",
        "synced",
    )

    def __init__(
        self,
        name: str,
        handler: Handler[V] | None,
        steps: TaskHandler[V] | None,
        condition: Condition,
        *,
        deletes_only: bool,
    ) -> None:
        self.name = name
        self.handler = handler
        self.steps = steps
        self.started = False
        self.condition = condition
        self.deletes_only = deletes_only
        self.pending: deque[Notification[V]] = deque()
        self.synced = False


class Informer(Generic[V]):
    """The cache of one resource in one component.

    Args:
        ctx: the component's context; the informer's tasks belong to it.
        resource: what to watch.
        store: where objects go (give indexes there).
        immediate: let the reflector bring the store up to date and call the handlers itself, in the
            same step: a bare reflector without a queue behind it, as the kubelet has. Handlers that
            take several steps are told by their own tasks all the same.
        part: what its memory is called where it is said what steps touch; its resource's name unless given.
        query: selectors for list and watch (fieldSelector, labelSelector).
    """

    def __init__(
        self,
        ctx: Context,
        resource: Resource[V],
        store: Indexer[V] | None = None,
        *,
        server: RestConfig = IN_CLUSTER,
        immediate: bool = False,
        part: str = "",
        **query: str,
    ) -> None:
        self.resource = resource
        part = part or resource.name
        self.store_part = f"{part} store"
        self._deltas = f"{part} deltas"
        self._told = f"{part} told"
        self._immediate = immediate
        self.store: Indexer[V] = store if store is not None else Indexer()
        self._ctx = ctx
        ctx.part(self.store_part, self.store)
        if ctx.noting:
            self.store.on_read = self._note_read
        self._features = server.features
        self._queue = queue_of(self._features, self.store)
        self._reflector = Reflector(
            resource, server, query, self._features, self._queue, self._queued
        )
        self._work = ctx.condition()
        self._listeners: list[Listener[V]] = []
        self._calls = False
        """True if some handler is a plain function, whose accesses are unknown."""
        self._synced = ctx.event()
        self._on_synced: Callable[[], None] | None = None
        self._tasks: list[Task] = []

    def _note_read(self, key: str, found: Object[V] | None) -> None:
        """Note that a task reads an object here, and in which version: not what the server has, maybe."""
        if found is None:
            data = {"resource": self.resource.name, "key": key, "found": False}
            self._ctx.note("informer.read", data=data)
        else:
            self._ctx.note(
                "informer.read", obj=found.place, uid=found.uid or None, rv=found.resource_version
            )

    def when_synced(self, told: Callable[[], None]) -> None:
        """Call `told` in the step in which the first list is in the store."""
        self._on_synced = told

    def add_handler(
        self, handler: Handler[V], name: str = "handler", *, deletes_only: bool = False
    ) -> None:
        """Add a handler, before the informer starts. With `deletes_only` it hears of nothing else."""
        condition = self._ctx.condition()
        self._listeners.append(Listener(name, handler, None, condition, deletes_only=deletes_only))
        self._calls = True

    def add_task_handler(
        self, steps: TaskHandler[V], name: str = "handler", *, awaited: bool = True
    ) -> None:
        """Add a handler that takes several steps. It has a task of its own in any case.

        With `immediate` that task begins when there is something to tell. The informer counts as synced though a
        handler that is not `awaited` has not been told of the first list.
        """
        condition = self._ctx.condition()
        listener = Listener(name, None, steps, condition, deletes_only=False)
        listener.synced = not awaited
        self._listeners.append(listener)

    def start(self) -> None:
        """Start the tasks."""
        self._spawn(self._reflector.run, name=f"{self.resource.name}.reflector")
        if self._features.resync_ns:
            self._spawn(self._resync, name=f"{self.resource.name}.resync")
        if self._immediate:
            return
        self._spawn(self._process, name=f"{self.resource.name}.processor")
        for listener in self._listeners:
            self._start(listener)

    def _start(self, listener: Listener[V]) -> None:
        listener.started = True
        self._spawn(self._listen, listener, name=f"{self.resource.name}.{listener.name}")

    def _spawn(self, main: Callable[..., Any], *args: Any, name: str) -> None:
        self._tasks.append(self._ctx.spawn(main, *args, name=name))

    def stop(self) -> None:
        """End the tasks: the store stays as it is, and no handler is called any more."""
        for task in self._tasks:
            self._ctx.cancel(task)
        self._tasks.clear()
        self._reflector.close(self._ctx)

    @property
    def has_synced(self) -> bool:
        """Return whether the first list is in the store and every handler has been told of it."""
        return self._synced.is_set()

    @property
    def told_all(self) -> bool:
        """Return whether the store and all handlers have what was received so far."""
        return not self._queue and not any(each.pending for each in self._listeners)

    async def wait_synced(self) -> None:
        """Wait until the first list is in the store and every handler has been told of it."""
        await self._synced.wait(idle=True, point="informer.sync")

    async def wait_synced_or_unserved(self) -> None:
        """Wait until it is synced, or the server has said that it does not know the resource."""
        told = self._ctx.event()
        self._on_synced = self._reflector.on_unserved = told.set
        if not (self.has_synced or self._reflector.unserved):
            await told.wait(idle=True, point="informer.sync")

    # ------------------------------------------------------------------ processor and listeners

    def _queued(self) -> None:
        """Deltas were queued: wake the processor, or do its work at once."""
        self._ctx.touches(self._deltas)
        if not isinstance(self._queue, DeltaQueue):  # the older queues look up what is known
            self._ctx.looks_at(self.store_part)
        if not self._immediate:
            self._work.notify_all()
            if not self._queue and not self._synced.is_set():
                self._populated()  # the older queues need not pop anything for an empty list
            return
        if self._calls:
            self._ctx.undeclared()
        while self._queue:
            self._process_batch()
        for listener in self._listeners:
            if listener.handler is None:
                if listener.pending and not listener.started:
                    self._start(listener)
                if not listener.started and self._queue.synced:
                    listener.synced = True
                continue
            while listener.pending:
                notification = listener.pending.popleft()
                if self._ctx.noting:
                    note_notification(self._ctx, listener.name, notification)
                listener.handler(notification)
            listener.synced = True
        self._listeners_synced()

    def _process_batch(self) -> None:
        """Bring the store up to the next batch and tell the listeners."""
        self._ctx.touches(self._deltas, self.store_part, self._told)
        queue = self._queue
        before = queue.synced
        notifications = apply(queue.pop_batch(), self.store, initial=not before)
        first = not before and queue.synced
        for listener in self._listeners:
            told = notifications
            if listener.deletes_only:
                told = [each for each in notifications if each.new is None]
            if told or first:
                listener.pending.extend(told)
                listener.condition.notify_all()
        if first and all(each.synced for each in self._listeners):
            self._listeners_synced()

    def _populated(self) -> None:
        """The first list is in the store: let the listeners see."""
        self._ctx.touches(self._told)
        for listener in self._listeners:
            listener.condition.notify_all()
        if all(each.synced for each in self._listeners):
            self._listeners_synced()

    async def _resync(self, ctx: Context) -> None:
        """Let handlers be told of everything again, from time to time."""
        while True:
            await ctx.sleep(self._features.resync_ns, idle=True, point="informer.resync")
            self._queue.resync()
            self._queued()

    async def _process(self, ctx: Context) -> None:
        queue = self._queue
        while True:
            ctx.writes(self._deltas)
            while not queue:
                await self._work.wait(idle=True, point="informer.process")
                ctx.writes(self._deltas)
            self._process_batch()
            if queue:
                await ctx.point("informer.process")

    async def _listen(self, ctx: Context, listener: Listener[V]) -> None:
        pending = listener.pending
        handler, steps = listener.handler, listener.steps
        while True:
            ctx.touches(self._told)
            while not pending:
                ctx.writes(self._told)
                if not listener.synced:
                    ctx.reads(self._deltas)
                if not listener.synced and self._queue.synced:
                    listener.synced = True
                    self._listeners_synced()
                await listener.condition.wait(idle=True, point="informer.notify")
                ctx.touches(self._told)
            notification = pending.popleft()
            if ctx.noting:
                note_notification(ctx, listener.name, notification)
            if steps is not None:
                await steps(ctx, notification)
                ctx.touches(self._told)
                if pending:
                    await ctx.region("informer.notify")
                continue
            assert handler is not None
            ctx.undeclared()
            handler(notification)
            if pending:
                await ctx.point("informer.notify")

    def _listeners_synced(self) -> None:
        if self._synced.is_set():
            return
        self._ctx.touches(self._deltas, self._told)
        if self._queue.synced and all(listener.synced for listener in self._listeners):
            self._ctx.log("informer.synced", level=DEBUG, data={"resource": self.resource.name})
            self._synced.set()
            if self._on_synced is not None:
                self._on_synced()


def note_notification(ctx: Context, listener: str, told: Notification[V]) -> None:
    """Note what a handler is told, and of which version."""
    obj = told.new or told.old
    assert obj is not None
    kind = "delete" if told.new is None else "add" if told.old is None else "update"
    data = {"listener": listener, "kind": kind}
    if told.old is not None and told.new is not None and told.old.uid != told.new.uid:
        data["was"] = told.old.uid
    ctx.note(
        "informer.told", obj=obj.place, uid=obj.uid or None, rv=obj.resource_version, data=data
    )


def handler(
    on_add: Callable[[Object[V]], None],
    on_update: Callable[[Object[V], Object[V]], None],
    on_delete: Callable[[Object[V], bool], None],
) -> Handler[V]:
    """A handler from three functions; the flag of `on_delete` says that the final state is unknown."""

    def call(notification: Notification[V]) -> None:
        if notification.new is None:
            assert notification.old is not None
            on_delete(notification.old, notification.final_state_unknown)
        elif notification.old is None:
            on_add(notification.new)
        else:
            on_update(notification.old, notification.new)

    return call


def together(*handlers: Handler[V]) -> Handler[V]:
    """One handler that tells several, in this order: they share a listener, and so one step per notification."""

    def call(notification: Notification[V]) -> None:
        for each in handlers:
            each(notification)

    return call
