"""A plan carried out in a run: messages are held, delayed, failed or lost, processes killed, caches frozen.

Whatever a plan holds goes on by itself after a while (`at most`), as a real network's retries and time-outs would
have it, so a plan cannot make a world hang that would go on without it. Events of one watch keep their order: behind
a held one all wait.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from actors import LinkBroken
from actors.inlet import ExternalMessage
from actors.process import Message
from controlplane.api.request import Request, Response
from controlplane.api.times import SECOND
from controlplane.apiserver.loops.replica import Hold, Release
from controlplane.apiserver.schema.api_error import ApiError
from controlplane.client.loops.reflector import WatchBatch
from controlplane.errors import UsageError
from controlplane.scenarios.plans import language, passing
from controlplane.scenarios.plans.language import (
    AFTER,
    DELAY,
    FAIL,
    FREEZE,
    HOLD,
    KILL,
    LOSE,
    REASONS,
    STEP,
    SWALLOW,
    Pattern,
    Perturbation,
    PerturbationPlan,
)
from controlplane.scenarios.plans.outside import OutsideClients

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context, Event
    from actors.process import Mailbox
    from actors.process import Request as Asked
    from controlplane.cluster import Cluster
    from controlplane.scenarios.plans.passing import Passing

MOST_MEANWHILE: Final = 400
"""The number of messages of clients outside that ends a hold: virtual time may stand still while they work."""
ACTOR: Final = "plan"
"""The actor that holds tasks at points."""
WAITING, HOLDING, DONE = "not reached", "held", "done"


@frozen
class Outcome:
    """The result of one line: whether it was reached, and whether what ended a hold was what the plan names."""

    line: str
    reached: bool
    note: str

    def __str__(self) -> str:
        return f"{self.line}: {self.note}"


@define
class _Line:
    """A line and its state."""

    rule: Perturbation
    state: str = WAITING
    matched: int = 0
    """The number of messages that met `what` so far."""
    opened: int = 0
    """The number of messages that met `until` so far."""
    timed_out: bool = False
    go_on: list[Callable[[], object]] = field(factory=list)
    """The held messages, in order."""
    stream: int = 0
    """The number of the stream whose events are held."""
    meanwhile: int = 0
    """The number of messages of clients outside that passed while it holds something."""
    told: int = 0
    """The number of messages that met `as_of` or `once` so far."""
    armed: bool = field(init=False)
    """It is looked for by now."""
    revision: int = 0
    """The store's revision when the message of `as_of` passed."""
    ended: Event | None = None
    """Wakes the task that holds another one at a point."""

    def __attrs_post_init__(self) -> None:
        self.armed = self.rule.as_of is None and self.rule.once is None

    @property
    def waits(self) -> bool:
        """Return whether what it concerns is looked for now."""
        return self.armed and self.state == WAITING

    def outcome(self) -> Outcome:
        if self.state == WAITING:
            return Outcome(str(self.rule), False, "not reached")
        if self.rule.until is None:
            return Outcome(str(self.rule), True, "reached")
        if self.state == HOLDING:
            return Outcome(str(self.rule), False, "held to the end of the run")
        if self.timed_out:
            note = f"held for {self.rule.seconds:g} s; what was waited for did not come"
            if self.meanwhile > MOST_MEANWHILE:
                note = f"held for {MOST_MEANWHILE} messages; what was waited for did not come"
            return Outcome(str(self.rule), False, note)
        return Outcome(str(self.rule), True, "reached, held and released")


