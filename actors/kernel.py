"""The kernel: one runnable task at a time, one list of choices, virtual time in whole nanoseconds.

Its parts have modules of their own: `lifecycle` (actors and tasks), `transport` (messages), `timers`, `faults`,
`checks` (invariants) and `holding` (tasks that are held at a point). What is left here is the step.

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

import types
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from actors.checks import Invariants
from actors.choices import TASK, ChoiceList, name_of
from actors.errors import Abandoned, Divergence, Killed, UsageError
from actors.faults import Faults
from actors.footprint import Footprint
from actors.holding import Holds
from actors.jsonl import seconds
from actors.lifecycle import Lifecycle
from actors.log import DEBUG, ERROR, INFO, EventLog
from actors.process import PARKED, READY, RUNNING, Actor, Task
from actors.strategies.fifo import Fifo
from actors.strategies.replay import PrefixThenContinue, Replay
from actors.timers import Timers
from actors.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence

    from actors.guard import Guard
    from actors.inlet import Inlet
    from actors.pace import Pacer
    from actors.strategies.base import Strategy


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
        "_alone",
        "_alone_until",
        "_checks",
        "_condition_no",
        "_default_from_ns",
        "_default_kinds",
        "_eager",
        "_explored_ns",
        "_fifo",
        "_heap",
        "_heard",
        "_instant_start",
        "_interruption",
        "_limit",
        "_livelock_limit",
        "_look_at",
        "_planned",
        "_step_limit",
        "_uid_no",
        "_waits",
        "_warm_up_ns",
        "actors",
        "baton",
        "choices",
        "context",
        "current",
        "error",
        "explored",
        "faults",
        "footprint",
        "guard",
        "holds",
        "inlet",
        "invariants",
        "lifecycle",
        "log",
        "look_outside",
        "now",
        "observe_every",
        "observer",
        "pace",
        "passing",
        "ready",
        "reaping",
        "reason",
        "step",
        "strategy",
        "switch",
        "tearing_down",
        "thread",
        "timers",
        "transport",
        "until_ns",
        "verdict",
    )

    TIMED_OUT: Final = _TimedOut()
    baton: Task | None
    _alone: int

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

    def __init__(
        self,
        strategy: Strategy,
        log: EventLog,
        *,
        step_limit: int,
        livelock_limit: int,
        eager_time: bool = False,
        explored_ns: tuple[int, int] = (0, NEVER),
        default_kinds: Collection[str] = (),
    ) -> None:
        self.strategy = strategy
        self.log = log
        self._heard = log.heard
        self.choices = ChoiceList()
        self.step = 0
        self.now = 0
        self.current: Task | None = None
        self.baton = None
        self.actors: dict[str, Actor] = {}
        self.transport = Transport(self)
        self.timers = Timers(self)
        self.lifecycle = Lifecycle(self, self.transport, self.timers)
        self.faults = Faults(self, self.lifecycle, self.transport, self.timers)
        self.invariants = Invariants(self)
        self.holds = Holds(self)
        self._heap = self.timers.heap
        self._planned = self.faults.planned
        self._checks = self.invariants.by_actor
        self._waits = self.holds.waits
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
            explored_ns, default_kinds = (0, NEVER), ()
        self._default_kinds = default_kinds
        self._explored_ns = explored_ns
        self._warm_up_ns, self._default_from_ns = explored_ns
        self._fifo = type(strategy) is Fifo or self._warm_up_ns > 0
        self._eager = eager_time
        self._condition_no = 0
        self._step_limit = step_limit
        self._livelock_limit = livelock_limit
        self._instant_start = 0
        self._limit = min(step_limit, livelock_limit + 1)
        self._look_at = 0
        self._alone_until = 0
        """The first step before which a task must stop, as a strategy chooses or an observer looks."""
        self.until_ns: int | None = None
        self.context: Callable[[Kernel, Task], Any] = lambda _kernel, task: task
        self._uid_no = 0
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
        self.look_outside: Callable[[], Generator[Any, Any, Any]] | None = None
        """Set by a driver in whose loop others wait, too: let them run, and come back to the same task."""
        self._alone = 0
        self.switch: Callable[[Task, Task | None], Generator[Any, Any, Any]] | None = None
        """Set by a driver: suspend this task, hand the baton to the other one (None: the run is over).

        Without it a task that parks yields to the driver, which looks up the task with the baton.
        """

    # ------------------------------------------------------------------ actors and tasks

    def make_context(self, task: Task) -> Any:
        """The context of a task, by which alone its code reaches the kernel."""
        return self.context(self, task)

    def actor(self, name: str) -> Actor:
        """The actor of that name. Raises UsageError."""
        found = self.actors.get(name)
        if found is None:
            raise UsageError(f"no actor is called {name!r}")
        return found

    def condition_name(self) -> str | int:
        """A name for one more condition: the same in all runs, where footprints are noted, else its number.

        Footprints may begin to be noted later: even then each condition is one of its own.
        """
        if self.footprint is not None:
            task = self.current
            return self.footprint.named(f"condition of {task.label if task is not None else ''}")
        self._condition_no += 1
        return self._condition_no

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
            or self._checks
            or self.reaping
            or self._planned
            or self._waits
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
            self.timers.busy -= 1
        task.value = value
        task.error = error
        task.state = READY
        task.cause = self.step if cause is None else cause
        self.ready.append(task)
        return True

    def move_time(self, at_ns: int) -> None:
        """Let virtual time move on to `at_ns`, unless it has come that far already."""
        if at_ns > self.now:
            if self.passing is not None:
                self._quietly(self.passing, at_ns)
            if self.footprint is not None:
                self.footprint.barrier()
            if self._warm_up_ns and at_ns >= self._warm_up_ns:
                self._warmed_up()
            if at_ns >= self._default_from_ns:
                self._default_from_ns = NEVER
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
                self.footprint = Footprint(classes=False)
                self.guard.alone = True
            self.footprint.guard = self.guard

    # ------------------------------------------------------------------ the step
    #
    # How a step is chosen. `_select` runs once per step and is the busiest code of the project: its order is one of
    # need first, and then of cost.
    #
    # 1. The step that ends is accounted for first: its footprint is closed, and the invariants of its actor are asked
    #    while `current` still names it. An invariant that was asked later would see a state that the next actor had
    #    changed, and would blame the wrong step.
    # 2. Input from outside comes next, as long as a task is ready: "after step n" is what its recording says. (With no
    #    task ready, the time at which it comes decides; see `Timers.advance`.)
    # 3. Tasks of a crashed actor go before everything else, without a step number: a process that was killed cannot do
    #    anything between its death and the unwinding of its frames, so no other task may see it half dead. Faults that
    #    were planned for this boundary come after that, and may condemn more tasks, which is why it is asked again.
    # 4. Only then may time pass: computing takes no virtual time, so a ready task precedes every timer. Time as one
    #    more option of each step is a policy of its own (`eager_time`), as it multiplies the schedules of a search.
    # 5. With one ready task nothing is asked and nothing recorded: a list of choices holds choices only, so it stays
    #    short, and a recording does not break when a task comes to run alone.
    #
    # The choice is appended after the strategy has answered and before observers look: a progress line, and a recording
    # that is taken at that moment, contain the choice of the step that begins.
    #
    # The call is synchronous and made by the task that parks. One task hands the baton to the next (`park`); a loop in
    # the middle that every task returns to costs a switch more per step. A task that is chosen again goes on without
    # any switch, and a `region` in a run without a strategy not even comes here (`goes_on`).
    #
    # Lists that are looked at in every step (`_planned`, `_waits`, `_checks`, `_heap`) belong to the parts that fill
    # them, and are never rebound there; the kernel keeps them to ask with one attribute look-up whether they are empty.

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
            if self._checks and not self.tearing_down:
                checks = self._checks.get(done.actor.name)
                if checks is not None:
                    self.invariants.check(checks)
        self.current = None
        inlet = self.inlet
        if inlet is not None and self.ready and not self.tearing_down:
            inlet.admit()
        if self.reaping:
            task = self.reaping.pop(0)
            self.current = task
            task.state = RUNNING
            return task
        if self._planned and self._planned[0][0] <= self.step + 1 and not self.tearing_down:
            self.faults.run_due()
            if self.reaping:
                return self._select()
        if self.verdict is not None:
            return None
        ready = self.ready
        if self._waits:
            self.holds.hold()
        while not ready:
            if not self.timers.advance():
                return None
            if self._waits:
                self.holds.hold()
        footprint = self.footprint  # which may have begun just now
        step = self.step + 1
        if step > self._limit:
            self._over_limit()
            return None
        count = len(ready)
        if self._eager and self._heap:
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

    def _look(self, step: int) -> None:
        """Call the observers that are due, and note when the next one is."""
        due = NEVER
        if self.observer is not None:
            if not step % self.observe_every:
                self._quietly(self.observer)
            due = min(due, step - step % self.observe_every + self.observe_every)
        if self.invariants.sharing is not None:
            if not step % SHARING_STEPS:
                self.invariants.check_sharing()
            due = min(due, step - step % SHARING_STEPS + SHARING_STEPS)
        self._look_at = due
        self._set_alone_until()

    def _choose_with_time(self) -> tuple[int, int]:
        """Eager time: besides the ready tasks, the next timer is an option (the last one)."""
        while True:
            self.timers.drop_stale()
            options: list[Any] = [*self.ready]
            if self._heap:
                options.append(NEXT_TIMER)
            if len(options) == 1:
                return 1, 0
            index = self.strategy.choose(TASK, options, self.step + 1)
            if index < len(self.ready):
                return len(options), index
            self.choices.append(TASK, len(options), index, NEXT_TIMER.label)
            self.timers.fire()

    def note_input(self) -> None:
        """Input came, or time moved on: steps from here on are its doing, not a livelock."""
        self._instant_start = self.step
        self._limit = min(self._step_limit, self.step + self._livelock_limit + 1)
        self._set_alone_until()

    def _set_alone_until(self) -> None:
        """After a change of `_limit` or `_look_at`."""
        free = self._fifo and not self._eager
        self._alone_until = min(self._limit + 1, self._look_at) if free else 0

    def settled(self) -> None:
        """End the run, as nothing is left to happen: quiescent, or a deadlock if a task waits that is not idle."""
        stuck = [
            task.label + " waits for " + str(task.awaiting)
            for actor in self.actors.values()
            for task in actor.tasks.values()
            if task.state == PARKED and not task.idle
        ]
        if stuck:
            self.finish("deadlock", "; ".join(stuck[:10]))
        elif self._heap:
            self.finish("quiescent", "only periodic work is left")
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

    # ------------------------------------------------------------------ choices

    def choose(self, kind: str, options: Sequence[Any]) -> int:
        """Ask the strategy; record the answer. One option is no choice."""
        n = len(options)
        if n <= 1:
            return 0
        if self._fifo or kind in self._default_kinds:
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

    # ------------------------------------------------------------------ the begin of a run

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
                self.lifecycle.start(actor)

    def _differs(self, where: str) -> None:
        """The trace of a replay is not the recorded one: whatever came of the run, it is another run."""
        self.verdict = None
        self.finish("diverged", where)
