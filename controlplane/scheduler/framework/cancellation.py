"""Cancellable contexts as far as their bookkeeping shows: a child stays with its parent until it is cancelled.

Upstream: Go's `context.WithCancel`. Our scheduler needs nothing cancelled; what it shares with upstream
is the memory of a context whose cancel function is never called.
"""

from __future__ import annotations


class CancelContext:
    """A context, and those that were derived from it and not cancelled yet."""

    __slots__ = ("_children", "_next", "_number", "_parent")

    def __init__(self, parent: CancelContext | None = None) -> None:
        self._parent = parent
        self._children: dict[int, CancelContext] = {}
        self._next = 0
        self._number = 0

    def __len__(self) -> int:
        """Return the number of derived contexts that are not cancelled."""
        return len(self._children)

    def with_cancel(self) -> CancelContext:
        """Derive a context."""
        child = CancelContext(self)
        child._number = self._next
        self._next += 1
        self._children[child._number] = child
        return child

    def cancel(self) -> None:
        """End it and all that were derived from it; again is nothing."""
        if self._parent is not None:
            self._parent._children.pop(self._number, None)
        self._children.clear()
