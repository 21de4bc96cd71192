"""Doing the same thing many times in growing batches. Upstream: slowStartBatch of several controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from controlplane.controllers.common.effects import Reconcile, together

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=Exception)
INITIAL_BATCH = 1


def batches(total: int, initial: int = INITIAL_BATCH) -> list[int]:
    """Sizes of the batches: each at most twice the one before."""
    found = []
    size = initial
    while total > 0:
        size = min(size, total)
        found.append(size)
        total -= size
        size *= 2
    return found


def slow_start_batch(
    name: str,
    count: int,
    part: Callable[[int], Reconcile[E | None]],
    initial: int = INITIAL_BATCH,
) -> Reconcile[tuple[int, E | None]]:
    """Carry out `part(0)` to `part(count - 1)`, those of a batch side by side in tasks called `name`.

    After a batch with an error no further one is begun. Answers how many succeeded, and the first error.
    """
    successes = 0
    first = 0
    for size in batches(count, initial):
        numbers = range(first, first + size)
        first += size
        results = yield from together(name, [part(number) for number in numbers])
        errors = [error for error in results if error is not None]
        successes += size - len(errors)
        if errors:
            return successes, errors[0]
    return successes, None
