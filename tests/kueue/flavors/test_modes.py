from __future__ import annotations

import itertools

import pytest

from controlplane.kueue.cache.cluster_queue import Fungibility
from controlplane.kueue.flavors.modes import (
    BEST,
    WORST,
    Fine,
    Quality,
    graver,
    is_preferred,
    should_try_next,
)

ALL = [Quality(mode, height) for mode in Fine for height in (0, 1, 2)]
PREFERENCES = [None, "BorrowingOverPreemption", "PreemptionOverBorrowing"]


@pytest.mark.parametrize("preference", PREFERENCES)
def test_preference_is_an_order(preference) -> None:
    fungibility = Fungibility(preference=preference)
    for a, b in itertools.product(ALL, ALL):
        if a.mode is Fine.NO_FIT:  # all that do not fit are alike
            assert not is_preferred(a, b, fungibility)
        elif a != b and b.mode is not Fine.NO_FIT:
            assert is_preferred(a, b, fungibility) != is_preferred(b, a, fungibility)
        if a not in (BEST, WORST):
            assert not is_preferred(a, BEST, fungibility)


def test_borrowing_is_preferred_to_preemption_unless_told_otherwise() -> None:
    borrow, preempt = Quality(Fine.FIT, 2), Quality(Fine.PREEMPT, 0)
    assert is_preferred(borrow, preempt, Fungibility())
    assert is_preferred(preempt, borrow, Fungibility(preference="PreemptionOverBorrowing"))


def test_a_flavor_without_candidates_is_the_last_resort() -> None:
    hopeless = Quality(Fine.NO_CANDIDATES, 0)
    for preference in PREFERENCES:
        assert is_preferred(Quality(Fine.RECLAIM, 2), hopeless, Fungibility(preference=preference))


@pytest.mark.parametrize(
    ("quality", "borrow", "preempt", "goes_on"),
    [
        (Quality(Fine.FIT, 0), "TryNextFlavor", "TryNextFlavor", False),
        (Quality(Fine.FIT, 1), "TryNextFlavor", "MayStopSearch", True),
        (Quality(Fine.FIT, 1), "MayStopSearch", "TryNextFlavor", False),
        (Quality(Fine.RECLAIM, 0), "TryNextFlavor", "MayStopSearch", False),
        (Quality(Fine.PREEMPT, 0), "MayStopSearch", "TryNextFlavor", True),
        (Quality(Fine.NO_CANDIDATES, 0), "MayStopSearch", "MayStopSearch", True),
        (Quality(Fine.NO_FIT, 0), "MayStopSearch", "MayStopSearch", True),
    ],
)
def test_policies_decide_whether_the_search_goes_on(quality, borrow, preempt, goes_on) -> None:
    assert should_try_next(quality, Fungibility(borrow, preempt)) is goes_on


def test_the_gravest_reason_is_kept() -> None:
    assert graver("WaitingForQuota", "ExceedsMaxQuota") == "ExceedsMaxQuota"
    assert graver("NoMatchingFlavor", "ExceedsMaxQuota") == "NoMatchingFlavor"
    assert graver("", "TopologyPlacementFailed") == "TopologyPlacementFailed"
