"""Rate limiters of work queues: when a key that failed may run again. Upstream: default_rate_limiters.go.

`when(key, now)` counts one more failure and answers a time (ns). A controller's default is the later
of two: a backoff per key, and a token bucket that all keys share.
"""

from __future__ import annotations

from typing import Protocol

MS = 1_000_000
SECOND = 1_000 * MS
MOST_DOUBLINGS = 62


class Limiter(Protocol):
    """Answers when a key may run again."""

    def when(self, key: str, now: int) -> int:
        """Count one more failure of `key`; the time from which it may run again."""

    def forget(self, key: str) -> None:
        """The key succeeded, or is given up: start its failures from none."""

    def failures(self, key: str) -> int:
        """Return the number of failures of `key` since it was last forgotten."""


class PerItemBackoff:
    """Doubles with each failure of a key: 5 ms up to 1000 s unless told otherwise."""

    __slots__ = ("_base", "_failures", "_max")

    def __init__(self, base_ns: int = 5 * MS, max_ns: int = 1000 * SECOND) -> None:
        self._base = base_ns
        self._max = max_ns
        self._failures: dict[str, int] = {}

    def when(self, key: str, now: int) -> int:
        """Count one more failure of `key`; the time from which it may run again."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return now + min(self._base << min(failures, MOST_DOUBLINGS), self._max)

    def forget(self, key: str) -> None:
        """Start the failures of `key` from none."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Return the number of failures of `key` since it was last forgotten."""
        return self._failures.get(key, 0)


class FastSlow:
    """A few fast retries of a key, then slow ones."""

    __slots__ = ("_failures", "_fast", "_fast_retries", "_slow")

    def __init__(self, fast_ns: int, slow_ns: int, fast_retries: int) -> None:
        self._fast = fast_ns
        self._slow = slow_ns
        self._fast_retries = fast_retries
        self._failures: dict[str, int] = {}

    def when(self, key: str, now: int) -> int:
        """Count one more failure of `key`; the time from which it may run again."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return now + (self._fast if failures <= self._fast_retries else self._slow)

    def forget(self, key: str) -> None:
        """Start the failures of `key` from none."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Return the number of failures of `key` since it was last forgotten."""
        return self._failures.get(key, 0)


class Bucket:
    """A token bucket shared by all keys: every call takes a token, also for a first failure."""

    __slots__ = ("_burst", "_interval", "_spent_until")

    def __init__(self, qps: int = 10, burst: int = 100) -> None:
        self._interval = SECOND // qps
        self._burst = burst
        self._spent_until = -burst * self._interval

    def when(self, key: str, now: int) -> int:
        """Take one token; the time at which it is there."""
        # The bucket is full when `_spent_until` lies a whole burst in the past; each call takes one token.
        full = now - self._burst * self._interval
        self._spent_until = max(self._spent_until, full) + self._interval
        return max(now, self._spent_until)

    def forget(self, key: str) -> None:
        """Nothing: tokens do not come back."""

    def failures(self, key: str) -> int:
        """Unknown here: 0."""
        return 0


class MaxOf:
    """The latest of several limiters; all of them count."""

    __slots__ = ("_limiters",)

    def __init__(self, *limiters: Limiter) -> None:
        self._limiters = limiters

    def when(self, key: str, now: int) -> int:
        """Count one more failure of `key` everywhere; the latest time."""
        return max(limiter.when(key, now) for limiter in self._limiters)

    def forget(self, key: str) -> None:
        """Start the failures of `key` from none."""
        for limiter in self._limiters:
            limiter.forget(key)

    def failures(self, key: str) -> int:
        """The most that any of them counted."""
        return max(limiter.failures(key) for limiter in self._limiters)


class AtMost:
    """Another limiter, but never further away than `max_ns`."""

    __slots__ = ("_inner", "_max")

    def __init__(self, inner: Limiter, max_ns: int) -> None:
        self._inner = inner
        self._max = max_ns

    def when(self, key: str, now: int) -> int:
        """Count one more failure of `key`; the time from which it may run again."""
        return min(self._inner.when(key, now), now + self._max)

    def forget(self, key: str) -> None:
        """Start the failures of `key` from none."""
        self._inner.forget(key)

    def failures(self, key: str) -> int:
        """Return the number of failures of `key` since it was last forgotten."""
        return self._inner.failures(key)


def default_controller_limiter() -> MaxOf:
    """The default rate limiter of controllers."""
    return MaxOf(PerItemBackoff(), Bucket())


def default_item_limiter() -> PerItemBackoff:
    """The default of queues without a shared bucket: 1 ms up to 1000 s."""
    return PerItemBackoff(MS)
