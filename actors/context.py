"""The context of an actor: the only things its code may await, and its interface to the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.declarations import Declarations
from actors.errors import LinkBroken, Timeout, UsageError
from actors.holding import Hold
from actors.log import INFO
from actors.process import DONE, Mailbox, Message, Task
from actors.sync import Condition, Event, Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from actors.disk import Disk
    from actors.faults import Faults


class Context(Declarations):
    """One task's access to the world. `actor` is the actor's name, `task` this task."""

    __slots__ = ()

    @property
    def faults(self) -> Faults:
        """The faults that this task can cause: crashes, cuts, losses, false answers."""
        return self._kernel.faults

    # ------------------------------------------------------------------ time

    @property
    def now(self) -> int:
        """Virtual nanoseconds since the start of the run."""
        return self._kernel.now

    @property
    def step(self) -> int:
        """Number of the step that is running."""
        return self._kernel.step

    @property
    def incarnation(self) -> int:
        """Return the number of starts of this actor, this one included."""
        return self.task.incarnation

    async def point(self, name: str) -> None:
        """A scheduling point: others may run before this task goes on. Put it *before* what its order matters for."""
        kernel = self._kernel
        task = self.task
        task.point = name
        kernel.make_ready(task, kernel.step)
        await kernel.park()

    async def region(self, name: str) -> None:
        """A point between two critical regions: another task may run first, but by default the task just goes on.

        Where the real system releases one lock and takes the next, nothing makes it stop; so this costs next to
        nothing until a
        strategy chooses another task.
        """
        kernel = self._kernel
        task = self.task
        task.point = name
        if not kernel.goes_on(task):
            kernel.offer(task, kernel.step)
            await kernel.park()

    def passes(self, name: str) -> bool:
        """Return whether a `region` that would begin here goes on at once; then it has begun. If not, await it.

        For loops over many regions: no awaitable is made where no strategy chooses.
        """
        task = self.task
        task.point = name
        return self._kernel.goes_on(task)

    async def sleep(self, ns: int, *, idle: bool = False, point: str = "sleep") -> None:
        """Wait for `ns` virtual nanoseconds. An idle sleep (a heartbeat's) does not keep the run from settling."""
        await self.sleep_until(self._kernel.now + ns, idle=idle, point=point)

    async def sleep_until(self, at_ns: int, *, idle: bool = False, point: str = "sleep") -> None:
        """Wait until virtual time `at_ns`; a time in the past is a plain scheduling point."""
        kernel = self._kernel
        task = self.task
        task.point = point
        if at_ns <= kernel.now:
            kernel.make_ready(task, kernel.step)
        else:
            task.idle = idle
            wait_no = kernel.parked(task, point)
            kernel.timers.arm(task, wait_no, at_ns, idle=idle)
        await kernel.park()

    # ------------------------------------------------------------------ messages

    @property
    def inbox(self) -> Mailbox:
        """The actor's main mailbox: what is sent to its name arrives here."""
        mailbox = self.task.actor.mailbox
        assert mailbox is not None
        return mailbox

    async def recv(self, timeout_ns: int | None = None, *, idle: bool = False) -> Message:
        """The next message of the main mailbox; see `Mailbox.recv`."""
        return await self.inbox.recv(timeout_ns, idle=idle)

    def mailbox(self, name: str) -> Mailbox:
        """A further mailbox of this actor. It may be sent to other actors, which can then send to it."""
        return self._kernel.transport.new_mailbox(self.task.actor, name)

    def _mailbox_of(self, to: str | Mailbox) -> Mailbox:
        if isinstance(to, Mailbox):
            return to
        actor = self._kernel.actors.get(to)
        if actor is None:
            raise UsageError(f"no actor is called {to!r}")
        if actor.mailbox is None:
            raise LinkBroken(f"{to} has not started")
        return actor.mailbox

    def send(self, to: str | Mailbox, payload: Any, *, ordered: bool = True) -> None:
        """Send and go on. Ordered per pair, unless `ordered` is off: then it may overtake and be overtaken.

        A message to an actor that is down is lost.
        """
        if self.task.dead:
            return
        kernel = self._kernel
        kernel.inside(self.task)
        key = None if ordered else kernel.transport.unordered_key()
        kernel.transport.send(self.task.actor, self._mailbox_of(to), payload, key=key)

    async def ask(
        self, to: str | Mailbox, payload: Any, timeout_ns: int | None = None, *, point: str = "ask"
    ) -> Any:
        """Send a request and wait for its answer.

        Requests of different tasks travel independently, as over several connections. Raises what
        the peer failed it with; Timeout after `timeout_ns`; LinkBroken when the connection is reset
        (then the outcome is unknown).
        """
        kernel = self._kernel
        task = self.task
        running = kernel.running()
        if running is not task:  # its answer would go to the other one, wherever that stands
            raise UsageError(f"{task.label}: its context is used from a step of {running.label}")
        target = self._mailbox_of(to)
        task.point = point
        task.idle = False
        wait_no = kernel.parked(task, point)
        request = kernel.transport.new_request(task, wait_no, target.owner)
        if timeout_ns is not None:
            kernel.timers.arm(
                task, wait_no, kernel.now + timeout_ns, idle=False, value=kernel.TIMED_OUT
            )
        kernel.transport.send(
            task.actor, target, payload, key=kernel.transport.unordered_key(), request=request
        )
        value = await kernel.park()
        if value is kernel.TIMED_OUT:
            task.actor.waiting_for.pop(request.number, None)
            raise Timeout(f"{target.owner.name} did not answer within {timeout_ns} ns")
        return value

    def open(self, to: str | Mailbox, payload: Any, name: str = "stream") -> Mailbox:
        """Send a request for a stream; what the peer sends to `message.stream` arrives in the mailbox returned."""
        kernel = self._kernel
        kernel.inside(self.task)
        target = self._mailbox_of(to)
        stream = kernel.transport.new_mailbox(self.task.actor, name)
        stream.peer = target.owner
        self.task.actor.open_streams[stream.no] = stream
        kernel.transport.send(
            self.task.actor, target, payload, key=kernel.transport.unordered_key(), stream=stream
        )
        return stream

    def close(self, stream: Mailbox) -> None:
        """Stop reading a stream, or (at the peer) end it: the reader gets LinkBroken once it has read what came."""
        if self._kernel.footprint is not None:
            self._kernel.footprint.everything()
        if stream.owner is self.task.actor:
            stream.owner.open_streams.pop(stream.no, None)
        stream.broken = True

    # ------------------------------------------------------------------ tasks

    def spawn(
        self,
        body: Callable[..., Coroutine[Any, Any, Any]],
        *args: Any,
        name: str | None = None,
        **kwargs: Any,
    ) -> Task:
        """Start another task of this actor: `body(ctx, *args, **kwargs)`. It takes its first step when picked."""
        self._kernel.inside(self.task)
        return self._kernel.lifecycle.spawn(
            self.task.actor, name or body.__name__, body, *args, **kwargs
        )

    async def join(self, task: Task, *, idle: bool = False) -> Any:
        """Wait for a task to end; its result, None if it was cancelled."""
        kernel = self._kernel
        me = self.task
        me.point = "join"
        if kernel.footprint is not None:
            kernel.footprint.woke(task.label)
        if task.state == DONE:
            kernel.make_ready(me, kernel.step)
            await kernel.park()
            return task.result
        me.idle = idle
        task.joiners = [*task.joiners, (me, kernel.parked(me, f"join {task.name}"))]
        return await kernel.park()

    def cancel(self, task: Task) -> None:
        """Throw Cancelled into a task of this actor where it stands."""
        if task.actor is not self.task.actor:
            raise UsageError(f"{task.label} belongs to another actor")
        self._kernel.lifecycle.cancel(task)

    def event(self) -> Event:
        """A flag that tasks of this actor can wait for."""
        return Event(self._kernel)

    def condition(self) -> Condition:
        """A condition that tasks can wait on until notified."""
        return Condition(self._kernel)

    def signal(self) -> Signal:
        """A condition that remembers a notification until the next wait, for a loop that makes passes."""
        return Signal(self._kernel)

    # ------------------------------------------------------------------ chance, identity, disk, log

    def choose(self, kind: str, n: int, label: str = "") -> int:
        """A choice among 0 to n - 1; 0 is the default. The only source of chance."""
        self._kernel.inside(self.task)
        return self._kernel.pick(kind, n, label or kind)

    def serial(self) -> int:
        """A number that is unique in this run: the base of uids and generated names."""
        return self._kernel.uid()

    @property
    def process(self) -> dict[Any, Any]:
        """Memory that all tasks of this process share, such as its connections; lost when it crashes."""
        return self.task.actor.process

    @property
    def disk(self) -> Disk:
        """Data of this actor that survive a crash."""
        if self._kernel.footprint is not None:
            self._kernel.footprint.touched(("disk",), write=True, declares=False)
        return self.task.actor.disk

    def log(
        self,
        event: str,
        *,
        level: int = INFO,
        obj: str | None = None,
        uid: str | None = None,
        rv: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Record an event, with what it is about."""
        task = self.task
        kernel = self._kernel
        if task.dead or not kernel.log.heard:
            return
        step, about = kernel.step, (obj, uid, rv)
        kernel.log.emit(level, step, kernel.now, task.no, event, step, about=about, data=data)

    @property
    def heard(self) -> bool:
        """Return whether events are recorded; ask before preparing an expensive one."""
        return self._kernel.log.heard

    @property
    def noting(self) -> bool:
        """Return whether notes are kept; ask before preparing an expensive one."""
        return self._kernel.log.noting

    def note(
        self,
        event: str,
        *,
        obj: str | None = None,
        uid: str | None = None,
        rv: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep a detail for people: what was read, and in which version. It is no part of the trace.

        What looks at an actor from outside of its steps, as an invariant does, leaves none.
        """
        kernel = self._kernel
        if kernel.log.noting and kernel.current is not None and not self.task.dead:
            kernel.log.note(kernel.step, kernel.now, kernel.task_no(), event, obj, uid, rv, data)

    async def stand_by(self, actor: str, point: str, nth: int = 1, *, idle: bool = False) -> Hold:
        """Wait until a task of an actor stands at a point for the nth time from now on; it is held until `let_go`.

        In `point` a `*` stands for anything, and `|` for "or". An idle wait does not keep a run from settling.
        Raises UsageError for an actor that there is not.
        """
        kernel = self._kernel
        me = self.task
        kernel.actor(actor)
        if kernel.footprint is not None:
            kernel.footprint.everything()
        where = f"{actor} at {point}"
        me.point = "stand by"
        me.idle = idle
        hold = Hold(actor, point, nth, me, kernel.parked(me, where))
        kernel.holds.waits.append(hold)
        try:
            await kernel.park()
        except BaseException:
            kernel.holds.let_go(hold)
            raise
        return hold

    def let_go(self, hold: Hold) -> None:
        """Let the task go on that `stand_by` waited for."""
        self._kernel.holds.let_go(hold)
