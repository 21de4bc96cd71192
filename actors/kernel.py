"""The kernel: one runnable task at a time, one list of choices, virtual time in whole nanoseconds.

How a step works. The running task parks: it says what it waits for and calls `select`, which,
synchronously, ends the step, picks the next ready task (a choice when there are several) and hands
the baton to it. Trio's run queue never holds more than one task of ours, so Trio's own order has
nothing to decide. The bare driver steps the same coroutines.

A task is born lazily: `spawn` only puts it among the ready tasks; the driver starts the coroutine
when the task is picked for its first step, while the spawning task is parked. That is the spawn
handshake without a round trip.

Ready tasks stand in the order in which they became ready; index 0 is the oldest, so the all-zero
run is first in, first out. Time moves only when no task is ready (policy "lazy"), or at any step as
one more option (policy "eager").
"""

from __future__ import annotations

import heapq
import traceback
import types
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from actors.choices import TASK, ChoiceList, name_of
from actors.disk import Disk
from actors.errors import Abandoned, Cancelled, Divergence, Killed, LinkBroken, UsageError
from actors.footprint import Footprint
from actors.jsonl import seconds
from actors.link import Link
from actors.log import DEBUG, ERROR, INFO, TASK_DECLARED, WARNING, EventLog
from actors.process import DONE, NEW, PARKED, READY, RUNNING, Actor, Mailbox, Message, Request, Task
from actors.strategies.fifo import Fifo
from actors.strategies.replay import PrefixThenContinue, Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Generator, Sequence

    from actors.asking import Checks
    from actors.guard import Guard
    from actors.inlet import Inlet
    from actors.pace import Pacer
    from actors.standing import Standing
    from actors.strategies.base import Strategy

    Body = Callable[..., Coroutine[Any, Any, Any]]


async def _nobody(_ctx: Any) -> None:
    """Main of the actor that stands for the outside; never started."""


def _begun() -> Coroutine[Any, Any, Any]:
    """The body of a task that ended; never called."""
    raise UsageError("a task begins once")


class _TimedOut:
    """The value of a wait that ended at its time limit."""


class _NextTimer:
    """The option "let the next timer fire first" of the eager time policy."""

    label = "timer"


NEVER: Final = 1 << 62
SHARING_STEPS: Final = 1024
"""The debug check for shared mutable objects runs once in this number of steps, and at the end."""
ALONE: Final = 16
"""After this number of steps in a row by one task, the driver lets other coroutines of the process run."""
NEXT_TIMER: Final = _NextTimer()


