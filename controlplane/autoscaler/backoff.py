"""Groups that are left alone for a while after a failed scale-up.

Upstream: `utils/backoff/exponential_backoff.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.autoscaler.options import HOUR, MINUTE


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a scale-up failed; the class is OutOfResources or Other."""

    error_class: str = ""
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    duration: int
    until: int
    failed: int
    failure: Failure


class Backoff:
    """Backoff by group; times and durations in nanoseconds."""

    def __init__(
        self, initial: int = 5 * MINUTE, longest: int = 30 * MINUTE, reset: int = 3 * HOUR
    ) -> None:
        self._initial = initial
        self._longest = longest
        self._reset = reset
        self._entries: dict[str, _Entry] = {}

    def fail(self, group: str, failure: Failure, now: int) -> int:
        """Note a failure; return until when the group is left alone.

        The duration doubles with a failure after its end, and stays with one before.
        """
        entry, duration = self._entries.get(group), self._initial
        if entry is not None:
            duration = entry.duration
            if entry.until < now:
                duration = min(2 * duration, self._longest)
        self._entries[group] = _Entry(duration, now + duration, now, failure)
        return now + duration

    def status(self, group: str, now: int) -> Failure | None:
        """Return the failure for which a group is left alone, None if it is not."""
        entry = self._entries.get(group)
        return None if entry is None or entry.until < now else entry.failure

    def ends(self, now: int) -> bool:
        """Return whether a group that is left alone has not reached the longest duration."""
        return any(
            entry.until >= now and entry.duration < self._longest
            for entry in self._entries.values()
        )

    def remove(self, group: str) -> None:
        """Forget the failures of a group."""
        self._entries.pop(group, None)

    def remove_stale(self, now: int) -> None:
        """Forget groups whose last failure is long ago."""
        self._entries = {
            group: entry
            for group, entry in self._entries.items()
            if entry.failed + self._reset >= now
        }
