"""How the store lives when several API servers share it: one task runs transactions and tells of them.

It is a process of its own, so the way to each server can be slow, cut or broken. What is stored
survives its crash, as on a disk. Where there is one API server and nothing between it and the store,
the store is an object inside that server's steps and this actor does not exist.

Points: `recv` (a transaction, or a server that wants to follow), `etcd.lessor` (leases end).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from controlplane.apiserver.loops.server import EXPIRY_ROUND_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context, Mailbox, Message
    from controlplane.apiserver.storage.store import Store

ETCD = "etcd"


class Transaction(NamedTuple):
    """Something to be done with the store in one step; the answer is what `run` answers.

    It is not begun at or after `deadline` (virtual ns): its caller has given up by then, and gRPC
    tells the server so.
    """

    run: Callable[[], Any]
    deadline: int
    label: str


class Follow:
    """Wants to hear of every write: the stream carries `Progress`."""

    label = "follow"


class Publish:
    """Something was written past the transactions: tell the followers."""

    label = "publish"


class Progress(NamedTuple):
    """Everything up to this revision has been sent."""

    revision: int

    @property
    def label(self) -> str:
        """What the event log calls it."""
        return f"revision {self.revision}"


class CompactionRecord:
    """The key `compact_rev_key`: API servers agree by it which of them compacts. Lives as long as the store."""

    def __init__(self) -> None:
        self.version = 0


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
        """Run one transaction, or take on a follower."""
        payload = message.payload
        if isinstance(payload, Transaction):
            if self._ctx.now < payload.deadline:
                message.reply(payload.run())
        elif message.stream is not None:
            self._followers[message.stream] = None
            self._ctx.send(message.stream, Progress(self._store.revision))
        self._publish()

    def _publish(self) -> None:
        revision = self._store.revision
        if revision == self._told:
            return
        self._told = revision
        for stream in list(self._followers):
            if (
                stream.broken
                or not stream.owner.alive
                or (stream.incarnation != stream.owner.incarnation)
            ):
                del self._followers[stream]
            else:
                self._ctx.send(stream, Progress(revision))

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
