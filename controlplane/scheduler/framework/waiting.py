"""Pods that wait between Permit and binding.

Upstream: `pkg/scheduler/framework/runtime/waiting_pods_map.go`. The first decision counts; the actor
waits for it in the binding task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from controlplane.scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

_UNITS = ((3_600_000_000_000, "h"), (60_000_000_000, "m"))
_SMALL_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


class WaitingPod:
    """A pod that some Permit plugins hold back.

    Args:
        pod: the assumed pod.
        waits: plugin name to timeout in nanoseconds.
        now: when the wait begins.
        decided: called once, when the wait is over.
    """

    __slots__ = ("_decided", "_pending", "is_decided", "pod", "status")

    def __init__(
        self, pod: Pod, waits: Mapping[str, int], now: int, decided: Callable[[], None]
    ) -> None:
        self.pod = pod
        self._pending = {plugin: (now + timeout, timeout) for plugin, timeout in waits.items()}
        self._decided = decided
        self.is_decided = False
        self.status: Status | None = None
        """The result of the wait; None is success."""

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return list(self._pending)

    def allow(self, plugin: str) -> None:
        """`plugin` lets the pod go; when no other holds it, it is bound."""
        self._pending.pop(plugin, None)
        if not self._pending:
            self._decide(None)

    def reject(self, plugin: str, message: str) -> bool:
        """Send the pod back to the queue; False when the wait was over already."""
        return self._decide(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """The pod has to make room. It is an error and no rejection, so the pod is retried soon."""
        return self._decide(Status(Code.ERROR, (message,), plugin))

    def next_deadline(self) -> int:
        """Return the time at which the first plugin's timeout ends, in nanoseconds since the epoch."""
        return min(deadline for deadline, _ in self._pending.values())

    def expire(self, now: int) -> None:
        """Reject the pod if some plugin's time is up."""
        for plugin, (deadline, timeout) in self._pending.items():
            if deadline <= now:
                waited = format_duration(timeout)
                self.reject(
                    plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}"
                )
                return

    def _decide(self, status: Status | None) -> bool:
        if self.is_decided:
            return False
        self.is_decided = True
        self.status = status
        self._decided()
        return True


def format_duration(ns: int) -> str:
    """Nanoseconds as Go prints a duration: 15m0s, 1.5s, 20ms."""
    if ns < _SMALL_UNITS[0][0]:
        for size, unit in _SMALL_UNITS:
            if ns >= size:
                return _decimal(ns, size) + unit
        return f"{ns}ns" if ns else "0s"
    out = ""
    for size, unit in _UNITS:
        if ns >= size or out:
            out += f"{ns // size}{unit}"
            ns %= size
    return out + _decimal(ns, _SMALL_UNITS[0][0]) + "s"


def _decimal(ns: int, size: int) -> str:
    digits = len(str(size)) - 1
    rest = f"{ns % size:0{digits}d}".rstrip("0")
    return f"{ns // size}.{rest}" if rest else str(ns // size)
