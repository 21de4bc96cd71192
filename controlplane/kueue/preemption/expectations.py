"""Preemptions that were asked for and have not been seen yet: none is asked for twice.

Follows `pkg/util/expectations`.
"""

from __future__ import annotations


class Expectations:
    """Uids of workloads by key (namespace/name)."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: dict[str, dict[str, None]] = {}

    def expect(self, key: str, uid: str) -> None:
        """Expect to see a preemption."""
        self._expected.setdefault(key, {})[uid] = None

    def observed(self, key: str, uid: str) -> None:
        """Forget an expected preemption."""
        uids = self._expected.get(key)
        if uids is not None:
            uids.pop(uid, None)
            if not uids:
                del self._expected[key]

    def expected(self) -> list[str]:
        """The keys of the workloads whose preemption is expected."""
        return list(self._expected)

    def satisfied(self, key: str) -> bool:
        """Return whether nothing is expected for the key."""
        return key not in self._expected
