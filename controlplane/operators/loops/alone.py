"""One session in a loop of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import trio

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["run"]

T = TypeVar("T")
Args = TypeVarTuple("Args")


def run(main: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
    """Run a coroutine to its end. A UsageError that nurseries have wrapped is raised as it was."""
    try:
        return trio.run(main, *args)
    except BaseExceptionGroup as group:
        found: BaseException = group
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        if isinstance(found, UsageError):
            raise found from None
        raise
