"""The uids of objects that are gone, the last few hundred. Upstream: uid_cache.go of both controllers."""

from __future__ import annotations

from typing import Final

__all__ = ["KEPT", "UidCache"]

KEPT: Final = 500


class UidCache:
    """Uids, of which the least recently used are forgotten."""

    __slots__ = ("_kept", "_uids")

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._uids: dict[str, None] = {}

    def add(self, uid: str) -> None:
        """Remember a uid."""
        self._uids.pop(uid, None)
        self._uids[uid] = None
        if len(self._uids) > self._kept:
            del self._uids[next(iter(self._uids))]

    def __contains__(self, uid: str) -> bool:
        """Return whether a uid is remembered; the question counts as a use."""
        if uid not in self._uids:
            return False
        self._uids[uid] = self._uids.pop(uid)
        return True
