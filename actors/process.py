"""Actors, their tasks and mailboxes, and the port through which these reach the kernel: what a run moves.

A message travels on a *channel*; a channel is first in, first out. Ordinary sends from one actor to
one mailbox share a channel (ordered per pair), an unordered send and every request of another task
has a channel of its own. Which non-empty channel a receiver reads next is a choice ("message",
canonical order: oldest message first).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from actors.errors import LinkBroken, Timeout, UsageError
from actors.log import TRACE, EventLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from actors.disk import Disk
    from actors.footprint import Footprint

NEW, READY, RUNNING, PARKED, DONE = range(5)


class TimersPort(Protocol):
    """The part of `timers.Timers` that mailboxes, links and conditions use."""

    def arm(self, task: Task, wait_no: int, at_ns: int, *, idle: bool, value: Any = None) -> None:
        """End a wait at a time at the latest."""

    def call_at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Do something at a time."""


class TransportPort(Protocol):
    """The part of `transport.Transport` that messages, links and the inlet use."""

    def send(self, sender: Actor, target: Mailbox, payload: Any, *, key: Any = None) -> None:
        """Put a message on its way."""

    def deliver(self, target: Mailbox, key: Any, message: Message) -> None:
        """A message arrives."""

    def answer(self, request: Request, value: Any, error: BaseException | None) -> None:
        """Send the answer of a request back."""

    def answered(
        self, request: Request, value: Any, error: BaseException | None, cause: int
    ) -> None:
        """An answer arrives."""

    def outside(self) -> Actor:
        """The sender of what comes from outside."""


class Port(Protocol):
    """The part of the kernel that mailboxes, links and conditions use: waiting and waking, choices, time, the log."""

    log: EventLog
    footprint: Footprint | None
    now: int
    step: int
    actors: dict[str, Actor]

    @property
    def timers(self) -> TimersPort:
        """Timers of waits and calls."""

    @property
    def transport(self) -> TransportPort:
        """The way of messages."""

    @property
    def TIMED_OUT(self) -> Any:  # noqa: N802
        """The value of a wait that ended at its time limit."""

    def condition_name(self) -> str | int:
        """A name for one more condition, the same in all runs."""

    def running(self) -> Task:
        """The task whose step this is."""

    def parked(self, task: Task, awaiting: str) -> int:
        """Note that a task is about to park; the number of this wait."""

    def make_ready(self, task: Task, cause: int) -> None:
        """Put a task that gives up the baton behind the ready ones."""

    def wake(
        self,
        task: Task,
        wait_no: int,
        value: Any = None,
        error: BaseException | None = None,
        cause: int | None = None,
    ) -> bool:
        """End a wait."""

    def park(self) -> Awaitable[Any]:
        """Give up the baton and come back when picked."""

    def choose(self, kind: str, options: Sequence[Any]) -> int:
        """Ask the strategy."""

    def pick(self, kind: str, n: int, label: str) -> int:
        """A choice among numbers."""

    def finish(self, verdict: str, reason: str, error: BaseException | None = None) -> None:
        """End the run."""

    def note_input(self) -> None:
        """Input came from outside."""


