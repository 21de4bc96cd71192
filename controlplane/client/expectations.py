"""Expectations: what a controller has asked for and not yet seen. Upstream: pkg/controller/controller_utils.go.

They keep a controller from acting twice on a cache that does not show its own writes yet; they live
in memory only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_NS = 5 * 60 * 1_000_000_000


@define
class Expected:
    """The record of a key. It is replaced, never renewed, when more is asked for."""

    creations: int
    deletions: dict[str, None]
    since_ns: int

    @property
    def outstanding(self) -> tuple[int, int]:
        """The number of creations and deletions still to be seen; negative where more were seen than were expected."""
        return self.creations, len(self.deletions)


class Expectations:
    """Per controller key: creations still to be seen, and the pod keys still to go."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: dict[str, Expected] = {}

    def expect_creations(self, key: str, count: int, now: int) -> None:
        """Replace the record of `key`: expect `count` creations."""
        self._expected[key] = Expected(count, {}, now)

    def expect_deletions(self, key: str, pods: list[str], now: int) -> None:
        """Replace the record of `key`: these pods are being deleted."""
        self._expected[key] = Expected(0, dict.fromkeys(pods), now)

    def creation_observed(self, key: str) -> None:
        """One creation was seen, or failed."""
        record = self._expected.get(key)
        if record is not None:
            record.creations -= 1

    def deletion_observed(self, key: str, pod: str) -> None:
        """This pod's deletion was seen (its deletion time or its removal, whichever first), or failed."""
        record = self._expected.get(key)
        if record is not None:
            record.deletions.pop(pod, None)

    def outstanding(self, key: str) -> tuple[int, int] | None:
        """Return the number of creations and deletions still to be seen; None without expectations."""
        record = self._expected.get(key)
        return None if record is None else record.outstanding

    def records(self) -> Mapping[str, Expected]:
        """Return the records by key."""
        return self._expected

    def satisfied(self, key: str, now: int) -> bool:
        """Return whether the controller may act: nothing outstanding, or the record is older than five minutes."""
        record = self._expected.get(key)
        if record is None:
            return True
        fulfilled = record.creations <= 0 and not record.deletions
        return fulfilled or now - record.since_ns > TIMEOUT_NS

    def lasts_ns(self, key: str, now: int) -> int:
        """Return the time until the record of `key` is too old to count, which it is after that."""
        record = self._expected.get(key)
        return 0 if record is None else max(0, record.since_ns + TIMEOUT_NS + 1 - now)

    def forget(self, key: str) -> None:
        """The owner is gone."""
        self._expected.pop(key, None)


@define
class Counted:
    """The record of a key, in numbers only."""

    creations: int
    deletions: int
    since_ns: int

    @property
    def outstanding(self) -> tuple[int, int]:
        """The number of creations and deletions still to be seen; negative where more were seen than were expected."""
        return self.creations, self.deletions


class CountedExpectations:
    """The same with numbers only, as DaemonSets and Jobs keep them: which pods are to go is not remembered."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: dict[str, Counted] = {}

    def expect(self, key: str, creations: int, deletions: int, now: int) -> None:
        """Replace the record of `key`: expect these creations and deletions."""
        self._expected[key] = Counted(creations, deletions, now)

    def creation_observed(self, key: str) -> None:
        """One creation was seen, or failed."""
        record = self._expected.get(key)
        if record is not None:
            record.creations -= 1

    def deletion_observed(self, key: str) -> None:
        """One deletion was seen, or failed."""
        record = self._expected.get(key)
        if record is not None:
            record.deletions -= 1

    def outstanding(self, key: str) -> tuple[int, int] | None:
        """Return the number of creations and deletions still to be seen; None without expectations."""
        record = self._expected.get(key)
        return None if record is None else record.outstanding

    def records(self) -> Mapping[str, Counted]:
        """Return the records by key."""
        return self._expected

    def satisfied(self, key: str, now: int) -> bool:
        """Return whether the controller may act: nothing outstanding, or the record is older than five minutes."""
        record = self._expected.get(key)
        if record is None:
            return True
        fulfilled = record.creations <= 0 and record.deletions <= 0
        return fulfilled or now - record.since_ns > TIMEOUT_NS

    def lasts_ns(self, key: str, now: int) -> int:
        """Return the time until the record of `key` is too old to count, which it is after that."""
        record = self._expected.get(key)
        return 0 if record is None else max(0, record.since_ns + TIMEOUT_NS + 1 - now)

    def forget(self, key: str) -> None:
        """The owner is gone."""
        self._expected.pop(key, None)
