"""The back-off of the replacement of a failed daemon pod. Upstream: client-go util/flowcontrol/backoff.go."""

from __future__ import annotations

from typing import Final, NamedTuple

from controlplane.api.times import SECOND

FIRST_NS: Final = SECOND
LONGEST_NS: Final = 15 * 60 * SECOND


class _Entry(NamedTuple):
    backoff: int
    since: int


class FailedPodsBackoff:
    """Per key a delay that doubles with every failure; after half an hour of quiet it begins anew."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def _entry(self, key: str, now: int) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None and now - entry.since > 2 * LONGEST_NS:
            del self._entries[key]
            return None
        return entry

    def waiting(self, key: str, now: int) -> int:
        """The delay, in nanoseconds, if it has not passed since the last failure; else 0."""
        entry = self._entry(key, now)
        return entry.backoff if entry is not None and now - entry.since < entry.backoff else 0

    def failed(self, key: str, now: int) -> None:
        """Note one more failure."""
        entry = self._entry(key, now)
        backoff = FIRST_NS if entry is None else min(2 * entry.backoff, LONGEST_NS)
        self._entries[key] = _Entry(backoff, now)
