"""Removals of finalizers of a Job's pods that have not been observed yet. Upstream: job/tracking_utils.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class FinalizerExpectations:
    """Per Job key the uids of pods; until their update is heard the cache shows them as not counted."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: dict[str, dict[str, None]] = {}

    def expect_removed(self, key: str, uids: Iterable[str]) -> None:
        """The finalizers of these pods are being removed, besides those that already are."""
        self._expected.setdefault(key, {}).update(dict.fromkeys(uids))

    def removal_observed(self, key: str, uid: str) -> None:
        """The removal was seen, or failed."""
        self._expected.get(key, {}).pop(uid, None)

    def expected(self, key: str) -> frozenset[str]:
        """The uids as they are now."""
        return frozenset(self._expected.get(key, ()))

    def forget(self, key: str) -> None:
        """The Job is gone."""
        self._expected.pop(key, None)
