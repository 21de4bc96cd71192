"""How an API server lives: one task answers requests, one moves the watch cache on.

The store (etcd) is not part of the process: it survives when the actor is crashed and started
again. Every request is one step and runs to completion against the store. The watch cache hears of
a write in a later step, so what watchers and cached lists show may lag behind; how far is the
schedule's choice.

What arrives from outside the world is an HTTP request, see `http.actor`.

Points: `recv` (a request arrives), `apiserver.cache` (the watch cache moves on and watchers are
told), `apiserver.watch` (a bookmark or the time limit of a watch from outside is due),
`apiserver.answer` (where memory is limited: a client has taken a list).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import Mailbox
from actors.inlet import ExternalMessage
from actors.log import INFO, WARNING
from controlplane.api.request import Response
from controlplane.api.times import SECOND
from controlplane.apiserver.loops.supervisor import SUPERVISOR, Killed
from controlplane.apiserver.requests.server import ApiServer
from controlplane.client.loops.informer import WatchBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context, Message
    from controlplane.api.request import Request
    from controlplane.apiserver.loops.http_server import HttpFront
    from controlplane.apiserver.requests.memory import Account
    from controlplane.apiserver.storage.watch_cache import Watcher

EXPIRY_ROUND_NS = 300_000_000_000
"""How often expired events are looked for: virtual five minutes."""
READ_VERBS = ("get", "list", "watch")


class Activity:
    """What the API server did over all its lives, for reports: successful writes per kind of request, and waits.

    `waits_ns` sums, `longest_wait_ns` keeps the most of, the time from a pod's creation to its binding.
    """

    def __init__(self) -> None:
        self.writes: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.waits_ns = 0
        self.longest_wait_ns = 0
        self._created: dict[str, int] = {}

    def note(self, request: Request, response: Response, now: int) -> None:
        """Count one answered write."""
        label = request.label
        if not response.ok:
            self.refused[label] = self.refused.get(label, 0) + 1
            return
        self.writes[label] = self.writes.get(label, 0) + 1
        if label == "create pods" and response.object is not None:
            self._created[response.object.key] = now
        elif label == "create pods/binding":
            created = self._created.pop(f"{request.namespace}/{request.name}", now)
            self.waits_ns += now - created
            self.longest_wait_ns = max(self.longest_wait_ns, now - created)


async def run(
    ctx: Context, make_core: Callable[[Context], ApiServer], epoch_ns: int, activity: Activity
) -> None:
    """Main task. `make_core` builds the server's memory over the store; `epoch_ns` is the wall time of virtual 0."""
    core = make_core(ctx)
    server = _Server(ctx, core, epoch_ns, activity)
    ctx.spawn(server.advance, name="cache")
    ctx.spawn(server.expire, name="expiry")
    try:
        while True:
            server.serve(await ctx.recv(idle=True))
    finally:
        server.hang_up()


