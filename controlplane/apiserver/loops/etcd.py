"""The store that several API servers share: one task answers operations and sends notifications of writes.

It is a process of its own, so the way to each server can be slow, cut or broken; what travels are
values (`storage.transactions`, `storage.mirror`). What is stored survives its crash, as on a disk.
Where there is one API server and nothing between it and the store, the store is part of that
server's memory and this actor does not exist.

Points: `recv` (an operation, or a server that wants to follow), `etcd.lessor` (leases end).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controlplane.apiserver.storage.mirror import news_since, snapshot
from controlplane.apiserver.storage.transactions import Operation, perform

if TYPE_CHECKING:
    from actors import Context, Mailbox, Message
    from controlplane.apiserver.storage.store import Store

ETCD = "etcd"
EXPIRY_ROUND_NS = 300_000_000_000
"""The interval between searches for expired events: five minutes of virtual time."""


class Call(NamedTuple):
    """Something to be done with the store in one step; the answer is an `Outcome`.

    It is not begun at or after `deadline` (virtual ns): its caller has given up by then, and gRPC
    tells the server so.
    """

    operation: Operation
    deadline: int
    label: str


class Follow(NamedTuple):
    """Wants to hear of every write after `revision`: the stream carries a `Snapshot` first, if that is
    0 or compacted away, and then `News`.
    """

    revision: int
    label: str = "follow"


async def run(ctx: Context, store: Store, epoch_ns: int) -> None:
    """Main task."""
    etcd = _Etcd(ctx, store)
    ctx.spawn(etcd.expire, epoch_ns, name="lessor")
    while True:
        etcd.serve(await ctx.recv(idle=True))


class _Etcd:
    def __init__(self, ctx: Context, store: Store) -> None:
        self._ctx = ctx
        self._store = store
        self._told = store.revision
        self._followers: dict[Mailbox, None] = {}

    def serve(self, message: Message) -> None:
        """Perform one operation, or take on a follower."""
        payload = message.payload
        if isinstance(payload, Call):
            if self._ctx.now < payload.deadline:
                message.reply(perform(self._store, payload.operation))
        elif message.stream is not None:
            assert isinstance(payload, Follow)
            self._begin(message.stream, payload.revision)
        self._publish()

    def _begin(self, stream: Mailbox, revision: int) -> None:
        """Bring a follower to the point from which all followers are sent what comes next."""
        store = self._store
        self._publish()
        if revision == 0 or revision < store.compacted:
            self._ctx.send(stream, snapshot(store))
        else:
            self._ctx.send(stream, news_since(store, revision))
        self._followers[stream] = None

    def _publish(self) -> None:
        store = self._store
        if store.revision == self._told:
            return
        news = news_since(store, max(self._told, store.compacted))
        self._told = store.revision
        for stream in list(self._followers):
            if (
                stream.broken
                or not stream.owner.alive
                or (stream.incarnation != stream.owner.incarnation)
            ):
                del self._followers[stream]
            else:
                self._ctx.send(stream, news)

    async def expire(self, ctx: Context, epoch_ns: int) -> None:
        """Let leases run out (events live for an hour), in rounds."""
        store = self._store
        while True:
            due = store.next_expiry()
            now = epoch_ns + ctx.now
            wait = max(EXPIRY_ROUND_NS, (due or now) - now)
            await ctx.sleep(wait, idle=True, point="etcd.lessor")
            store.expire(epoch_ns + ctx.now)
            self._publish()
