"""Operations under way, and the time at which a failed one may be tried again.

Upstream: pkg/volume/util/nestedpendingoperations and goroutinemap/exponentialbackoff: one operation at a time for
a volume, of volumes that several nodes may have for a volume and a node.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

from controlplane.api.times import MILLISECOND, SECOND

ATTACH: Final = "volume_attach"
DETACH: Final = "volume_detach"
FIRST_DELAY: Final = 500 * MILLISECOND
LARGEST_DELAY: Final = 122 * SECOND

Key = tuple[str, str]
"""Volume and node; "" for any node."""


@define
class _Operation:
    kind: str
    pending: bool = True
    delay: int = 0
    failed_at: int = 0


@define
class Operations:
    """Times are nanoseconds."""

    _known: dict[Key, _Operation] = field(factory=dict)

    def _of(self, volume: str, node: str, *, shared: bool) -> Key:
        return (volume, node) if shared else (volume, "")

    def pending(self, volume: str, node: str, *, shared: bool) -> bool:
        """Return whether one is under way."""
        found = self._known.get(self._of(volume, node, shared=shared))
        return found is not None and found.pending

    def waits(self, volume: str, node: str, kind: str, now: int, *, shared: bool) -> int:
        """For how long one of this kind has to wait after a failure; 0 if it may begin."""
        found = self._known.get(self._of(volume, node, shared=shared))
        if found is None or found.pending or found.kind != kind:
            return 0
        return max(0, found.failed_at + found.delay - now)

    def begin(self, volume: str, node: str, kind: str, *, shared: bool) -> Key:
        """One begins; what it is known by."""
        key = self._of(volume, node, shared=shared)
        before = self._known.get(key)
        delay = before.delay if before is not None and before.kind == kind else 0
        self._known[key] = _Operation(kind, delay=delay)
        return key

    def succeeded(self, key: Key) -> None:
        """It is done."""
        self._known.pop(key, None)

    def failed(self, key: Key, now: int) -> int:
        """It failed; how long the next one of its kind has to wait."""
        found = self._known[key]
        found.pending = False
        found.delay = min(2 * found.delay, LARGEST_DELAY) if found.delay else FIRST_DELAY
        found.failed_at = now
        return found.delay
