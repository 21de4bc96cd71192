"""Effects of a controller, and what can go wrong: its reconcile is a generator that yields them.

A controller knows no runtime: its runner (`controllers.loops.running` in a world, a plain loop in a test)
carries the effects out, one after the other, and decides what happens in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from controlplane.client.calls import Call
from controlplane.client.errors import ApiError, ConnectionLost, RequestFailed
from controlplane.decisions import Ask, Choose, Decision, Hang, Point, Sleep, Spawn, Together

__all__ = ["Effect", "Failure", "Reconcile", "RequestFailed", "Retry", "aggregate", "together"]

T = TypeVar("T")

Failure = ApiError | ConnectionLost


class Retry(Exception):
    """Reconciling could not be finished; try again with backoff. The text goes into the log."""


def aggregate(errors: Sequence[Exception]) -> Exception:
    """One error for several: that of only one, else all texts in brackets, each once (utilerrors.NewAggregate)."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    if len(errors) == 1:
        return errors[0]
    return Retry(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


Effect = Call | Point | Sleep | Ask | Choose | Hang | Together | Spawn
Reconcile = Decision[Effect, T]


def together(name: str, parts: Sequence[Reconcile[T]]) -> Reconcile[list[T]]:
    """Carry these out side by side; their results, in order."""
    results: list[T] = yield Together(name, parts)
    return results
