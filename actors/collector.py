"""Python's cyclic garbage collector during a run: it should look at what existed before only once.

A run allocates steadily and keeps most of what it allocates; looking through all of it again and again costs a fifth
of the time. Nothing observable may depend on the collector, so this changes no trace.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

YOUNG = 100_000
"""Allocations between two looks at the young objects (Python's own setting: 700)."""
YOUNG_OF_SHORT_RUNS = 50_000
"""The same where each run throws away all that it made: a look at a run that goes on finds nothing."""
SELDOM = 100
"""Looks at what outlived a run between two looks at everything, which take a tenth of a second."""


@contextmanager
def frozen() -> Iterator[None]:
    """Within this context the collector leaves alone what existed before: right for many short runs.

    Where it does so already, what came since is not worth a look of its own.
    """
    before = gc.get_threshold()
    with _left_alone():
        if before[0]:  # else the collector is disabled
            gc.set_threshold(max(before[0], YOUNG_OF_SHORT_RUNS), *before[1:])
        try:
            yield
        finally:
            gc.set_threshold(*before)


class _Told:
    """The state of `leave_alone`: True while the garbage collector skips old objects."""

    left_alone = False


def leave_alone() -> None:
    """From now on the collector leaves alone what exists now, until `look_again`."""
    gc.collect()
    gc.freeze()
    _Told.left_alone = True


def look_again() -> None:
    """The end of `leave_alone`."""
    gc.unfreeze()
    _Told.left_alone = False


@contextmanager
def _left_alone() -> Iterator[None]:
    if _Told.left_alone:
        yield
        return
    leave_alone()
    try:
        yield
    finally:
        look_again()


def sweep() -> None:
    """Look at what the run before left, while it is still in the processor's caches: right between two short runs.

    Now and then also at what was left longer ago.
    """
    often, looks_between, _ = gc.get_threshold()
    if not often or not gc.isenabled():  # the collector is disabled
        return
    _, looks, older = gc.get_count()
    gc.collect(0 if looks <= looks_between else 1 if older <= SELDOM else 2)


@contextmanager
def off() -> Iterator[None]:
    """Within this context the collector does not run: right for a run that ends soon and leaves few cycles.

    Whatever is no part of a cycle goes as ever, by its count of references.
    """
    ran = gc.isenabled()
    with _left_alone():
        gc.disable()
        try:
            yield
        finally:
            if ran:
                gc.enable()


@contextmanager
def held() -> Iterator[None]:
    """Within this context the collector does not run, and then leaves alone what it finds: right for imports.

    What they make stays. Looking through it as it comes is 0.1 s of a start of 1.3 s.
    """
    ran = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if ran:
            gc.enable()


def rest() -> None:
    """From now on the collector runs seldom: right for a program that does one long run and ends."""
    gc.freeze()
    _Told.left_alone = True
    gc.set_threshold(YOUNG, 50, 1000)