class Named:
    """An option that is only a name."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label


class Kernel:
    """The state of one run. `World` is its public face; actor code reaches it only through its `Context`."""

    __slots__ = (
        "_alone", "_alone_until", "_busy_timers", "_condition_no", "_dull", "_dull_from_ns", "_eager",
        "_explored_ns", "_fifo", "_heard", "_instant_start", "_interruption", "_limit", "_livelock_limit",
        "_look_at", "_mailbox_no", "_outside", "_request_no", "_send_no", "_step_limit", "_strikes",
        "_struck", "_task_no", "_timer_seq", "_timers", "_uid_no", "_warm_up_ns", "actors", "baton",
        "checks", "choices", "context", "current", "end_checks", "error", "explored", "footprint", "guard",
        "hopes", "inlet", "links", "log", "look_outside", "now", "observe_every", "observer", "pace",
        "passing", "reached", "ready", "reaping", "reason", "sharing", "standings", "step", "strategy",
        "switch", "tearing_down", "thread", "until_ns", "verdict",
    )  # fmt: skip

    TIMED_OUT: Final = _TimedOut()

    def __init__(
        self,
        strategy: Strategy,
        log: EventLog,
        *,
        step_limit: int,
        livelock_limit: int,
        eager_time: bool = False,
        explored_ns: tuple[int, int] = (0, NEVER),
        dull: Collection[str] = (),
    ) -> None:
        self.strategy = strategy
        self.log = log
        self._heard = log.heard
        self.choices = ChoiceList()
        self.step = 0
        self.now = 0
        self.current: Task | None = None
        self.baton: Task | None = None
        self.actors: dict[str, Actor] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.inlet: Inlet | None = None
        self.pace: Pacer | None = None
        self.ready: list[Task] = []
        self.reaping: list[Task] = []
        self._interruption: str | None = None
        self.verdict: str | None = None
        self.reason = ""
        self.error: BaseException | None = None
        self.tearing_down = False
        if isinstance(strategy, Replay | PrefixThenContinue):  # what was recorded has them all
            explored_ns, dull = (0, NEVER), ()
        self._dull = dull
        self._explored_ns = explored_ns
        self._warm_up_ns, self._dull_from_ns = explored_ns
        self._fifo = type(strategy) is Fifo or self._warm_up_ns > 0
        self._eager = eager_time
        self._timers: list[tuple[int, int, Task | Callable[[], None], int, bool, Any, int]] = []
        self._busy_timers = 0
        self._timer_seq = 0
        self._send_no = 0
        self._request_no = 0
        self._task_no = 0
        self._mailbox_no = 0
        self._condition_no = 0
        self._step_limit = step_limit
        self._livelock_limit = livelock_limit
        self._instant_start = 0
        self._limit = min(step_limit, livelock_limit + 1)
        self._look_at = 0
        self._alone_until = 0
        """The first step before which a task must stop, as a strategy chooses or an observer looks."""
        self.standings: list[Standing] = []
        """Waits for a task at a point, and the tasks that are held there."""
        self._strikes: list[tuple[int, int, Callable[[], None]]] = []
        self._struck = 0
        self.until_ns: int | None = None
        self.checks: dict[str, Checks] = {}
        self.end_checks: list[tuple[str, Callable[[], str | None]]] = []
        self.hopes: dict[str, Callable[[], bool]] = {}
        """Reachability goals: states that some run of a search should reach, asked at the end of each."""
        self.reached: list[str] = []
        self.context: Callable[[Kernel, Task], Any] = lambda _kernel, task: task
        self._uid_no = 0
        self._outside: Actor | None = None
        self.observer: Callable[[], None] | None = None
        self.passing: Callable[[int], None] | None = None
        """Called before virtual time moves on, with the new time."""
        self.observe_every = 4096
        self.footprint: Footprint | None = None
        self.explored: Footprint | None = None
        """The footprint that was recorded while choices were asked for, once they are asked for no more."""
        self.guard: Guard | None = None
        """The debug check that steps touch what they say."""
        self.thread = get_ident()
        self.sharing: Callable[[], str | None] | None = None
        """The debug check for what actors share: a line when it finds something."""
        self.look_outside: Callable[[], Generator[Any, Any, Any]] | None = None
        """Set by a driver in whose loop others wait, too: let them run, and come back to the same task."""
        self._alone = 0
        self.switch: Callable[[Task, Task | None], Generator[Any, Any, Any]] | None = None
        """Set by a driver: suspend this task, hand the baton to the other one (None: the run is over).

        Without it a task that parks yields to the driver, which looks up the task with the baton.
        """

    # ------------------------------------------------------------------ actors and tasks

    def add_actor(self, name: str, main: Body) -> Actor:
        """Declare an actor. It starts with `start_actor`."""
        if name in self.actors:
            raise UsageError(f"actor {name!r} exists already")
        actor = Actor(len(self.actors) + 1, name, main, Disk())
        self.actors[name] = actor
        return actor

    def start_actor(self, actor: Actor) -> Task:
        """Start an actor, or start it again: a new incarnation with empty memory and the disk it left."""
        if actor.alive:
            raise UsageError(f"actor {actor.name!r} is running already")
        if self.footprint is not None:
            self.footprint.everything()
        actor.incarnation += 1
        actor.alive = True
        actor.tasks = {}
        actor.names = {}
        actor.process = {}
        actor.open_streams = {}
        actor.waiting_for = {}
        actor.mailbox = self.new_mailbox(actor, "recv")
        return self.spawn(actor, "main", actor.main)

    def condition_name(self) -> str | int:
        """A name for one more condition: the same in all runs, where footprints are noted, else its number.

        Footprints may begin to be noted later: even then each condition is one of its own.
        """
        if self.footprint is not None:
            task = self.current
            return self.footprint.named(f"condition of {task.label if task is not None else ''}")
        self._condition_no += 1
        return self._condition_no

    def new_mailbox(self, actor: Actor, name: str) -> Mailbox:
        """One more mailbox of an actor."""
        self._mailbox_no += 1
        return Mailbox(self, self._mailbox_no, actor, name)

    def spawn(self, actor: Actor, name: str, body: Body, *args: Any, **kwargs: Any) -> Task:
        """A new task of `actor`, ready for its first step. Equal names get a number: "worker", "worker#2"."""
        count = actor.names.get(name, 0) + 1
        actor.names[name] = count
        if count > 1:
            name = f"{name}#{count}"
        self._task_no += 1

        def start() -> Coroutine[Any, Any, Any]:
            return body(self.context(self, task), *args, **kwargs)

        task = Task(self._task_no, actor, name, start)
        actor.tasks[task.no] = task
        task.cause = self.step
        declared = {"no": task.no, "actor": actor.name, "task": name, "inc": actor.incarnation}
        self.log.emit(
            ERROR, self.step, self.now, self.task_no(), TASK_DECLARED, self.step, data=declared
        )
        if self.footprint is not None:
            self.footprint.woke(task.label)
            self.footprint.shared(f"names {actor.name}/{name.partition('#')[0]}", write=True)
        self.ready.append(task)
        return task

    def running(self) -> Task:
        """The task whose step this is."""
        task = self.current
        if task is None:
            raise UsageError("no task is running: this may only be called from inside an actor")
        if task.dead:
            raise Killed
        return task

    def inside(self, task: Task) -> None:
        """Refuse an operation in this task's name by another actor's step, another thread, or outside any step."""
        current = self.current
        if current is not None and current.actor is task.actor and get_ident() == self.thread:
            return
        if get_ident() != self.thread:
            raise UsageError(f"{task.label}: its context is used from another thread")
        whose = f"a step of {current.label}" if current is not None else "outside of any step"
        raise UsageError(f"{task.label}: its context is used from {whose}")

    def task_no(self) -> int:
        """Number of the running task, 0 for the world itself."""
        return self.current.no if self.current is not None else 0

    # ------------------------------------------------------------------ waiting and waking

    def parked(self, task: Task, awaiting: str) -> int:
        """Note that `task` is about to park until woken; the number of this wait."""
        task.state = PARKED
        task.awaiting = awaiting
        task.wait_no += 1
        return task.wait_no

    def make_ready(self, task: Task, cause: int) -> None:
        """Put a task that gives up the baton behind the ready ones."""
        task.state = READY
        task.cause = cause
        self.ready.append(task)

    def offer(self, task: Task, cause: int) -> None:
        """Put a task that others may overtake before the ready ones: it is the default choice."""
        task.state = READY
        task.cause = cause
        self.ready.insert(0, task)

    def goes_on(self, task: Task) -> bool:
        """Take the default run's next step at once, for a task that would be chosen to go on anyway.

        It is recorded and logged like any other. False where a strategy or an observer comes between two steps; then
        the task has to
        be offered.
        """
        step = self.step + 1
        if (
            step >= self._alone_until
            or self.checks
            or self.reaping
            or self._strikes
            or self.standings
            or task.dead
            or self.tearing_down
            or self.inlet is not None
            or self.footprint is not None
            or self.verdict is not None
        ):
            return False
        task.cause = self.step
        self.step = step
        if self._heard:
            ready = self.ready
            if ready:
                self.choices.append(TASK, len(ready) + 1, 0, task.label)
            self.log.step(step, self.now, task.no, task.point, task.cause)
        return True

    def wake(
        self,
        task: Task,
        wait_no: int,
        value: Any = None,
        error: BaseException | None = None,
        cause: int | None = None,
    ) -> bool:
        """End wait `wait_no` of a task. False when that wait is over already (a stale wake-up)."""
        if task.wait_no != wait_no or task.state != PARKED:
            return False
        if get_ident() != self.thread:
            raise UsageError(f"{task.label} is woken from another thread")
        task.wait_no += 1
        if task.armed:
            task.armed = False
            self._busy_timers -= 1
        task.value = value
        task.error = error
        task.state = READY
        task.cause = self.step if cause is None else cause
        self.ready.append(task)
        return True

    def arm(self, task: Task, wait_no: int, at_ns: int, *, idle: bool, value: Any = None) -> None:
        """Wake that wait of `task` at `at_ns` at the latest. An idle timer does not keep the run from settling."""
        self._timer_seq += 1
        if not idle:
            task.armed = True
            self._busy_timers += 1
        heapq.heappush(
            self._timers, (at_ns, self._timer_seq, task, wait_no, idle, value, self.step)
        )

    def call_at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Let the kernel itself do something at a time: a delayed delivery, the end of a fault."""
        self._timer_seq += 1
        self._busy_timers += 1
        heapq.heappush(self._timers, (at_ns, self._timer_seq, call, 0, False, None, self.step))

    def _fire(self) -> None:
        """Move time to the next timer and fire it. Stale timers are dropped without moving time."""
        at_ns, _, target, wait_no, _, value, armed = heapq.heappop(self._timers)
        if isinstance(target, Task):
            if target.wait_no != wait_no or target.state != PARKED:
                return
            self._move_time(at_ns)
            self.wake(
                target, wait_no, value, cause=armed
            )  # the cause is the step that set the timer
            return
        self._move_time(at_ns)
        self._busy_timers -= 1
        target()

    def _move_time(self, at_ns: int) -> None:
        if at_ns > self.now:
            if self.passing is not None:
                self._quietly(self.passing, at_ns)
            if self.footprint is not None:
                self.footprint.barrier()
            if self._warm_up_ns and at_ns >= self._warm_up_ns:
                self._warmed_up()
            if at_ns >= self._dull_from_ns:
                self._dull_from_ns = NEVER
                self._fifo = True
                self.explored = self.footprint
                self.footprint = None
            self.now = at_ns
            self.note_input()

    def _quietly(self, look: Callable[..., None], *args: Any) -> None:
        """Call an observer outside the run: its reads do not count as the step's."""
        if self.guard is None:
            look(*args)
        else:
            self.guard.quietly(look, *args)

    def _warmed_up(self) -> None:
        """From here on the strategy answers."""
        self._warm_up_ns = 0
        self._fifo = type(self.strategy) is Fifo
        self._note_footprints()

    def _note_footprints(self) -> None:
        """Record footprints, if the strategy or the guard wants them."""
        if self.footprint is None:
            self.footprint = self.strategy.footprint
        if self.guard is not None:
            if self.footprint is None:
                self.footprint = Footprint()
                self.guard.alone = True
            self.footprint.guard = self.guard

    def _drop_stale_timers(self) -> None:
        timers = self._timers
        while timers:
            _, _, target, wait_no, _, _, _ = timers[0]
            if isinstance(target, Task) and (target.wait_no != wait_no or target.state != PARKED):
                heapq.heappop(timers)
            else:
                return

    @types.coroutine
    def park(self) -> Generator[Any, Any, Any]:
        """Give up the baton and come back when picked: the only await in actor code.

        The value is what the wake-up brought. A task that is picked again at once goes on without
        any driver's help, except that a driver with an outside looks there now and then.
        """
        task = self.current
        assert task is not None
        if task.dead:
            raise Killed
        try:
            chosen = self._select()
        except (Divergence, Abandoned) as ended:
            self._ended_by(ended)
            chosen = None
        if chosen is not task:
            if self.switch is None:
                self.baton = chosen
                yield
            else:
                yield from self.switch(task, chosen)
        elif self.look_outside is not None:
            self._alone += 1
            if not self._alone % ALONE:
                yield from self.look_outside()
        error = task.error
        if error is not None:
            task.error = None
            try:
                raise error
            finally:
                del error  # its traceback has this frame, which refers to it: a cycle that only the collector frees
        return task.value

    # ------------------------------------------------------------------ the step

    def select(self) -> Task | None:
        """End the current step and pick the task of the next one; None when the run is over."""
        try:
            return self._select()
        except (Divergence, Abandoned) as ended:
            self._ended_by(ended)
            return None

    def _ended_by(self, ended: Divergence | Abandoned) -> None:
        """A strategy can or will not go on."""
        if isinstance(ended, Divergence):
            self.finish("diverged", str(ended), ended)
        else:
            self.finish("abandoned", str(ended))

    def _select(self) -> Task | None:
        done = self.current
        footprint = self.footprint
        if done is not None:
            if footprint is not None:
                footprint.end()
            if self.checks and not self.tearing_down:
                checks = self.checks.get(done.actor.name)
                if checks is not None:
                    self._check(checks)
        self.current = None
        inlet = self.inlet
        if inlet is not None and self.ready and not self.tearing_down:
            inlet.admit()
        if self.reaping:
            task = self.reaping.pop(0)
            self.current = task
            task.state = RUNNING
            return task
        if self._strikes and self._strikes[0][0] <= self.step + 1 and not self.tearing_down:
            self._strike()
            if self.reaping:
                return self._select()
        if self.verdict is not None:
            return None
        ready = self.ready
        if self.standings:
            self._hold()
        while not ready:
            if not self._advance():
                return None
            if self.standings:
                self._hold()
        footprint = self.footprint  # which may have begun just now
        step = self.step + 1
        if step > self._limit:
            self._over_limit()
            return None
        count = len(ready)
        if self._eager and self._timers:
            count, index = self._choose_with_time()
        elif count > 1:
            index = 0 if self._fifo else self.strategy.choose(TASK, ready, step)
        else:
            index = 0
        self.step = step
        if footprint is not None:
            chosen = ready[index]
            footprint.begin(step, chosen.actor.name, chosen.label, chosen.point, count)
        task = ready.pop(index)
        heard = self._heard
        if heard and count > 1:  # observers find the choice of the step that begins
            self.choices.append(TASK, count, index, task.label)
        if step >= self._look_at:
            self._look(step)
        if heard:
            self.log.step(step, self.now, task.no, task.point, task.cause)
        if task.state == READY:
            task.state = RUNNING
        self.current = task
        return task

    def _hold(self) -> None:
        """Hold the tasks that have reached a point for which a wait exists, and notify it."""
        for standing in self.standings:
            if standing.held is not None:
                continue
            whose, meant = standing.actor, standing.meant
            for task in self.ready:
                if (
                    task.actor.name == whose
                    and meant.get(task.point, True)
                    and standing.takes(task)
                ):
                    if self.footprint is not None:
                        self.footprint.everything()
                    self.ready.remove(task)
                    value, error = task.value, task.error
                    standing.held = (
                        task,
                        self.parked(task, f"{standing.waiter.label}, at {standing.point}"),
                    )
                    task.value, task.error = value, error
                    self.wake(standing.waiter, standing.wait_no, cause=task.cause)
                    break

    def let_go(self, standing: Standing) -> None:
        """Let a held task go on; if none has come yet, none will be held."""
        if self.footprint is not None:
            self.footprint.everything()
        if standing in self.standings:
            self.standings.remove(standing)
        if standing.held is not None:
            task, wait_no = standing.held
            self.wake(task, wait_no, task.value, task.error)

    def _strike(self) -> None:
        """Do what was put off until now."""
        while self._strikes and self._strikes[0][0] <= self.step + 1:
            heapq.heappop(self._strikes)[2]()

    def _look(self, step: int) -> None:
        """Call the observers that are due, and note when the next one is."""
        due = NEVER
        if self.observer is not None:
            if not step % self.observe_every:
                self._quietly(self.observer)
            due = min(due, step - step % self.observe_every + self.observe_every)
        if self.sharing is not None:
            if not step % SHARING_STEPS:
                self.sharing_checked()
            due = min(due, step - step % SHARING_STEPS + SHARING_STEPS)
        self._look_at = due
        self._set_alone_until()

    def _choose_with_time(self) -> tuple[int, int]:
        """Eager time: besides the ready tasks, the next timer is an option (the last one)."""
        while True:
            self._drop_stale_timers()
            options: list[Any] = [*self.ready]
            if self._timers:
                options.append(NEXT_TIMER)
            if len(options) == 1:
                return 1, 0
            index = self.strategy.choose(TASK, options, self.step + 1)
            if index < len(self.ready):
                return len(options), index
            self.choices.append(TASK, len(options), index, NEXT_TIMER.label)
            self._fire()

    def _advance(self) -> bool:
        """Nothing is ready: let time pass to the next instant at which something happens.

        False ends the run, or, when it is paced and has no verdict yet, lets the driver wait.
        """
        ready = self.ready
        timers = self._timers
        inlet = self.inlet
        pace = self.pace
        until = self.until_ns
        while not ready:
            if self.verdict is not None:
                return False
            self._drop_stale_timers()
            at_ns = timers[0][0] if timers else None
            if inlet is not None:
                due = inlet.due(self.step, self.now)
                if due is not None:
                    if at_ns is not None and at_ns <= due:
                        self._fire_instant(at_ns)
                    else:
                        self._move_time(due)
                        inlet.admit()
                    continue
            if pace is not None:
                if not pace.reached(at_ns, self.now, busy=self._busy_timers > 0):
                    return False
            elif at_ns is None or (until is None and self._busy_timers == 0):
                if inlet is None or not inlet.to_come():
                    self._settled()
                    return False
                if at_ns is None:
                    raise Divergence(
                        f"step {self.step}: the run settled, but input was recorded after a later step",
                        index=len(self.choices),
                        step=self.step,
                    )
            assert at_ns is not None
            if until is not None and at_ns > until:
                self._move_time(until)
                self.finish("until", f"virtual time {seconds(until)} s reached")
                return False
            self._fire_instant(at_ns)
        return True

    def _fire_instant(self, at_ns: int) -> None:
        timers = self._timers
        while timers and timers[0][0] <= at_ns:
            self._fire()

    def note_input(self) -> None:
        """Input came, or time moved on: steps from here on are its doing, not a livelock."""
        self._instant_start = self.step
        self._limit = min(self._step_limit, self.step + self._livelock_limit + 1)
        self._set_alone_until()

    def _set_alone_until(self) -> None:
        """After a change of `_limit` or `_look_at`."""
        free = self._fifo and not self._eager
        self._alone_until = min(self._limit + 1, self._look_at) if free else 0

    def _settled(self) -> None:
        stuck = [
            task.label + " waits for " + str(task.awaiting)
            for actor in self.actors.values()
            for task in actor.tasks.values()
            if task.state == PARKED and not task.idle
        ]
        if stuck:
            self.finish("deadlock", "; ".join(stuck[:10]))
        else:
            self.finish("quiescent", "nothing more will happen")

    def interrupt(self, reason: str, after: int = -1) -> None:
        """End the run after step `after`, or the one that is being taken, whichever is later.

        A signal handler may call it at any time: nothing is decided or logged before the next step
        is chosen. One that comes while the limits are being set waits until time moves on.
        """
        self._interruption = reason
        self._step_limit = min(self._step_limit, after)
        self._limit = min(self._limit, after)
        self._set_alone_until()

    def _over_limit(self) -> None:
        if self._interruption is not None and self.step >= self._step_limit:
            self.finish("stopped", self._interruption)
        elif self.step >= self._step_limit:
            self.finish("step-limit", f"{self.step} steps")
        else:
            self.finish(
                "livelock",
                f"{self.step - self._instant_start} steps without time moving on from {seconds(self.now)} s",
            )

    def finish(self, verdict: str, reason: str, error: BaseException | None = None) -> None:
        """End the run after this step. The first verdict stays."""
        if self.verdict is not None:
            return
        self.verdict = verdict
        self.reason = reason
        self.error = error
        level = INFO if verdict in {"quiescent", "until", "stopped"} else ERROR
        self.log.emit(
            level,
            self.step,
            self.now,
            0,
            "verdict",
            self.step,
            data={"verdict": verdict, "reason": reason},
        )

    def _check(self, checks: Checks) -> None:
        try:
            due = checks.due()
        except Exception as error:
            self._raised("what invariants look at", error)
            return
        for name, check in due:
            if self._ask(name, check):
                return

    def _ask(self, name: str, check: Callable[[], str | None]) -> bool:
        """Return whether an invariant ended the run: it broke, or it raised, which is a defect of the invariant."""
        try:
            violation = check()
        except Exception as error:
            self._raised(name, error)
            return True
        if violation is None:
            return False
        self.violated(name, violation)
        return True

    def _raised(self, name: str, error: Exception) -> None:
        where = "".join(traceback.format_exception_only(error)).strip()
        self.finish("invariant-error", f"{name}: {where}", error)

    def violated(self, name: str, violation: str) -> None:
        """An invariant broke: the run ends with verdict "violated"."""
        self.finish("violated", f"{name}: {violation}")

    # ------------------------------------------------------------------ choices

    def choose(self, kind: str, options: Sequence[Any]) -> int:
        """Ask the strategy; record the answer. One option is no choice."""
        n = len(options)
        if n <= 1:
            return 0
        if self._fifo or kind in self._dull:
            index = 0
        else:
            index = self.strategy.choose(kind, options, self.step)
            if not 0 <= index < n:
                raise UsageError(f"strategy {self.strategy.name} answered {index} for {n} options")
        self.choices.append(kind, n, index, options[index].label)
        if self.footprint is not None:
            self.footprint.chose(kind, name_of(options, index))
        return index

    def pick(self, kind: str, n: int, label: str) -> int:
        """A choice that actor code names itself, among the numbers 0 to n - 1."""
        if n < 1:
            raise UsageError(f"choice {kind!r} needs at least one option")
        value = self.choose(kind, [Named(label)] * n)
        if n > 1:
            self.log.emit(
                DEBUG,
                self.step,
                self.now,
                self.task_no(),
                "choice",
                self.step,
                data={"kind": kind, "n": n, "value": value, "label": label},
            )
        return value

    def uid(self) -> int:
        """The next identity number of this run."""
        self._uid_no += 1
        if self.footprint is not None:
            self.footprint.shared("serials", write=True)
        return self._uid_no

    # ------------------------------------------------------------------ messages

    def send(
        self,
        sender: Actor,
        target: Mailbox,
        payload: Any,
        *,
        key: Any = None,
        request: Request | None = None,
        stream: Mailbox | None = None,
    ) -> None:
        """Put a message on its way. To a dead incarnation it is lost, as on a closed socket."""
        self._send_no = send_no = self._send_no + 1
        message = Message(self, send_no, sender, payload, self.step, request, stream)
        if self.footprint is not None:
            message.origin = self.footprint.sent(
                target.owner.name, target.name, sender.name, send_no, ordered=key is None
            )
        if key is None:
            key = sender.name
        if self.links:
            link = self.links.get((sender.name, target.owner.name))
            if link is not None:
                self._crosses(link)
                link.carry(target, key, message)
                return
        self.deliver(target, key, message)

    def _crosses(self, link: Link) -> None:
        """Something crosses a link: where the link counts or holds what comes, the order matters."""
        if self.footprint is not None and (link.losing or link.answers or link.cut):
            self.footprint.everything()

    def deliver(self, target: Mailbox, key: Any, message: Message) -> None:
        """The message arrives."""
        owner = target.owner
        if owner.alive and target.incarnation == owner.incarnation and not target.broken:
            target.put(key, message)
        elif message.request is not None:
            self.answer(message.request, None, LinkBroken(f"{owner.name} is down"))
        elif message.stream is not None:
            message.stream.break_now()

    def unordered_key(self) -> int:
        """The key of a channel for one message."""
        return self._send_no + 1

    def new_request(self, asker: Task, wait_no: int, peer: Actor) -> Request:
        """Register a request, so that a reset link can fail it."""
        self._request_no += 1
        request = Request(self._request_no, asker, wait_no, peer)
        asker.actor.waiting_for[request.number] = (asker, wait_no, peer.name)
        return request

    def answer(self, request: Request, value: Any, error: BaseException | None) -> None:
        """Send the answer of a request back along its link."""
        asker = request.asker
        if self.links:
            link = self.links.get((request.peer.name, asker.actor.name))
            if link is not None:
                self._crosses(link)
                link.carry_answer(request, value, error, self.step)
                return
        self.answered(request, value, error, self.step)

    def answered(
        self, request: Request, value: Any, error: BaseException | None, cause: int
    ) -> None:
        """The answer arrives; dropped when the asker is gone or gave up."""
        asker = request.asker
        if asker.actor.waiting_for.pop(request.number, None) is not None:
            if self.footprint is not None:
                self.footprint.woke(asker.label)
            self.wake(asker, request.wait_no, value, error, cause)

    def outside(self) -> Actor:
        """The sender of external input: an actor without tasks."""
        if self._outside is None:
            self._outside = Actor(0, "outside", _nobody, Disk())
        return self._outside

    # ------------------------------------------------------------------ faults

    def fault(self, name: str, **told: Any) -> None:
        """Tell the log of a fault, or of its end."""
        if self.footprint is not None:
            self.footprint.everything()
        self.log.emit(
            WARNING,
            self.step,
            self.now,
            self.task_no(),
            "fault",
            self.step,
            data={"fault": name, **told},
        )

    def actor(self, name: str) -> Actor:
        """The actor of that name. Raises UsageError."""
        found = self.actors.get(name)
        if found is None:
            raise UsageError(f"no actor is called {name!r}")
        return found

    def link_between(self, one: str, other: str) -> Link:
        """The link from one actor to another, made when first asked for."""
        link = self.links.get((one, other))
        if link is None:
            self.actor(one), self.actor(other)
            link = self.links[one, other] = Link(self, f"{one}->{other}")
        return link

    def cut(self, one: str, other: str) -> None:
        """Let messages between two actors wait, both ways, until the cut is healed."""
        self.fault("cut", a=one, b=other)
        self.link_between(one, other).cut = True
        self.link_between(other, one).cut = True

    def heal(self, one: str, other: str) -> None:
        """End a cut and a delay: what waited goes on, in order."""
        self.fault("heal", a=one, b=other)
        for pair in ((one, other), (other, one)):
            link = self.links.get(pair)
            if link is not None:
                link.slow(0)
                link.heal()

    def delay(self, one: str, other: str, ns: int) -> None:
        """From now on messages between two actors take `ns` longer, both ways."""
        self.fault("delay", a=one, b=other, ns=ns)
        self.link_between(one, other).slow(ns)
        self.link_between(other, one).slow(ns)

    def lose(self, one: str, other: str, count: int) -> None:
        """The next `count` messages and answers from one actor to the other are lost."""
        self.fault("lose", a=one, b=other, count=count)
        self.link_between(one, other).losing += count

    def intercept(self, one: str, other: str, answer: Any, count: int, label: str) -> None:
        """The next `count` requests from one actor to the other are answered so, and never arrive."""
        self.fault("intercept", a=one, b=other, count=count, answer=label)
        self.link_between(one, other).answers.extend([answer] * count)

    def alter(self, one: str, other: str, answer: Any, count: int, label: str) -> None:
        """The next `count` requests from one actor to the other arrive, and are answered so all the same."""
        self.fault("alter", a=one, b=other, count=count, answer=label)
        self.link_between(other, one).altered.extend([answer] * count)

    def relent(self, one: str, other: str) -> None:
        """Losses, interceptions and alterations between two actors that are still to come do not, either way."""
        pending = [self.links.get(pair) for pair in ((one, other), (other, one))]
        links = [link for link in pending if link is not None and link.has_pending_faults()]
        if not links:
            return
        self.fault("relent", a=one, b=other)
        for link in links:
            link.relent()

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Do something between two steps, before step `step`, if the run comes that far."""
        self._struck += 1  # two for the same step happen in the order in which they were asked for
        heapq.heappush(self._strikes, (max(step, self.step + 1), self._struck, call))

    def between_steps(self, call: Callable[[], None]) -> None:
        """Do something between two steps: now if no step is being taken, else before the next one."""
        if self.current is None:
            call()
        else:
            self.at_step(self.step + 1, call)

    def break_link(self, one: str, other: str) -> None:
        """Reset all connections between two actors: requests under way fail, streams break, both ways."""
        self.fault("break", a=one, b=other)
        self._reset(self.actor(one), other)
        self._reset(self.actor(other), one)

    def crash(self, actor: Actor) -> None:
        """Kill an actor at once: its tasks, its memory, a suffix of its unsynced writes, its connections."""
        if not actor.alive:
            return
        self._end_tasks(actor)
        lost = actor.disk.crash(lambda n: self.pick("disk", n, f"{actor.name} loses writes"))
        self.fault("crash", actor=actor.name, lost_writes=lost)
        self._reset_peers(actor)

    def end(self, actor: Actor) -> None:
        """Take an actor out of the world: its tasks and its connections end. It is no fault."""
        if not actor.alive:
            return
        if self.footprint is not None:
            self.footprint.everything()
        self._end_tasks(actor)
        self._reset_peers(actor)

    def _end_tasks(self, actor: Actor) -> None:
        actor.alive = False
        for task in list(actor.tasks.values()):
            if task.state == DONE:
                continue
            task.dead = True
            if task.state == NEW:
                if task in self.ready:
                    self.ready.remove(task)
                self.task_done(task, None)
            elif task is not self.current:
                self._condemn(task)

    def _reset_peers(self, actor: Actor) -> None:
        for other in self.actors.values():
            if other is not actor and other.alive:
                self._reset(other, actor.name)

    def restart(self, name: str) -> None:
        """Start a crashed actor again."""
        actor = self.actor(name)
        self.start_actor(actor)
        self.fault("restart", actor=name, incarnation=actor.incarnation)

    def _reset(self, actor: Actor, peer: str) -> None:
        """Fail what `actor` has under way with `peer`: requests and streams."""
        for number, (task, wait_no, to) in list(actor.waiting_for.items()):
            if to == peer:
                del actor.waiting_for[number]
                self.wake(task, wait_no, None, LinkBroken(f"connection to {peer} was reset"))
        for mailbox in list(actor.open_streams.values()):
            if mailbox.peer is not None and mailbox.peer.name == peer:
                del actor.open_streams[mailbox.no]
                mailbox.break_now()

    def _condemn(self, task: Task) -> None:
        """Let a task's next step be its last: it gets Killed where it stands, before any other task runs."""
        task.dead = True
        if task.state == READY and not self.tearing_down:
            self.ready.remove(task)
        if task.armed:
            task.armed = False
            self._busy_timers -= 1
        task.wait_no += 1
        task.value = None
        task.error = Killed()
        self.reaping.append(task)

    def cancel(self, task: Task) -> None:
        """Throw Cancelled into a task where it is parked; a task that has not begun never will."""
        if self.footprint is not None:
            self.footprint.everything()
        if task.state == NEW:
            self.ready.remove(task)
            self.task_done(task, None)
        elif task.state == PARKED:
            self.wake(task, task.wait_no, None, Cancelled())
        elif task.state == READY:
            task.error = Cancelled()

    # ------------------------------------------------------------------ the end of a task, and of a run

    def task_done(self, task: Task, result: Any) -> None:
        """A task ended; a task that joins it is woken."""
        task.state = DONE
        task.result = result
        task.coro = None
        task.body = _begun  # it knows its task: a circle
        if task.armed:
            task.armed = False
            self._busy_timers -= 1
        task.actor.tasks.pop(task.no, None)
        for joiner, wait_no in task.joiners:
            if self.footprint is not None:
                self.footprint.woke(joiner.label)
            self.wake(joiner, wait_no, result)

    def task_failed(self, task: Task, error: BaseException) -> None:
        """A task raised. Killed and Cancelled end it quietly; anything else ends the run."""
        self.task_done(task, None)
        if isinstance(error, Killed | Cancelled) or task.dead:
            return
        if isinstance(error, Divergence):
            self.finish("diverged", str(error), error)
            return
        if isinstance(error, Abandoned):
            self.finish("abandoned", str(error))
            return
        where = "".join(traceback.format_exception_only(error)).strip()
        self.finish("failed", f"{task.label} at {task.point}: {where}", error)

    def begin(self) -> None:
        """Start the strategy, then all actors in the order in which they were added."""
        self.thread = get_ident()
        strategy = self.strategy
        strategy.begin()
        if isinstance(strategy, Replay) and strategy.marks is not None:
            self.log.expect(strategy.marks, self._differs)
        if not self._warm_up_ns:
            self._note_footprints()
        for actor in list(self.actors.values()):
            if not actor.alive:
                self.start_actor(actor)

    def _differs(self, where: str) -> None:
        """The trace of a replay is not the recorded one: whatever came of the run, it is another run."""
        self.verdict = None
        self.finish("diverged", where)

    def sharing_checked(self) -> bool:
        """Return whether the debug check for shared mutable objects ended the run."""
        return self.sharing is not None and self._ask("actors share nothing", self.sharing)

    def run_end_checks(self) -> None:
        """Invariants that hold once the run has settled; and what it reached, however it ended."""
        self.reached = [name for name, reached in self.hopes.items() if reached()]
        if self.verdict != "quiescent":
            return
        self.verdict = None
        if self.sharing_checked():
            return
        for name, check in self.end_checks:
            if self._ask(name, check):
                return
        self.verdict = "quiescent"
        strategy = self.strategy
        if isinstance(strategy, Replay) and not strategy.clamp and strategy.left_over():
            self.verdict = None
            self.finish(
                "diverged", f"the run settled with {strategy.left_over()} recorded choices unused"
            )

    def tear_down(self) -> None:
        """After the verdict: cancel every task, in actor order. Drivers then step until none is left."""
        self.tearing_down = True
        self.log.close()
        self.ready.clear()
        for actor in self.actors.values():
            actor.alive = False
            for task in list(actor.tasks.values()):
                if task.state == NEW:
                    self.task_done(task, None)
                elif task.state != DONE:
                    self._condemn(task)
