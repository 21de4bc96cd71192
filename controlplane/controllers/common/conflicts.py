"""Retries after a conflict with another writer. Upstream: client-go util/retry (without its jitter)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.client.errors import ApiError, is_conflict
from controlplane.controllers.common.effects import Reconcile, T
from controlplane.decisions import Sleep

if TYPE_CHECKING:
    from collections.abc import Callable

_MS = 1_000_000


class Retries(NamedTuple):
    """The number of tries, the wait before the second one, and the factor of each further wait."""

    attempts: int
    first_ns: int
    factor: int


BACKOFF: Final = Retries(4, 10 * _MS, 5)
"""retry.DefaultBackoff: where other writers are at work on the object."""
RETRY: Final = Retries(5, 10 * _MS, 1)
"""retry.DefaultRetry: where no other writer is expected."""


def retry_on_conflict(
    attempt: Callable[[], Reconcile[T]], retries: Retries, point: str
) -> Reconcile[T]:
    """Try until it does not end in a conflict; the last one is raised. `point` is where it waits."""
    wait = retries.first_ns
    for left in range(retries.attempts - 1, -1, -1):
        try:
            return (yield from attempt())
        except ApiError as error:
            if not left or not is_conflict(error):
                raise
        yield Sleep(wait, point)
        wait *= retries.factor
    raise AssertionError("unreachable")
