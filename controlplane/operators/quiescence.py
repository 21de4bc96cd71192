"""Quiescence of a process: whether it is at work, from its requests and from its use of the processor.

No window of fixed length decides: a process that waits for its answers or for the processor is at work, however loaded
the machine is; one that sleeps and has asked for nothing is quiet. Requests that change nothing and come again and
again do not keep a run from its end.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

__all__ = ["QUIET_S", "Quiescence", "Sample", "busy_share"]

QUIET_S: Final = 0.03
"""A process is quiet if it slept for so long and nothing was sent in either direction (seconds of wall time)."""
BUSY_SHARE: Final = 0.04
"""The share of a processor that a sleeping process with timers of its own may use: a Go runtime's monitor, say."""
STARTING_S: Final = 20.0
"""The longest time that a new process may take until its first request."""


@frozen
class Sample:
    """A process at a moment: processor time so far (ns), and whether a thread waits for the processor or a disk."""

    cpu_ns: int
    runnable: bool = False


def busy_share(before: Sample, after: Sample, seconds: float) -> float:
    """Return the share of a processor that was used between two samples."""
    return (after.cpu_ns - before.cpu_ns) / (seconds * 1e9) if seconds > 0 else 0.0


@define
class Quiescence:
    """The state of all processes of an operator. Times are seconds of wall time."""

    quiet_s: float = QUIET_S
    _under_way: int = 0
    _active: float = 0.0
    _effect: float = 0.0
    _starting: dict[int, float] = field(factory=dict)
    _samples: dict[int, tuple[float, Sample]] = field(factory=dict)
    longest_gap_s: float = 0.0
    """The longest time between two effects of processes, or the workload's step and the first one."""
    longest_pause_s: float = 0.0
    """The longest time of nothing but sleep before a request."""

    def request(self, change: int, now: float) -> None:
        """Requests under way become more or fewer by `change`."""
        self._under_way = max(0, self._under_way + change)
        if change > 0 and self._active:
            self.longest_pause_s = max(self.longest_pause_s, now - self._active)
        self._active = now

    def event(self, now: float) -> None:
        """Note that events were sent to a process."""
        self._active = self._effect = now

    def effect(self, now: float) -> None:
        """Note that a write of a process changed something."""
        if self._effect:
            self.longest_gap_s = max(self.longest_gap_s, now - self._effect)
        self._active = self._effect = now

    def goes_on(self, now: float) -> None:
        """Note that the workload goes on: what follows is no reaction to what was before."""
        self._active = self._effect = now

    def starts(self, process: int, now: float) -> None:
        """A process starts: it is at work until it has asked for something."""
        self._starting[process] = now
        self._active = self._effect = now

    def asked(self, process: int) -> None:
        """Note that a process has sent its first request."""
        self._starting.pop(process, None)

    def ended(self, process: int, now: float) -> None:
        """A process has ended, and its requests with it."""
        self._starting.pop(process, None)
        self._samples.pop(process, None)
        self._active = self._effect = now

    def look(self, process: int, sample: Sample, now: float) -> None:
        """Take a sample of a process in."""
        before = self._samples.get(process)
        if before is not None and now - before[0] < 0.002:
            return
        self._samples[process] = now, sample
        share = 1.0 if before is None else busy_share(before[1], sample, now - before[0])
        if sample.runnable or share > BUSY_SHARE:
            self._active = now

    def quiet(self, now: float) -> bool:
        """Return whether all processes sleep and wait for nothing of ours."""
        starting = any(now - since < STARTING_S for since in self._starting.values())
        return not starting and self._under_way == 0 and now - self._active >= self.quiet_s

    def settled(self, now: float, settle_s: float) -> bool:
        """Return whether they are quiet and nothing has changed for so long."""
        return self.quiet(now) and now - self._effect >= settle_s
