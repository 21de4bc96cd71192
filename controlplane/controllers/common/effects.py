"""Effects of a controller as values: its reconcile is a generator that yields them and is sent the answers.

So a controller knows no runtime: its runner (`controllers.loops.running` in a world, a plain loop in a test) carries
the
effects out, one after the other, and decides what happens in between.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from attrs import frozen

from controlplane.client.calls import Call
from controlplane.client.errors import ApiError, ConnectionLost

T = TypeVar("T")

RequestFailed = (ApiError, ConnectionLost)
"""The failures of a request; for `except`."""

Failure = ApiError | ConnectionLost


class Retry(Exception):
    """Reconciling could not be finished; try again with backoff. The text goes into the log."""


def aggregate(errors: Sequence[Exception]) -> Exception:
    """One error for several: that of only one, else all texts in brackets, each once (utilerrors.NewAggregate)."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    if len(errors) == 1:
        return errors[0]
    return Retry(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


@frozen
class Point:
    """Between two critical sections: another task may run here."""

    name: str


@frozen
class Sleep:
    """Wait for a number of nanoseconds."""

    duration_ns: int
    point: str


class NoAnswer(Exception):
    """A question was not answered: too `late`, or the connection was lost. What became of it is not known."""

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
class Hang:
    """Wait for what never comes: a mutex whose holder asks for it again."""

    point: str


@frozen
class Together:
    """Carry these out side by side, each in a task called `name`; answered by their results, in order.

    Each has to catch what it can fail with.
    """

    name: str
    parts: Sequence[Reconcile[Any]]


@frozen
class Spawn:
    """Carry this out in a task of its own, called `name`, without waiting for it.

    The part has to catch its own failures.
    """

    name: str
    part: Reconcile[None]


Effect = Call | Point | Sleep | Ask | Hang | Together | Spawn
Reconcile = Generator[Effect, Any, T]


def together(name: str, parts: Sequence[Reconcile[T]]) -> Reconcile[list[T]]:
    """Carry these out side by side; their results, in order."""
    results: list[T] = yield Together(name, parts)
    return results
