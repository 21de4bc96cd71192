"""The memory that answers under way hold in an API server, so that a run can end a server for lack of it.

A list that is assembled as a whole costs several times its size until its client has taken it; one
that is encoded item by item, or streamed as a watch, costs a little more than its largest item.
Memory at rest (the cache) is not counted: `Memory.limit_bytes` is the room left beside it. Without a limit
nothing is counted at all.

Upstream: KEP-3157 (streaming lists), KEP-5116 (item by item, fix 129334).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.api.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.object import Object

__all__ = ["Account", "Memory"]

WHOLE: Final = 5
"""A list as a whole: bytes from the store, decoded and converted objects, and the body. KEP-3157."""
ONE: Final = 2
"""One item: the object and its encoded form."""


@frozen
class Memory:
    """The memory of an API server's process beyond its rest.

    Args:
        limit_bytes: the process is killed when answers under way hold more than this.
        link_bytes_per_s: how fast a client takes what it is sent.
        restart_ns: how long after that it is started again. Upstream: the kubelet's first back-off.
    """

    limit_bytes: int
    link_bytes_per_s: int = 125_000_000
    restart_ns: int = 10 * SECOND


class Account:
    """The memory, in bytes, of the answers under way of one process. `whole`: lists are assembled first."""

    def __init__(self, memory: Memory, *, whole: bool) -> None:
        self.memory = memory
        self.whole = whole
        self.held = 0
        self.peak = 0

    def cost(self, objects: Iterable[Object], *, streamed: bool = False) -> tuple[int, int]:
        """Return the memory (bytes) that sending the objects holds while it lasts, and its duration (ns)."""
        sizes = [len(obj.json) for obj in objects]
        total = sum(sizes)
        held = total * WHOLE if self.whole and not streamed else max(sizes, default=0) * ONE
        return held, total * SECOND // self.memory.link_bytes_per_s

    def take(self, size: int) -> bool:
        """Hold more bytes; False when that exceeds the limit."""
        self.held += size
        self.peak = max(self.peak, self.held)
        return self.held <= self.memory.limit_bytes

    def give(self, size: int) -> None:
        """Release bytes."""
        self.held -= size
