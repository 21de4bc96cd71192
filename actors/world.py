"""The world: owns steps, time, choices, identity and the log of one run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgpack
from attrs import field, frozen

from actors.checks import Checks
from actors.choices import Unkept
from actors.context import Context
from actors.drivers import bare
from actors.errors import UsageError
from actors.guard import Guard
from actors.inlet import STOP, Inlet, Input
from actors.interception import Overheard
from actors.kernel import NEVER, NEXT_TIMER, Kernel
from actors.link import Link
from actors.log import EventLog
from actors.process import PARKED
from actors.recording import Recording, flat
from actors.sharing import CHECK_FOOTPRINTS, CHECK_SHARING, Sharing
from actors.strategies.fifo import Fifo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable

    from actors.choices import ChoiceList
    from actors.disk import Disk
    from actors.faults import Faults
    from actors.footprint import Footprint
    from actors.interception import Interceptor, Listener
    from actors.log import Marks
    from actors.pace import Pacer
    from actors.strategies.base import Strategy
    from actors.transport import Transport

Driver = Literal["trio", "bare"]

STEP_LIMIT = 50_000_000
LIVELOCK_LIMIT = 2_000_000


@frozen
class RunResult:
    """The result of a run.

    `verdict`: "quiescent" (settled: nothing but idle timers is left), "until" (the time limit was
    reached), "deadlock", "livelock", "step-limit", "violated" (an invariant broke),
    "invariant-error" (an invariant raised: `error` has the traceback), "failed" (an actor raised),
    "diverged" (a replay met another choice), "abandoned" (the strategy gave it up), or "stopped". `t_ns` is virtual
    nanoseconds; `trace_hash` identifies everything that happened, `causal_class` all of it but the
    order of steps that do not touch each other ("" when no footprints were recorded). `reached`
    names what of `World.sometimes` happened.
    """

    verdict: str
    reason: str
    steps: int
    t_ns: int
    trace_hash: str
    causal_class: str
    choices: ChoiceList = field(repr=False)
    inputs: tuple[Input, ...] = field(repr=False)
    error: BaseException | None = field(repr=False)
    marks: Marks = field(repr=False)
    reached: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether it ended well."""
        return self.verdict in {"quiescent", "until", "stopped"}

    @property
    def abandoned(self) -> bool:
        """Return whether the strategy gave the run up: it says nothing, and does not count as distinct."""
        return self.verdict == "abandoned"

    @property
    def broken(self) -> bool:
        """Return whether the run is a finding: it was carried out, and did not end well."""
        return not self.ok and not self.abandoned

    @property
    def identity(self) -> str:
        """The causal class, or the trace hash where no footprints were recorded."""
        return self.causal_class or self.trace_hash


@frozen
class Explored:
    """The part of a run in which a strategy answers; elsewhere choices are answered with the default option.

    Args:
        begin_ns: the first virtual nanosecond of that part.
        end_ns: the first one after it.
        default_kinds: kinds of choices that are answered with the default option in all of the run.
    """

    begin_ns: int = 0
    end_ns: int = NEVER
    default_kinds: Collection[str] = ()


@frozen
class DebugChecks:
    """Debug modes that end a run as "violated".

    Args:
        footprints: when a step touches a part of its actor's memory that it did not declare. None: as
            `sharing.CHECK_FOOTPRINTS` says.
        sharing: when two actors reach the same mutable object. None: as `sharing.CHECK_SHARING` says.
        values: classes whose instances count as immutable for that.
    """

    footprints: bool | None = None
    sharing: bool | None = None
    values: Iterable[type] = ()