class _Server:
    """What the two tasks share."""

    def __init__(self, ctx: Context, core: ApiServer, epoch_ns: int, activity: Activity) -> None:
        self._ctx = ctx
        self._activity = activity
        self._core = core
        self._epoch = epoch_ns
        self._changed = ctx.condition()
        self._revision = core.store.revision
        self._filled: list[Watcher] = []
        self._front: HttpFront | None = None

    def serve(self, message: Message) -> None:
        """Answer one request, or open one watch."""
        if isinstance(message.payload, ExternalMessage):
            self._serve_outside(message.payload)
            return
        request: Request = message.payload
        now = self._epoch + self._ctx.now
        core = self._core
        if message.stream is not None:
            self._open(request, message.stream, now)
            return
        response = core.handle(request, now)
        if request.verb not in READ_VERBS:
            revision = core.store.revision
            self._log(request, response, revision if revision != self._revision else None)
            self._activity.note(request, response, now)
        self._wrote()
        self._respond(message, response)

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
        """Whether there was memory; if not, the process is killed, as the kernel does it."""
        if account.take(held):
            return True
        ctx = self._ctx
        data = {"held": account.held, "limit": account.memory.limit_bytes}
        ctx.log("apiserver.oom", level=WARNING, data=data)
        ctx.send(SUPERVISOR, Killed(ctx.actor, account.memory.restart_ns))
        ctx.crash(ctx.actor)
        return False

    def _wrote(self) -> None:
        revision = self._core.store.revision
        if revision != self._revision:
            self._revision = revision
            # A write of what nobody has a cache of (events, mostly) is no news for the cache task.
            if self._front is not None or self._core.has_news():
                self._changed.notify_all()

    def _serve_outside(self, message: ExternalMessage) -> None:
        if self._front is None:
            from controlplane.apiserver.loops.http_server import HttpFront

            self._front = HttpFront(self._ctx, self._core, self._epoch, self._wrote)
        watch = self._front.serve(message)
        if watch is not None:
            self._follow(watch.watcher)

    def hang_up(self) -> None:
        """The process ends: streams to the outside end with it."""
        if self._front is not None:
            self._front.hang_up()

    def _log(self, request: Request, response: Response, revision: int | None) -> None:
        obj = response.object
        if obj is not None:
            place, uid = f"{obj.kind}/{obj.key}", obj.uid
        else:
            parts = (request.resource, request.namespace, request.name)
            place, uid = "/".join(part for part in parts if part), ""
        data: dict[str, object] = {"verb": request.label, "code": response.code}
        if request.user_agent:
            data["by"] = request.user_agent
        if response.reason:
            data["reason"] = response.reason
        self._ctx.log(
            "apiserver.write", level=INFO, obj=place, uid=uid or None, rv=revision, data=data
        )

    def _open(self, request: Request, stream: Mailbox, now: int) -> Watcher | None:
        watcher = self._core.watch(request, now)
        if isinstance(watcher, Response):
            self._ctx.send(stream, WatchBatch((), end=True, error=watcher.tree))
            return None
        watcher.user_data = stream
        account = self._core.memory
        if account is not None and watcher.buffer:
            first = [event.object for event in watcher.buffer]
            held, lasts = account.cost(first, streamed=True)
            if not self._take(account, held):
                return None
            self._ctx.spawn(self._send, account, held, lasts, None, None, name="stream")
        self._follow(watcher)
        seconds = request.query.get("timeoutSeconds")
        if seconds and not watcher.closed:
            self._ctx.spawn(self._end, watcher, int(seconds), name="watch")
        return watcher

    async def _end(self, ctx: Context, watcher: Watcher, seconds: int) -> None:
        """End a watch at the time limit that its client asked for."""
        await ctx.sleep(seconds * SECOND, idle=True, point="apiserver.watch")
        if not watcher.closed:
            watcher.stop()
            if watcher.on_stop is None:
                self._filled.append(watcher)
            self._flush()

    def _follow(self, watcher: Watcher) -> None:
        watcher.on_ready = lambda: self._filled.append(watcher)
        if watcher.buffer:
            self._filled.append(watcher)
            self._flush()

    async def advance(self, ctx: Context) -> None:
        """Move the watch cache to the store's revision whenever something was written."""
        core = self._core
        seen = -1
        while True:
            while seen == core.store.revision:
                await self._changed.wait(idle=True, point="apiserver.cache")
            seen = core.store.revision
            core.advance()
            self._flush()
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
            store.expire(self._epoch + ctx.now)
            self._wrote()

    def _flush(self) -> None:
        filled, self._filled = self._filled, []
        for watcher in filled:
            if not isinstance(watcher.user_data, Mailbox):
                watcher.user_data.deliver()
                continue
            stream: Mailbox = watcher.user_data
            if stream.broken or not stream.owner.alive:
                watcher.stop()
                continue
            events = watcher.drain()
            if events:
                self._ctx.send(stream, WatchBatch(tuple(events)))
            if watcher.closed:
                self._ctx.send(stream, WatchBatch((), end=True))
