"""The limit of one request's computation, counted in steps and never in time.

Every part that walks over a client's input (decoding, patches, validation, managed fields, expressions,
searching texts) counts its work here. Each request has a budget of its own, which goes with it
when it is handled in parts, so the same request ends at the same place on every machine, and a
replay agrees. A write of the request is never undone: from then on it is answered whatever that takes.
Work outside of requests (starting, notifying watchers, compiling policies) has no limit.

Upstream interrupts by the clock: apiserver pkg/endpoints/handlers/finisher, pkg/server/filters/timeout.go.
"""

from __future__ import annotations

from typing import Final

from controlplane.apiserver.schema.api_error import ApiError

__all__ = ["LIMIT", "Budget", "FREE", "interrupted", "left", "lift", "on", "spend"]

LIMIT: Final = 1_500_000
"""Steps of half a microsecond to one."""
_BOUNDLESS: Final = 1 << 62


class Budget:
    """The remaining steps of one request."""

    __slots__ = ("left",)

    def __init__(self, left: int = LIMIT) -> None:
        self.left = left

    def lift(self) -> None:
        """Something was written: the request is finished, whatever that takes."""
        self.left = _BOUNDLESS


FREE: Final = Budget(_BOUNDLESS)
"""The budget of work outside of requests."""

_current = FREE


def on(budget: Budget) -> None:
    """From here on work is done on this budget."""
    global _current
    _current = budget


def lift() -> None:
    """Lift the limit of the present budget: its request has written something."""
    _current.left = _BOUNDLESS


def left() -> int:
    """Return the remaining steps of the present budget."""
    return _current.left


def spend(steps: int) -> None:
    """Count steps. ApiError 504 when the request has none left."""
    budget = _current
    budget.left -= steps
    if budget.left < 0:
        raise interrupted()


def interrupted() -> ApiError:
    """Return upstream's error for a request that takes too long."""
    text = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    return ApiError(504, "Timeout", text, {})
