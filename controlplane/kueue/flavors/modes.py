"""How well a flavor suits, and which of two is preferred.

Follows `pkg/scheduler/flavorassigner/flavorassigner.go`.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Final, NamedTuple

from controlplane.kueue.cache.cluster_queue import TRY_NEXT_FLAVOR, Fungibility

PREEMPTION_OVER_BORROWING: Final = "PreemptionOverBorrowing"

NO_MATCHING_FLAVOR: Final = "NoMatchingFlavor"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
WAITING_FOR_QUOTA: Final = "WaitingForQuota"
TOPOLOGY_PLACEMENT_FAILED: Final = "TopologyPlacementFailed"
_SEVERITY: Final = {
    TOPOLOGY_PLACEMENT_FAILED: 1,
    WAITING_FOR_QUOTA: 2,
    EXCEEDS_MAX_QUOTA: 3,
    NO_MATCHING_FLAVOR: 4,
}


class Mode(IntEnum):
    """Modes of an assignment for the workload; a higher one is better."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


MODE_NAMES: Final = {
    Mode.NO_FIT: "NoFit",
    Mode.PREEMPT: "Preempt",
    Mode.DEFERRED_FIT: "DeferredFit",
    Mode.FIT: "Fit",
}


class Possibility(IntEnum):
    """Possible outcomes of preemption for one flavor and resource."""

    NO_CANDIDATES = 0
    PREEMPT = 1
    RECLAIM = 2


POSSIBILITY_NAMES: Final = {
    Possibility.NO_CANDIDATES: "NoCandidates",
    Possibility.PREEMPT: "Preempt",
    Possibility.RECLAIM: "Reclaim",
}


class Fine(IntEnum):
    """A mode with the kinds of preemption told apart."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4

    def mode(self) -> Mode:
        """The coarse mode."""
        if self is Fine.NO_FIT:
            return Mode.NO_FIT
        return Mode.FIT if self is Fine.FIT else Mode.PREEMPT

    def possibility(self) -> Possibility | None:
        """The possible outcome of preemption; None where it does not apply."""
        if self in (Fine.NO_FIT, Fine.FIT):
            return None
        return Possibility(self - 1)


class Quality(NamedTuple):
    """The mode of a flavor, and the height of the cohort that it would borrow in (0: none)."""

    mode: Fine
    height: int


WORST: Final = Quality(Fine.NO_FIT, sys.maxsize)
BEST: Final = Quality(Fine.FIT, 0)


def is_preferred(a: Quality, b: Quality, fungibility: Fungibility) -> bool:
    """Return whether `a` is better than `b`."""
    if a.mode is Fine.NO_FIT:
        return False
    if b.mode is Fine.NO_FIT:
        return True
    without = a.mode is Fine.NO_CANDIDATES
    if without != (b.mode is Fine.NO_CANDIDATES):
        return not without
    if fungibility.preference == PREEMPTION_OVER_BORROWING:
        return (-a.height, a.mode) > (-b.height, b.mode)
    return (a.mode, -a.height) > (b.mode, -b.height)


def should_try_next(quality: Quality, fungibility: Fungibility) -> bool:
    """Return whether the search goes on after a flavor of this quality."""
    if quality.mode in (Fine.NO_FIT, Fine.NO_CANDIDATES):
        return True
    if quality.mode in (Fine.PREEMPT, Fine.RECLAIM) and (
        fungibility.when_can_preempt == TRY_NEXT_FLAVOR
    ):
        return True
    return quality.height > 0 and fungibility.when_can_borrow == TRY_NEXT_FLAVOR


def severity(reason: str) -> int:
    """How grave a reason for not fitting is, 0 for none."""
    return _SEVERITY.get(reason, 0)


def graver(a: str, b: str) -> str:
    """The graver of two reasons, the first of equal ones."""
    return a if severity(a) >= severity(b) else b
