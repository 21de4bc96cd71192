"""A rest for the scheduling task after cycles that came to nothing.

Upstream such a pod, or group, is popped again at once as long as nothing else is active, from the backoff queue or
since a plugin had its siblings made ready: cycles follow each other as fast as they can (scheduler-plugins issue 429).
Here a cycle costs no time, so that would never end.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

__all__ = ["MANY_TRIES", "Rest"]

FIRST_PAUSE: Final = 1_000_000
LONGEST_PAUSE: Final = 1_000_000_000
MANY_TRIES: Final = 8
"""The number of cycles in a row without a bound pod after which further ones no longer delay a run's settling."""


class Rest:
    """The length of the next rest, nanoseconds; longer after each cycle in a row that came to nothing."""

    __slots__ = ("_fruitless", "hopeless", "pause")

    def __init__(self) -> None:
        self._fruitless: dict[Hashable, int] = {}
        self.pause = 0
        """Nanoseconds for which the scheduling task rests after the last cycle, if no pod is active."""
        self.hopeless = False
        """The last cycle was one of many in a row that came to nothing."""

    def succeeded(self, key: Hashable) -> None:
        """Note that a cycle bound something."""
        self._fruitless.pop(key, None)
        self.pause = 0

    def failed(self, key: Hashable, free: int = 0) -> None:
        """Note that a cycle came to nothing; after the first `free` ones there is no rest."""
        tries = self._fruitless[key] = self._fruitless.get(key, 0) + 1
        tries -= free
        if tries > 0:
            self.pause = min(FIRST_PAUSE << min(tries - 1, 20), LONGEST_PAUSE)
            self.hopeless = tries > MANY_TRIES
