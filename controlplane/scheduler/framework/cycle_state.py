"""Data that plugins keep between the extension points of one cycle.

Upstream: `pkg/scheduler/framework/cycle_state.go`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Self

PODS_TO_ACTIVATE: Final = "kubernetes.io/pods-to-activate"
"""The key of pods, by their keys, that are to be made ready when the scheduling or the binding cycle ends."""
_NONE: Final[frozenset[str]] = frozenset()


class Clonable(ABC):
    """Plugin data that what-ifs change, so that each needs a copy."""

    __slots__ = ()

    @abstractmethod
    def clone(self) -> Self:
        """A copy that can be changed without changing this one."""


class CycleState:
    """Plugin data of one scheduling attempt, and which plugins sit it out."""

    __slots__ = (
        "anew",
        "data",
        "group",
        "now",
        "pre_filter_end",
        "skip_filter",
        "skip_post_filters",
        "skip_pre_bind",
        "skip_score",
    )

    def __init__(self, now: int = 0) -> None:
        self.now = now
        """Time of the attempt, nanoseconds since the epoch."""
        self.data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.anew: frozenset[str] = _NONE
        """Plugins that are asked node by node in this cycle: their answers depend on more than spec and node."""
        self.pre_filter_end = ""
        """The plugin whose PreFilter refused the pod, so that no further one was asked."""
        self.group: CycleState | None = None
        """The state of the pod group's cycle, if this cycle is part of one."""
        self.skip_post_filters = False
        """No PostFilter runs: whether the group would fit is all that is asked."""

    def read(self, key: str) -> Any:
        """Data under `key`, None when there is none."""
        return self.data.get(key)

    def write(self, key: str, value: Any) -> None:
        """Store data under `key`."""
        self.data[key] = value

    def clone(self) -> CycleState:
        """A copy for a what-if: data that can be cloned are, the rest is shared."""
        copy = CycleState(self.now)
        for key, value in self.data.items():
            copy.data[key] = value.clone() if isinstance(value, Clonable) else value
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        copy.skip_pre_bind = self.skip_pre_bind
        copy.anew = self.anew
        copy.pre_filter_end = self.pre_filter_end
        copy.group = self.group
        copy.skip_post_filters = self.skip_post_filters
        return copy
