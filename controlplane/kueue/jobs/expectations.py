"""Ends of objects that were asked for and have not been seen yet. Follows `pkg/util/expectations`."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Expectations"]

Key = tuple[str, str]


class Expectations:
    """Uids by the namespace and name of what they belong to."""

    def __init__(self) -> None:
        self._uids: dict[Key, dict[str, None]] = {}

    def expect(self, key: Key, uids: Iterable[str]) -> None:
        """Wait for these, too."""
        self._uids.setdefault(key, {}).update(dict.fromkeys(uids))

    def observed(self, key: Key, uid: str) -> None:
        """Wait for this one no longer."""
        waiting = self._uids.get(key)
        if waiting is None:
            return
        waiting.pop(uid, None)
        if not waiting:
            del self._uids[key]

    def satisfied(self, key: Key) -> bool:
        """Return whether nothing is waited for."""
        return key not in self._uids