class Control:
    """The interceptor of one run with a plan."""

    def __init__(
        self, cluster: Cluster, plan: PerturbationPlan, trace: list[Passing] | None = None
    ) -> None:
        """Begin to watch a cluster's messages, and add what passes to `trace`, if one is given.

        Raises UsageError for processes that there are not.
        """
        self._cluster = cluster
        self._world = cluster.world
        self._lines = [_Line(rule) for rule in plan.lines]
        self._trace = trace
        self._asked: dict[int, Passing] = {}
        self._streams: dict[int, str] = {}
        """The resource of each watch, by the number of its mailbox."""
        self._created: dict[str, list[str]] = {}
        """The names of objects in the order of their creation, by resource."""
        self.timers = 0
        """The number of ends of holds and delays that are still to come."""
        self.outside = OutsideClients(cluster, self)
        """The control points of clients outside."""
        self._check()
        self._transport = self._world.intercept(self)
        if any(line.rule.what.kind == STEP for line in self._lines):
            cluster.user(ACTOR, self._hold_steps)

    def outcomes(self) -> list[Outcome]:
        """Return what became of each line so far."""
        return [line.outcome() for line in self._lines]

    @property
    def holding(self) -> bool:
        """Return whether a line keeps a client from seeing something until more happens, at present."""
        return any(
            line.state == HOLDING and line.rule.action in (SWALLOW, FREEZE) for line in self._lines
        )

    @property
    def reached(self) -> bool:
        """Return whether all that the plan says has happened."""
        return all(each.reached for each in self.outcomes())

    def _check(self) -> None:
        """Refuse what an emulated process cannot have. Raises UsageError."""
        servers = self._cluster.apiservers
        for line in self._lines:
            rule = line.rule
            name = rule.actor or rule.what.actor
            emulated = not self._cluster.serves_clients or self._world.has_actor(name)
            if (
                rule.action == FREEZE
                and emulated
                and (len(servers) < 2 or rule.actor not in servers)
            ):
                raise UsageError(
                    f"plan: freeze {rule.actor}: expected one of several API servers"
                    f" (--apiservers; there is {', '.join(servers)}) or a client outside"
                )
            if rule.as_of is not None and emulated:
                raise UsageError(f"plan: freeze {rule.actor} ... as of: expected a client outside")
            if rule.action == SWALLOW and emulated:
                raise UsageError(
                    f"plan: swallow event {rule.what.actor}: expected a client outside"
                )

    # ------------------------------------------------------------------ the messages

    def takes(self, message: Message, target: Mailbox, key: object) -> bool:
        """Look at a message that is sent (`Interceptor`)."""
        if message.stream is None and target.no in self._streams:
            return self._takes_events(message, target, key)
        if isinstance(message.payload, ExternalMessage):
            carry = partial(self._transport.carry, message, target, key)
            return self.outside.takes(message, carry, self._note_created, target)
        asked = passing.of_request(message, target)
        if asked is None:
            return False
        if message.stream is not None and isinstance(message.payload, Request):
            self._streams[message.stream.no] = asked.resource
        if message.request is not None:
            self._asked[message.request.number] = asked
        send = partial(self._send, asked, partial(self._transport.carry, message, target, key))
        found = self.perturbing(asked)
        if found is None:
            self.passed(asked)
            return False
        rule = found.rule
        if rule.action == FAIL:
            self._fail(message, asked, rule.code)
        elif rule.action == LOSE or (rule.action == KILL and rule.when != AFTER):
            self._lose(message)
            if rule.action == KILL:
                self.kill(rule)
        elif rule.action == KILL:
            self.passed(asked)
            self.kill(rule)
            return False
        else:
            self.keep(found, send)
        return True

    def takes_answer(
        self, request: Asked, value: object, error: BaseException | None, cause: int
    ) -> bool:
        """Look at an answer that is sent (`Interceptor`)."""
        asked = self._asked.pop(request.number, None)
        if asked is None or error is not None:
            return False
        answer = passing.of_answer(asked, value)
        if asked.verb == "create" and answer.code in (200, 201):
            self._note_created(answer)
        carry = partial(self._transport.carry_answer, request, value, None, cause)
        found = self.perturbing(answer)
        if found is None:
            self.passed(answer)
            return False
        rule = found.rule
        if rule.action == FAIL:
            value = _refusal(asked, rule.code)
            self._transport.carry_answer(request, value, None, cause)
        elif rule.action == LOSE or (rule.action == KILL and rule.when != AFTER):
            self._transport.carry_answer(request, None, LinkBroken("the answer was lost"), cause)
            if rule.action == KILL:
                self.kill(rule)
        elif rule.action == KILL:
            self.passed(answer)
            self.kill(rule)
            return False
        else:
            self.keep(found, partial(self._send, answer, carry))
        return True

    def _note_created(self, answer: Passing) -> None:
        names = self._created.setdefault(answer.resource, [])
        if answer.name not in names:
            names.append(answer.name)

    def _takes_events(self, message: Message, target: Mailbox, key: object) -> bool:
        return not self._send_events(message, target, key, now=False)

    def _send_events(
        self, message: Message, target: Mailbox, key: object, *, now: bool = True
    ) -> bool:
        """Send a message of a watch on, up to an event that a line holds; whether it was left as it is.

        `now`: it was held before, and has to be sent from here.
        """
        for line in self._lines:
            if line.state == HOLDING and line.stream == target.no:
                line.go_on.append(partial(self._send_events, message, target, key))
                return False
        told = passing.of_events(message, target, self._streams[target.no])
        for number, event in enumerate(told):
            found = self.perturbing(event)
            if found is None:
                self.passed(event)
                continue
            rule = found.rule
            if rule.action == KILL and rule.when == AFTER:
                self.passed(event)
                self.kill(rule)
                continue
            batch: WatchBatch[Any] = message.payload
            if number:
                self._transport.carry(
                    _part(message, batch._replace(events=batch.events[:number], end=False)),
                    target,
                    key,
                )
            if rule.action in (LOSE, KILL):
                target.break_now()
                if rule.action == KILL:
                    self.kill(rule)
                return False
            rest = _part(message, batch._replace(events=batch.events[number:]))
            found.stream = target.no
            # The event itself has been dealt with: the ones behind it are still looked at.
            self.keep(found, partial(self._send_held, rest, target, key, event))
            return False
        if now:
            self._transport.carry(message, target, key)
        return True

    def _send_held(self, message: Message, target: Mailbox, key: object, event: Passing) -> None:
        batch: WatchBatch[Any] = message.payload
        first, rest = batch.events[:1], batch.events[1:]
        self.passed(event)
        if not rest:
            self._transport.carry(message, target, key)
            return
        self._transport.carry(_part(message, batch._replace(events=first, end=False)), target, key)
        self._send_events(_part(message, batch._replace(events=rest)), target, key)

    def _send(self, what: Passing, carry: Callable[[], None]) -> None:
        self.passed(what)
        carry()

    # ------------------------------------------------------------------ lines

    def perturbing(self, what: Passing) -> _Line | None:
        """Return the line that concerns what is sent, if one does now."""
        for line in self._lines:
            rule = line.rule
            if rule.action != FREEZE and line.waits and self._meets(rule.what, what):
                line.matched += 1
                if line.matched == rule.what.nth:
                    line.state = DONE
                    self._world.faults.log(rule.action, plan=str(rule))
                    return line
        return None

    def passed(self, what: Passing) -> None:
        """Something passes: it may end holds, and begin or end freezes."""
        if self._trace is not None:
            self._trace.append(what)
        for line in self._lines:
            rule = line.rule
            if not line.armed:
                self._arm(line, what)
                continue
            if line.state == HOLDING and rule.until is not None and self._meets(rule.until, what):
                line.opened += 1
                if line.opened == rule.until.nth:
                    self.release(line)
            elif rule.action == FREEZE and line.waits and self._meets(rule.what, what):
                line.matched += 1
                if line.matched == rule.what.nth:
                    self._freeze(line, what)

    def _arm(self, line: _Line, what: Passing) -> None:
        """A line that is looked for only after a message: it may be this one."""
        rule = line.rule
        after = rule.as_of or rule.once
        if after is None or not self._meets(after, what):
            return
        line.told += 1
        if line.told == after.nth:
            line.armed = True
            revision = what.revision or self._cluster.store.revision
            line.revision = revision - rule.as_of_before

    def passed_outside(self, what: Passing) -> None:
        """Note that a message of a client outside passes."""
        self.passed(what)
        for line in self._lines:
            if line.state == HOLDING:
                line.meanwhile += 1
                if line.meanwhile > MOST_MEANWHILE:
                    self._time_out(line)

    def ends(self, line: _Line, what: Passing) -> bool:
        """Return whether something that waits behind a line's hold is what ends it."""
        until = line.rule.until
        if line.state != HOLDING or until is None or not self._meets(until, what):
            return False
        line.opened += 1
        return line.opened == until.nth

    def _meets(self, pattern: Pattern, what: Passing) -> bool:
        names = tuple(self._created.get(what.resource.partition("/")[0], ()))
        return pattern.matches(what, names)

    def keep(self, line: _Line, send: Callable[[], None]) -> None:
        """Hold something until the line's end comes, or delay it."""
        rule = line.rule
        at = self._world.now + round(rule.seconds * SECOND)
        if rule.action == DELAY:
            self._at(at, partial(self._later, line, send))
            if line.stream:
                line.state = HOLDING  # what comes behind it waits, too
                line.go_on.append(send)
            return
        line.state = HOLDING
        line.go_on.append(send)
        self._at(at, partial(self._time_out, line))

    def _at(self, at_ns: int, call: Callable[[], None]) -> None:
        self.timers += 1

        def due() -> None:
            self.timers -= 1
            call()

        self._world.faults.at_time(at_ns, due)

    def _later(self, line: _Line, send: Callable[[], None]) -> None:
        if line.stream:
            self._go_on(line)
        else:
            send()

    def _time_out(self, line: _Line) -> None:
        if line.state == HOLDING:
            line.timed_out = True
            self.release(line)

    def release(self, line: _Line) -> None:
        """Let a line's hold or freeze go."""
        self._world.faults.log("release", plan=str(line.rule), in_time=not line.timed_out)
        if line.rule.action == FREEZE:
            line.state = DONE
            if self._world.has_actor(line.rule.actor):
                self._tell(line.rule.actor, Release(line.rule.resource))
            else:
                self.outside.thaw(id(line))
            return
        if line.ended is not None:
            line.ended.set()
        self._go_on(line)

    def _go_on(self, line: _Line) -> None:
        line.state = DONE
        line.stream = 0
        held, line.go_on = line.go_on, []
        for send in held:
            send()

    # ------------------------------------------------------------------ what lines do

    def _fail(self, message: Message, asked: Passing, code: int) -> None:
        refused = _refusal(asked, code)
        cause = message.cause
        if message.request is not None:
            self._asked.pop(message.request.number, None)
            answer: Any = refused
            if asked.resource == passing.CSI:
                answer = None
                error: BaseException | None = LinkBroken("the plan fails the call")
            else:
                error = None
            self._transport.carry_answer(message.request, answer, error, cause)
        elif message.stream is not None:
            ended = WatchBatch((), end=True, error=refused.tree)
            self._transport.carry(_part(message, ended, stream=False), message.stream, asked.peer)

    def _lose(self, message: Message) -> None:
        if message.request is not None:
            self._asked.pop(message.request.number, None)
            error = LinkBroken("the request was lost")
            self._transport.carry_answer(message.request, None, error, message.cause)
        elif message.stream is not None:
            message.stream.break_now()

    def kill(self, rule: Perturbation) -> None:
        """End a process: an emulated one starts again; one outside is ended by its listener."""
        world, faults = self._world, self._world.faults
        if not world.has_actor(rule.actor):
            self.outside.end(rule.actor)
            return

        def restart() -> None:
            if not world.alive(rule.actor):
                faults.restart(rule.actor)

        def crash() -> None:
            if not world.alive(rule.actor):
                return
            faults.crash(rule.actor)
            if rule.seconds:
                faults.at_time(world.now + round(rule.seconds * SECOND), restart)
            else:
                restart()

        faults.at_step(0, crash)

    def _freeze(self, line: _Line, begun_by: Passing) -> None:
        line.state = HOLDING
        rule = line.rule
        self._world.faults.log(FREEZE, plan=str(rule))
        if self._world.has_actor(rule.actor):
            self._tell(rule.actor, Hold(rule.resource))
        else:
            revision = begun_by.revision or self._cluster.store.revision
            if rule.as_of is not None:
                revision = line.revision
            self.outside.freeze(id(line), rule.actor, rule.resource, revision)
        at = self._world.now + round(line.rule.seconds * SECOND)
        self._at(at, partial(self._time_out, line))

    def _tell(self, server: str, what: object) -> None:
        self._transport.tell(server, what)

    async def _hold_steps(self, ctx: Context) -> None:
        """Hold tasks at points: the plan's part that is not about messages."""
        for line in self._lines:
            if line.rule.what.kind == STEP:
                line.ended = ctx.event()
                ctx.spawn(self._hold_step, line, name="hold")

    async def _hold_step(self, ctx: Context, line: _Line) -> None:
        what = line.rule.what
        assert line.ended is not None
        hold = await ctx.stand_by(what.actor, what.verb, what.nth, idle=True)
        line.state = HOLDING
        self._world.faults.log(HOLD, plan=str(line.rule))
        if not await line.ended.wait(round(line.rule.seconds * SECOND), point="plan.hold"):
            self._time_out(line)
        ctx.let_go(hold)


def _refusal(asked: Passing, code: int) -> Response:
    """Return the answer by which a plan fails a request."""
    text = f"{asked.verb} {asked.resource}: the plan says {code}"
    return Response(code, ApiError(code, REASONS[code], text).tree)


def _part(message: Message, payload: object, *, stream: bool = True) -> Message:
    """Return a message with another payload, otherwise the same."""
    return Message(
        message.kernel,
        message.send_no,
        message.sender,
        payload,
        message.cause,
        None,
        message.stream if stream else None,
    )


def control_of(cluster: Cluster, lines: tuple[str, ...]) -> Control:
    """Return the control of a run with a plan, given its lines. Raises UsageError."""
    return Control(cluster, language.parse(lines))
