"""How much one request may compute before it is interrupted, counted in steps and never in time.

What takes long whatever else is bounded (searching large texts, reading many values) counts here. The
count begins with each request, so the same request ends at the same place on every machine, and a
replay agrees. Upstream interrupts by the clock: apiserver pkg/endpoints/handlers/finisher.
"""

from __future__ import annotations

from typing import Final

from controlplane.apiserver.schema.status import ApiError

__all__ = ["LIMIT", "begin", "interrupted", "spend"]

LIMIT: Final = 1_500_000
"""Steps of about a microsecond, in the worst case."""

_left = LIMIT


def begin() -> None:
    """A request is handled from here on."""
    global _left
    _left = LIMIT


def spend(steps: int) -> None:
    """Count so many steps. ApiError 504 when the request has none left."""
    global _left
    _left -= steps
    if _left < 0:
        raise interrupted()


def interrupted() -> ApiError:
    """What upstream answers when a request takes too long."""
    text = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    return ApiError(504, "Timeout", text, {})
