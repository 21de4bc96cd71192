"""The pace of a session with processes outside: virtual time stands while they work, and leaps when they are quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.pace import MAX, Pacer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LeapingPacer"]

POLL_S: Final = 0.004
"""The interval at which the processes are looked at while nothing else happens (seconds of wall time)."""


class LeapingPacer(Pacer):
    """Lets time leap to the next timer whenever the processes are quiet and work is under way."""

    def __init__(
        self, look: Callable[[], None], quiet: Callable[[], bool], planned: Callable[[], bool]
    ) -> None:
        """Begin.

        Args:
            look: called whenever the world has nothing to do at its present time.
            quiet: whether the processes are.
            planned: whether only the ends of a plan's holds keep the world busy.
        """
        super().__init__(MAX)
        self._look = look
        self._quiet = quiet
        self._planned = planned
        self.resting = False
        """Nothing is left to do in the world but periodic work, and at most the ends of a plan's holds."""
        self.leap_over_plan = False
        """Holds of a plan end although nothing else happens: the workload has nothing more to do."""
        self.until_ns = 0
        """Periodic work goes on up to this virtual time."""

    def now(self) -> int:
        """Virtual nanoseconds: they do not follow the wall clock."""
        return self._virtual

    @property
    def paused(self) -> bool:
        """Return whether time stands still at present."""
        return self.resting

    def reached(self, at_ns: int | None, now: int, *, busy: bool) -> bool:
        """Return whether the next timer may fire."""
        self._hold(now)
        self._look()
        self.wait_s = POLL_S
        self.resting = False
        if self._open or not self._quiet():
            return False
        planned = busy and self._planned()
        self.resting = at_ns is None or not busy or planned
        if at_ns is None:
            return False
        if (self.resting and not (planned and self.leap_over_plan)) and at_ns > self.until_ns:
            return False
        self.resting = False
        self._hold(max(at_ns, now))
        return True