class World:
    """One run: declare actors, then `run` once.

    Args:
        strategy: answers the choices; first-in-first-out by default.
        log: where events go; by default everything is kept in memory; with `Unheard` neither trace nor choices are.
        eager_time: make "time passes" an option at every step, instead of only when nothing is ready.
        step_limit: verdict "step-limit" after this many steps.
        livelock_limit: verdict "livelock" after this many in one instant.
        inputs: the recorded external input of a session that is being replayed.
        footprint: notes what each step touches, in the part that is explored.
        explored: the part of the run in which the strategy answers; all of it by default.
        checks: debug modes.
    """

    def __init__(
        self,
        *,
        strategy: Strategy | None = None,
        log: EventLog | None = None,
        eager_time: bool = False,
        step_limit: int = STEP_LIMIT,
        livelock_limit: int = LIVELOCK_LIMIT,
        inputs: Iterable[Input] | None = None,
        footprint: Footprint | None = None,
        explored: Explored = Explored(),
        checks: DebugChecks = DebugChecks(),
    ) -> None:
        self.strategy: Strategy = strategy or Fifo()
        self.log = log or EventLog()
        self._kernel = Kernel(
            self.strategy,
            self.log,
            step_limit=step_limit,
            livelock_limit=livelock_limit,
            eager_time=eager_time,
            explored_ns=(explored.begin_ns, explored.end_ns),
            default_kinds=explored.default_kinds,
        )
        self._kernel.context = Context
        if not self.log.heard:
            self._kernel.choices = Unkept()
        check_sharing, values = checks.sharing, checks.values
        if check_sharing is None:
            budget = CHECK_SHARING.get()
            check_sharing = budget is not None and budget.spend()
            values = (*values, *budget.values) if budget is not None else values
        if check_sharing:
            self._kernel.invariants.sharing = Sharing(self._kernel, values).violation
        self._kernel.footprint = self.footprint = footprint
        check_footprints = checks.footprints
        if check_footprints is None:
            checked = CHECK_FOOTPRINTS.get()
            check_footprints = checked is not None and checked.spend()
        if check_footprints:
            self._kernel.guard = Guard(self._kernel.invariants.violated)
        recorded = tuple(inputs or ())
        if recorded:
            self._kernel.inlet = Inlet(self._kernel, recorded)
        self._ran = False

    @property
    def choices(self) -> ChoiceList:
        """The choices so far."""
        return self._kernel.choices

    @property
    def faults(self) -> Faults:
        """The faults that the run can have, for callers between two steps."""
        return self._kernel.faults

    def disk(self, actor: str) -> Disk:
        """The disk of an actor, for observers."""
        return self._kernel.actor(actor).disk

    @property
    def now(self) -> int:
        """Virtual nanoseconds since the start."""
        return self._kernel.now

    @property
    def steps(self) -> int:
        """Steps so far."""
        return self._kernel.step

    @property
    def stepped(self) -> str | None:
        """Return the actor after whose step an invariant is asked; None where it is asked once the run has settled."""
        task = self._kernel.current
        return None if task is None else task.actor.name

    def actor(
        self, name: str, main: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any
    ) -> None:
        """Declare an actor: `main(ctx, *args, **kwargs)` is its first task, now and after each restart."""

        def body(ctx: Context) -> Coroutine[Any, Any, Any]:
            return main(ctx, *args, **kwargs)

        self._kernel.lifecycle.add(name, body)

    def experimenter(
        self, name: str, main: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any
    ) -> None:
        """Declare an actor that belongs to the experiment and not to what is tried: it may look into everything."""
        self.actor(name, main, *args, **kwargs)
        self._kernel.actors[name].experimenter = True

    def experimenters(self) -> tuple[str, ...]:
        """Return the actors that belong to the experiment."""
        return tuple(each.name for each in self._kernel.actors.values() if each.experimenter)

    def start(
        self, name: str, main: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any
    ) -> None:
        """Declare and start an actor while the world runs (a new node joins)."""
        self.actor(name, main, *args, **kwargs)
        self._kernel.lifecycle.start(self._kernel.actors[name])

    def end(self, name: str) -> None:
        """Take an actor out of the world while it runs (a node leaves). Raises UsageError for an unknown one."""
        self._kernel.lifecycle.end(self._kernel.actor(name))

    def has_actor(self, name: str) -> bool:
        """Return whether an actor of that name was ever declared."""
        return name in self._kernel.actors

    def link(
        self, one: str, other: str, *, latency_ns: int = 0, spread_ns: int = 0
    ) -> tuple[Link, Link]:
        """Put links with a latency between two actors, one for each direction."""
        pair = (
            Link(self._kernel, f"{one}->{other}", latency_ns, spread_ns),
            Link(self._kernel, f"{other}->{one}", latency_ns, spread_ns),
        )
        self._kernel.transport.links[(one, other)], self._kernel.transport.links[(other, one)] = (
            pair
        )
        return pair

    def alive(self, actor: str) -> bool:
        """Return whether an actor is running. Raises UsageError for an unknown one."""
        return self._kernel.actor(actor).alive

    def invariant(
        self,
        name: str,
        check: Callable[[], str | None],
        *,
        after: str | None = None,
        looks_at: Callable[[], Any] | None = None,
    ) -> None:
        """Something that must always hold: `check()` answers None, or says in one line what is wrong.

        With `after`, it is asked after every step of that actor; without, once the run has settled. With
        `looks_at`, only after those steps after which `looks_at()` is another value than when it was asked
        last: it has to be unequal whenever the answer may have become another. Invariants that hand over
        the same function share one look at each step.
        """
        if after is None:
            self._kernel.invariants.at_end.append((name, check))
        else:
            self._kernel.invariants.by_actor.setdefault(after, Checks()).add(name, check, looks_at)

    def sometimes(self, name: str, reached: Callable[[], bool]) -> None:
        """Something that should happen in some run of a search, or the search is vacuous; asked at a run's end."""
        self._kernel.invariants.goals[name] = reached

    def observe(self, every_steps: int, look: Callable[[], None]) -> None:
        """Call `look` once in `every_steps` steps: progress for people. It must not touch the world."""
        self._kernel.observer = look
        self._kernel.observe_every = every_steps

    def intercept(self, interceptor: Interceptor) -> Transport:
        """Let an interceptor decide about each message; it passes messages on through the transport returned."""
        transport = self._kernel.transport
        first = transport.interceptor
        if first is None:
            transport.interceptor = interceptor
        elif isinstance(first, Overheard) and first.then is None:
            first.then = interceptor
        else:
            raise UsageError("the world has an interceptor already")
        return transport

    def overhear(self, listener: Listener) -> None:
        """Let a listener hear of each message and answer as it is sent, before an interceptor takes it.

        It belongs to the observers outside of the run: it must not touch the world. Of several each hears everything.
        """
        transport = self._kernel.transport
        if isinstance(transport.interceptor, Overheard):
            transport.interceptor.listeners.append(listener)
        else:
            transport.interceptor = Overheard(listener, transport.interceptor)

    def as_time_passes(self, look: Callable[[int], None]) -> None:
        """Call `look` whenever virtual time is about to move on, with when to (ns); `now` is the earlier time still.

        Until then nothing happens: whatever is counted over virtual time has its value in between. It must
        not touch the world.
        """
        self._kernel.passing = look

    def blocked(self, *actors: str) -> list[str]:
        """Tasks of these actors that wait, and that neither a timer nor being idle excuses, with what for."""
        return [
            f"{task.label} waits for {task.awaiting}"
            for name in actors
            for task in self._kernel.actor(name).tasks.values()
            if task.state == PARKED and not task.idle and not task.armed
        ]

    def incarnation(self, actor: str) -> int:
        """Return how often an actor was started."""
        return self._kernel.actor(actor).incarnation

    def count_tasks(self, actor: str, name: str) -> int:
        """Return how many tasks of an actor that have not ended are called so, but for their numbers."""
        return sum(
            task.name.partition("#")[0] == name for task in self._kernel.actor(actor).tasks.values()
        )

    def stop(self, reason: str = "stopped") -> None:
        """End the run after this step."""
        self._kernel.finish("stopped", reason)

    def interrupt(self, reason: str) -> None:
        """`stop` for a signal handler, which comes in the midst of a step: the run ends before the next one."""
        self._kernel.interrupt(reason)

    def stop_after(self, step: int, reason: str) -> None:
        """End the run after a step, as one that was interrupted there ended."""
        self._kernel.interrupt(reason, step)

    def between_steps(self, call: Callable[[], None]) -> None:
        """Call `call` between two steps, at once if none is being taken: for a look from outside at a paced run.

        It must not touch the world. It is never called when the run ends with the step that is being
        taken. Not for `observe`, which looks while the next step is chosen.
        """
        self._kernel.faults.between_steps(call)

    def so_far(self, reason: str) -> RunResult:
        """The result if the run were stopped here, from outside; for `between_steps`.

        Its recording replays up to here. Raises UsageError when choices are not kept.
        """
        kernel = self._kernel
        if isinstance(kernel.choices, Unkept):
            raise UsageError("nothing is kept of this run")
        step, now = kernel.step, kernel.now
        said = {"verdict": "stopped", "reason": reason}
        marks = self.log.marks_with(step, now, 0, "verdict", step, None, None, None, said)
        admitted = kernel.inlet.admitted if kernel.inlet is not None else ()
        inputs = (*admitted, Input(step, now, STOP, msgpack.packb(reason)))
        choices = kernel.choices.copy()
        return RunResult(
            "stopped", reason, step, now, marks.trace_hash, "", choices, inputs, None, marks
        )

    @property
    def busy_timers(self) -> int:
        """The number of timers that keep the run from settling, for a pacer."""
        return self._kernel.timers.busy

    def inlet(self) -> Inlet:
        """The entry of external input."""
        if self._kernel.inlet is None:
            self._kernel.inlet = Inlet(self._kernel)
        return self._kernel.inlet

    def living_tasks(self) -> frozenset[int]:
        """The numbers of the tasks that have not ended; between two steps."""
        actors = self._kernel.actors.values()
        return frozenset(number for actor in actors for number in actor.tasks)

    def take_over(self) -> tuple[list[int], list[tuple[str, str]], list[Input]]:
        """Return choices (as in `recording.flat`), labels and inputs since the last call; keep them no longer.

        Between two steps, or after the run, whose result then has only the part that was not returned.
        """
        kernel = self._kernel
        tasks = {task.label for actor in kernel.actors.values() for task in actor.tasks.values()}
        packed, labels = kernel.choices.hand_over({*tasks, NEXT_TIMER.label})
        choices = flat(packed)
        admitted = [] if kernel.inlet is None else kernel.inlet.admitted
        inputs = admitted[:]
        admitted.clear()
        return choices, labels, inputs

    def keep_no_recording(self) -> None:
        """Keep neither inputs nor choices, which grow as long as the run lasts: no recording is wanted."""
        self.inlet().keep = False
        self._kernel.choices = Unkept()

    def run(self, driver: Driver = "trio", *, until_ns: int | None = None) -> RunResult:
        """Run until the world has settled, or virtual time `until_ns`. From inside Trio use `run_async`."""
        if driver == "bare":
            self._begin(until_ns)
            bare.run(self._kernel)
            return self._result()
        import trio

        return trio.run(partial(self.run_async, until_ns=until_ns))

    async def run_async(
        self, *, until_ns: int | None = None, pace: Pacer | None = None
    ) -> RunResult:
        """`run` on the Trio driver, from inside a Trio task.

        With `pace`, time follows the wall clock and a settled world goes on until `inlet().stop`.
        """
        from actors.drivers.trio_driver import TrioDriver

        if pace is not None and self.inlet().replaying:
            raise UsageError("a replay is not paced: its input brings its times along")
        self._begin(until_ns)
        await TrioDriver(self._kernel, pace).run()
        return self._result()

    def _begin(self, until_ns: int | None) -> None:
        if self._ran:
            raise UsageError("a world runs once: build another one")
        self._ran = True
        self._kernel.until_ns = until_ns

    def _result(self) -> RunResult:
        kernel = self._kernel
        if kernel.guard is not None:
            kernel.guard.close()
        kernel.strategy.end()
        inlet = kernel.inlet
        trace_hash = self.log.close()
        footprint = kernel.footprint or kernel.explored
        if kernel.guard is not None and kernel.guard.alone:
            footprint = None
        return RunResult(
            kernel.verdict or "stopped",
            kernel.reason,
            kernel.step,
            kernel.now,
            trace_hash,
            footprint.class_id if footprint is not None else "",
            kernel.choices,
            tuple(inlet.admitted) if inlet else (),
            kernel.error,
            self.log.marks(),
            tuple(kernel.invariants.reached),
        )


def record(
    result: RunResult, *, package: str, header: dict[str, Any], strategy: Strategy
) -> Recording:
    """The recording of a run that ended. The strategy's name, seed and parameters join the caller's header."""
    told = {"name": strategy.name, "seed": strategy.seed, "parameters": strategy.parameters()}
    return Recording(
        package,
        {**header, "strategy": told},
        result.choices,
        result.inputs,
        result.verdict,
        result.reason,
        result.steps,
        result.t_ns,
        result.marks,
    )
