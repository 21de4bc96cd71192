"""The verdict of trying a race on real components, from the verdicts of single attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BROKEN", "FAILED", "HELD", "MISSED", "Attempt", "Confirmation"]

BROKEN, HELD, MISSED, FAILED = "broken", "held", "not reached", "failed"
"""The invariant broke; it held, and the plan was carried out; it held, and the plan was not; the attempt went wrong."""


@frozen
class Attempt:
    """One attempt: its verdict, the reason, and its wall time in seconds."""

    verdict: str
    reason: str
    wall_s: float

    def __str__(self) -> str:
        return f"{self.verdict}{': ' if self.reason else ''}{self.reason} ({self.wall_s:.1f} s)"


@frozen
class Confirmation:
    """All attempts at one race."""

    name: str
    attempts: tuple[Attempt, ...]

    def count(self, verdict: str) -> int:
        """Return the number of attempts with a verdict."""
        return sum(each.verdict == verdict for each in self.attempts)

    @property
    def confirmed(self) -> bool:
        """Return whether it happened at least once."""
        return self.count(BROKEN) > 0

    @property
    def verdict(self) -> str:
        """The verdict in one line: confirmed, refuted, not reached, or that no attempt went right.

        An attempt that did not reach the interleaving says nothing, and does not count.
        """
        broken, held = self.count(BROKEN), self.count(HELD)
        if broken:
            return f"confirmed {broken} of {broken + held}"
        if held:
            return f"refuted: reached {held} times, and it did not break"
        reasons: Sequence[str] = [each.reason for each in self.attempts if each.reason]
        what = "not reached" if self.count(MISSED) else "no attempt went right"
        return f"{what}: {reasons[0]}" if reasons else what

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "broken": self.count(BROKEN),
            "held": self.count(HELD),
            "not_reached": self.count(MISSED),
            "failed": self.count(FAILED),
            "attempts": [
                {"verdict": each.verdict, "reason": each.reason, "seconds": round(each.wall_s, 2)}
                for each in self.attempts
            ],
        }
