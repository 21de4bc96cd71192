"""Pace: how virtual time follows the wall clock while a world is served.

Without a pacer time leaps from timer to timer and a settled world ends. With one the driver waits in
real time until the next timer is due or input arrives, and a settled world goes on being served.
The kernel does the same either way: what the wall clock decided is kept as the (step, virtual time)
of each input, so the recording of a paced session replays without any clock.

The one exception to "nothing of the host" in this package, and it is handed in: the driver gives
the pacer its clock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from actors.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX: Final = math.inf
"""The speed that leaps over every wait while work is under way, and is real time once all is settled."""
NS: Final = 1_000_000_000
LONGEST_WAIT_S: Final = 3600.0


class Pacer:
    """Virtual seconds per real second, changed at will: `pause`, `resume`, `step`, `set_speed`.

    `speed` is positive; `MAX` leaps. While paused, time stands still but requests are answered.
    """

    def __init__(self, speed: float = 1.0, *, paused: bool = False) -> None:
        self._speed = _checked(speed)
        self._paused = paused
        self._goal: int | None = None
        self._arrived: list[Callable[[], None]] = []
        self._virtual = 0
        self._behind: int | None = None
        self._open = 0
        self._wall = 0.0
        self._clock: Callable[[], float] = float
        self._wake: Callable[[], None] = _no_waiter
        self.wait_s: float | None = None
        """Real seconds until the next timer is due, as `reached` found it; None: it is not due by itself."""

    # ------------------------------------------------------------------ for time control

    @property
    def speed(self) -> float:
        """Virtual seconds per real second when not paused."""
        return self._speed

    @property
    def paused(self) -> bool:
        """Return whether time stands still (also between two `step` calls)."""
        return self._paused and self._goal is None

    def now(self) -> int:
        """Virtual nanoseconds that time may have reached by now.

        Where the world cannot keep up with the speed, that is how far it came, for otherwise whatever comes from
        outside would wait for all that lies between.
        """
        if self._goal is not None or self._paused:
            return self._virtual
        return self._wanted() if self._behind is None else self._behind

    def _wanted(self) -> int:
        """The virtual time that the speed asks for."""
        return self._virtual + round((self._clock() - self._wall) * self._rate() * NS)

    def pause(self) -> None:
        """Stop time where it is."""
        self._hold(self.now())
        self._paused = True
        self._arrive()

    def resume(self) -> None:
        """Let time go on at the speed that is set."""
        self._hold(self.now())
        self._paused = False
        self._arrive()

    def set_speed(self, speed: float) -> None:
        """Another speed from now on; a paused world stays paused."""
        self._hold(self.now())
        self._speed = _checked(speed)
        self._wake()

    def step(self, ns: int, arrived: Callable[[], None] | None = None) -> None:
        """Let `ns` virtual nanoseconds pass as fast as possible, then pause; `arrived` is called there."""
        if ns < 0:
            raise UsageError(f"a step of {ns} ns: expected 0 or more")
        start = self._goal if self._goal is not None else self.now()
        self._hold(self.now())
        self._goal = start + ns
        self._paused = True
        if arrived is not None:
            self._arrived.append(arrived)
        self._wake()

    # ------------------------------------------------------------------ for the driver and the kernel

    def ask_outside(self, now: int) -> None:
        """A request to the outside is open: until all are answered, time goes no faster than the clock.

        It leaps over nothing, as a waiting task would time out in virtual time before the answer can come. `now` is
        the kernel's time: at a high speed the clock may have run past the timeout while the request was made.
        """
        self._hold(now)
        self._open += 1

    def answered_outside(self) -> None:
        """One of those that were asked has answered."""
        self._hold(self.now())
        self._open -= 1
        self._wake()

    def _rate(self) -> float:
        """Virtual seconds per real second between two leaps."""
        if self._speed == MAX or (self._open and self._speed > 1):
            return 1.0
        return self._speed

    def attach(self, clock: Callable[[], float], wake: Callable[[], None], now: int) -> None:
        """Begin at virtual time `now`. `clock` answers real seconds; `wake` ends the driver's wait."""
        self._clock = clock
        self._wake = wake
        self._hold(now)

    def entry_time(self, now: int) -> int:
        """The virtual time at which input enters that arrives while nothing is ready."""
        return max(now, self.now())

    def reached(self, at_ns: int | None, now: int, *, busy: bool) -> bool:
        """Return whether the next timer, at `at_ns`, may fire; otherwise `wait_s` says when to ask again.

        `now` is the kernel's time. `busy`: something other than idle timers is under way.
        """
        self.wait_s = None
        if self._goal is not None:
            if self._open:  # the answer wakes us
                return False
            if at_ns is not None and at_ns <= self._goal:
                self._virtual = max(self._virtual, at_ns)
                return True
            self._virtual = self._goal
            self._arrive()
            return False
        self._behind = None
        if at_ns is None:
            return False
        if busy and self._speed == MAX and not self._paused and not self._open:
            self._hold(max(at_ns, now))
            return True
        limit = max(now, self._virtual if self._paused else self._wanted())
        if at_ns <= limit:
            self._behind = max(at_ns, now)
            return True
        if not self._paused:
            self.wait_s = min((at_ns - limit) / NS / self._rate(), LONGEST_WAIT_S)
        return False

    def _hold(self, virtual: int) -> None:
        self._virtual = max(virtual, self._virtual)
        self._wall = self._clock()
        self._behind = None

    def _arrive(self) -> None:
        self._goal = None
        arrived, self._arrived = self._arrived, []
        for call in arrived:
            call()
        self._wake()


def _no_waiter() -> None:
    """The wake-up before a driver has come."""


def _checked(speed: float) -> float:
    if not speed > 0:
        raise UsageError(f"speed {speed}: expected a positive number")
    return float(speed)
