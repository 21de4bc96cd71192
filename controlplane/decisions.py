"""Effects that decision code may yield, and the helper that runs a decision at once.

Decision code is synchronous. Where upstream releases a lock, waits, or talks to another process in the course
of a decision, the decision is a generator that yields an effect there and goes on with its outcome. The caller
decides how an effect is carried out: a loop lets other tasks run first or sends a request, `at_once` leaves no
gap. What upstream does under one lock is one part between two effects.

The effects here say nothing about a component. Effects with values of one room stand beside these values:

- `client.calls.Call`: a request to the API server;
- `apiserver.storage.transactions.Operation`: a read or a transaction of the store, or a call of a webhook;
- `kubelet.effects`: the end of a pod that has to make room, a fresh look at the node.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, MutableMapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

from attrs import frozen

__all__ = [
    "Ask",
    "Choose",
    "Content",
    "Decision",
    "Hang",
    "Locked",
    "NoAnswer",
    "Point",
    "Sleep",
    "Spawn",
    "Steps",
    "Together",
    "Write",
    "at_once",
    "immediate",
    "passes",
    "writes_to",
]

E = TypeVar("E")
R = TypeVar("R")
P = ParamSpec("P")

Decision = Generator[E, Any, R]
"""A decision of several parts: yields effects, is sent their outcomes, returns its result."""


# -- gaps ------------------------------------------------------------------------------------------


@frozen
class Point:
    """Between two critical sections: another task may run here."""

    name: str


@frozen
class Locked:
    """Another task holds the lock that is called `point`: wait until it may be free, then try again."""

    point: str


@frozen
class Sleep:
    """Wait for a number of nanoseconds."""

    duration_ns: int
    point: str


@frozen
class Hang:
    """Wait for what never comes: a mutex whose holder asks for it again."""

    point: str


Steps = Decision[Point | Locked, R]
"""A decision whose only effects are gaps between lock regions."""


# -- messages and files ----------------------------------------------------------------------------


class NoAnswer(Exception):
    """A question was not answered: too `late`, or the connection was lost. Its effect is not known."""

    def __init__(self, text: str, *, late: bool) -> None:
        super().__init__(text)
        self.late = late


@frozen
class Ask:
    """Ask another process than the API server; sent its answer, or NoAnswer is thrown."""

    to: str
    message: Any
    timeout_ns: int
    point: str


@frozen
class Choose:
    """Ask for a choice of the run among 0 to `options` - 1; sent the number, 0 by default."""

    kind: str
    options: int
    label: str


class Content(Protocol):
    """Content of a file; the text is only made when it is read."""

    @property
    def text(self) -> str:
        """The text, to the byte."""


@frozen
class Write:
    """A file that is to hold this content. Memory is ahead of the disk until that is done."""

    file: str
    content: Content


# -- tasks -----------------------------------------------------------------------------------------


@frozen
class Together:
    """Carry these out side by side, each in a task called `name`; answered by their results, in order.

    Each has to catch its own failures.
    """

    name: str
    parts: Sequence[Decision[Any, Any]]


@frozen
class Spawn:
    """Carry this out in a task of its own, called `name`, without waiting for it.

    The part has to catch its own failures.
    """

    name: str
    part: Decision[Any, None]


# -- running ---------------------------------------------------------------------------------------


def at_once(decision: Decision[E, R], outcome: Callable[[E], Any] | None = None) -> R:
    """Return the result of a decision that is run without a gap for other tasks.

    `outcome` carries an effect out and returns what the decision is sent; by default effects are passed over,
    see `passes`. Raises what the decision raises.
    """
    carry_out = passes if outcome is None else outcome
    try:
        effect = next(decision)
        while True:
            effect = decision.send(carry_out(effect))
    except StopIteration as end:
        result: R = end.value
        return result


def passes(effect: object) -> None:
    """Pass over an effect. A lock that is held stays held: no other task can release it meanwhile."""
    assert type(effect) is not Locked, "the lock is held by a decision that was left half done"


def writes_to(files: MutableMapping[str, str]) -> Callable[[object], None]:
    """Return an outcome for `at_once` that writes files into a mapping, and passes over other effects."""

    def carry_out(effect: object) -> None:
        if isinstance(effect, Write):
            files[effect.file] = effect.content.text
        else:
            passes(effect)

    return carry_out


def immediate(call: Callable[P, R]) -> Callable[P, Decision[Any, R]]:
    """Return a function as one whose calls are decisions without effects, made when they are run."""

    def decide(*args: P.args, **kwargs: P.kwargs) -> Decision[Any, R]:
        return call(*args, **kwargs)
        yield  # the only one of its kind: it makes this a generator

    return decide