class Task:
    """One task of an actor: a coroutine that runs from one point to the next.

    `label` ("actor/task") names it the same way in every run; `no` counts births in this run.
    `point` is where it stands, `cause` the step that made it ready. `wait_no` grows with every
    park, so that a late wake-up of an earlier wait is recognised and dropped.
    """

    __slots__ = (
        "actor",
        "armed",
        "awaiting",
        "body",
        "cause",
        "coro",
        "dead",
        "error",
        "handle",
        "idle",
        "incarnation",
        "joiners",
        "label",
        "no",
        "point",
        "receiving",
        "result",
        "state",
        "value",
        "wait_no",
    )

    def __init__(
        self, no: int, actor: Actor, name: str, body: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        self.no = no
        self.actor = actor
        self.incarnation = actor.incarnation
        self.label = f"{actor.name}/{name}"
        self.body = body
        self.coro: Coroutine[Any, Any, Any] | None = None
        self.handle: Any = None
        self.state = NEW
        self.point = "start"
        self.cause = 0
        self.wait_no = 0
        self.value: Any = None
        self.error: BaseException | None = None
        self.result: Any = None
        self.idle = False
        self.armed = False
        self.dead = False
        self.awaiting: str | None = None
        self.receiving: Mailbox | None = None
        """The mailbox whose next message its next step takes."""
        self.joiners: list[tuple[Task, int]] | tuple[()] = ()

    @property
    def name(self) -> str:
        """Its name within its actor."""
        return self.label[len(self.actor.name) + 1 :]

    def begin(self) -> Coroutine[Any, Any, Any]:
        """Its coroutine, made for its first step; what it was made from is not kept."""
        coro = self.coro = self.body()
        self.body = _begun
        return coro

    def end(self, result: Any) -> None:
        """Note that it has ended; whatever was needed to begin it is let go, as it refers to the task."""
        self.state = DONE
        self.result = result
        self.coro = None
        self.body = _begun

    @property
    def done(self) -> bool:
        """Return whether it has returned, raised or been killed."""
        return self.state == DONE


def _begun() -> NoReturn:
    raise UsageError("a task begins once")


class Actor:
    """One emulated process: its tasks, its mailboxes, its disk. `incarnation` counts its starts from 1."""

    __slots__ = (
        "alive",
        "disk",
        "experimenter",
        "incarnation",
        "mailbox",
        "main",
        "name",
        "names",
        "no",
        "open_streams",
        "process",
        "tasks",
        "waiting_for",
    )

    def __init__(self, no: int, name: str, main: Callable[..., Any], disk: Disk) -> None:
        self.no = no
        self.name = name
        self.main = main
        self.disk = disk
        self.experimenter = False
        self.incarnation = 0
        self.alive = False
        self.tasks: dict[int, Task] = {}
        self.names: dict[str, int] = {}
        self.mailbox: Mailbox | None = None
        self.process: dict[Any, Any] = {}
        """Memory that all tasks of the process share; lost when it crashes."""
        self.open_streams: dict[int, Mailbox] = {}
        self.waiting_for: dict[int, tuple[Task, int, str]] = {}
        """Requests on their way: number -> (asking task, its wait, the peer's name)."""


class Message:
    """A received message: the payload, its sender, and, for a request, the way back."""

    __slots__ = (
        "cause",
        "kernel",
        "origin",
        "payload",
        "request",
        "send_no",
        "sender",
        "stream",
    )

    def __init__(
        self,
        kernel: Port,
        send_no: int,
        sender: Actor,
        payload: Any,
        cause: int,
        request: Request | None = None,
        stream: Mailbox | None = None,
    ) -> None:
        self.kernel = kernel
        self.send_no = send_no
        self.sender = sender
        self.payload = payload
        self.cause = cause
        self.request = request
        self.stream = stream
        self.origin = ""
        """Its name in all runs, where footprints are noted."""

    @property
    def label(self) -> str:
        """Names the link it came by."""
        return f"from {self.sender.name}"

    def reply(self, value: Any) -> None:
        """Answer a request. A second answer, or an answer to a request that timed out, is dropped."""
        if self.request is not None:
            self.kernel.transport.answer(self.request, value, None)
            self.request = None

    def fail(self, error: Exception) -> None:
        """Answer a request with an error, which is raised where it was asked."""
        if self.request is not None:
            self.kernel.transport.answer(self.request, None, error)
            self.request = None


class Request:
    """The way back of a request: which wait of which task it ends."""

    __slots__ = ("asker", "number", "peer", "wait_no")

    def __init__(self, number: int, asker: Task, wait_no: int, peer: Actor) -> None:
        self.number = number
        self.asker = asker
        self.wait_no = wait_no
        self.peer = peer


class Channel:
    """One ordered stretch of link into one mailbox."""

    __slots__ = ("key", "messages", "not_before")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.messages: deque[Message] = deque()
        self.not_before = 0

    def __lt__(self, other: Channel) -> bool:
        return self.messages[0].send_no < other.messages[0].send_no

    @property
    def label(self) -> str:
        """Names where its next message comes from."""
        return self.messages[0].label

    @property
    def identity(self) -> str:
        """Its name in all runs, where footprints are noted: of one message, or of all from one actor."""
        if isinstance(self.key, int):
            head = self.messages[0]
            return head.origin or f"message {head.send_no}"
        return self.label


class Census(Protocol):
    """Counts the messages that wait in a mailbox."""

    def arrived(self, message: Message) -> None:
        """A message waits from now on."""

    def taken(self, message: Message) -> None:
        """A message waits no more."""


class Mailbox:
    """A queue of messages until a task of the owning actor takes them."""

    __slots__ = (
        "_channels",
        "_kernel",
        "_pending",
        "_waiters",
        "_watching",
        "broken",
        "incarnation",
        "name",
        "no",
        "owner",
        "peer",
    )

    def __init__(self, kernel: Port, no: int, owner: Actor, name: str) -> None:
        self._kernel = kernel
        self._channels: dict[Any, Channel] = {}
        self._pending: list[Channel] = []
        self._waiters: list[tuple[Task, int]] = []
        self._watching: Census | None = None
        self.no = no
        self.owner = owner
        self.incarnation = owner.incarnation
        self.name = name
        self.peer: Actor | None = None
        self.broken = False

    def __len__(self) -> int:
        return len(self.waiting())

    @property
    def channels(self) -> Sequence[Channel]:
        """The channels with something to read, oldest message first (runtime only)."""
        return self._pending

    def waiting(self) -> list[Message]:
        """The messages that have arrived and were not taken yet, channel by channel."""
        self.looked_into()
        return [message for channel in self._pending for message in channel.messages]

    def count(self, census: Census) -> None:
        """Notify `census` of every message that arrives and is taken, beginning with those that wait already.

        A caller that reads the census later declares that with `looked_into`.
        """
        self._watching = census
        for channel in self._pending:
            for message in channel.messages:
                census.arrived(message)

    def looked_into(self) -> None:
        """Note that a step depends on what waits here."""
        footprint = self._kernel.footprint
        if footprint is not None:
            footprint.looked(self.owner.name, self.name)

    def channel(self, key: Any) -> Channel:
        """The channel with this key, made when first used."""
        found = self._channels.get(key)
        if found is None:
            found = self._channels[key] = Channel(key)
        return found

    def put(self, key: Any, message: Message) -> None:
        """A message arrives (kernel only)."""
        channel = self._channels.get(key)
        if channel is None:
            channel = Channel(key)
            if not isinstance(key, int):  # numbered channels carry one message and are forgotten
                self._channels[key] = channel
        channel.messages.append(message)
        if self._watching is not None:
            self._watching.arrived(message)
        if len(channel.messages) == 1:
            pending = self._pending
            if pending and pending[-1].messages[0].send_no > message.send_no:
                insort(pending, channel)
            else:
                pending.append(channel)
        if self._waiters:
            self._wake(message.cause)

    def _wake(self, cause: int) -> None:
        waiters, self._waiters = self._waiters, []
        for at, (task, wait_no) in enumerate(waiters):
            if self._kernel.wake(task, wait_no, cause=cause):
                self._waiters = waiters[at + 1 :]
                return

    def break_now(self) -> None:
        """The link behind this mailbox is reset: what was under way is lost, receivers get LinkBroken."""
        if self._kernel.footprint is not None:
            self._kernel.footprint.everything()
        self.broken = True
        if self._watching is not None:
            for channel in self._pending:
                for message in channel.messages:
                    self._watching.taken(message)
        self._pending.clear()
        self._channels.clear()
        self._wake(self._kernel.step)

    def ready(self) -> bool:
        """Return whether a message (or a broken link) waits."""
        footprint = self._kernel.footprint
        if footprint is not None:
            footprint.looked(self.owner.name, self.name)
        return self.broken or bool(self._pending)

    async def recv(
        self, timeout_ns: int | None = None, *, idle: bool = False, point: str | None = None
    ) -> Message:
        """Take the next message; which link is read first is a choice. Every call is one step.

        `idle` marks a wait that may last for ever (a server waiting for requests): it is no
        deadlock. Raises Timeout after `timeout_ns` of virtual time, LinkBroken when the link behind
        a stream is reset.
        """
        kernel = self._kernel
        task = kernel.running()
        task.point = point or self.name
        task.receiving = self
        try:
            if self.broken or self._pending:
                task.value = None  # how its wait before this one ended is over
                kernel.make_ready(task, kernel.step)
            else:
                self._wait(task, timeout_ns, idle=idle)
            await kernel.park()
            while not self._pending:
                if task.value is kernel.TIMED_OUT:
                    if kernel.footprint is not None:
                        kernel.footprint.looked(self.owner.name, self.name)
                    raise Timeout(f"{self.name}: nothing came within {timeout_ns} ns")
                if self.broken:
                    raise LinkBroken(f"{self.name}: the link was reset")
                self._wait(task, timeout_ns, idle=idle)
                await kernel.park()
        finally:
            task.receiving = None
        return self._take(task)

    def _wait(self, task: Task, timeout_ns: int | None, *, idle: bool) -> None:
        kernel = self._kernel
        task.idle = idle
        wait_no = kernel.parked(task, self.name)
        if self._waiters and kernel.footprint is not None:
            kernel.footprint.everything()  # the receiver among several depends on more than this channel
        self._waiters.append((task, wait_no))
        if timeout_ns is not None:
            kernel.timers.arm(
                task, wait_no, kernel.now + timeout_ns, idle=idle, value=kernel.TIMED_OUT
            )

    def _take(self, task: Task) -> Message:
        """Take the next message: the first thing that its step does."""
        kernel = self._kernel
        pending = self._pending
        index = kernel.choose("message", pending) if len(pending) > 1 else 0
        if kernel.footprint is not None:
            kernel.footprint.took(pending[index].identity, pending[index].messages[0].send_no)
        channel = pending.pop(index)
        message = channel.messages.popleft()
        if self._watching is not None:
            self._watching.taken(message)
        if channel.messages:
            insort(pending, channel)
        if pending and self._waiters:
            self._wake(kernel.step)
        if not kernel.log.heard:
            return message
        payload = message.payload
        kernel.log.emit(
            TRACE,
            kernel.step,
            kernel.now,
            task.no,
            "message",
            message.cause,
            data={
                "from": message.sender.name,
                "message": getattr(payload, "label", None) or type(payload).__name__,
            },
        )
        return message
