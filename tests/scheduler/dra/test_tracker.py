"""The tracker finds the claim for a pod's extended resources by the pod's uid, as claims come, change and go."""

from __future__ import annotations

from typing import Any

from controlplane.api.resource_claims import EXTENDED_ANNOTATION
from controlplane.api.view import GenericView, View
from controlplane.decisions import at_once
from controlplane.scheduler.dra.tracker import ClaimTracker

POD: Any = {"metadata": {"namespace": "ns", "name": "p", "uid": "p-1"}}


def claim(name: str, uid: str = "p-1", version: int = 1, **annotations: str) -> View:
    notes = annotations or {EXTENDED_ANNOTATION: "true"}
    meta = {
        "namespace": "ns",
        "name": name,
        "resourceVersion": str(version),
        "annotations": notes,
        "ownerReferences": [{"name": "p", "uid": uid, "controller": True}],
    }
    return GenericView.from_tree({"metadata": meta})


def test_a_claim_is_found_as_long_as_it_is_there() -> None:
    tracker = ClaimTracker(shares=False)
    made = claim("c")
    assert tracker.extended_of(POD) is None
    at_once(tracker.cache.put(made))
    assert tracker.extended_of(POD) is made.tree
    at_once(tracker.cache.remove(made))
    assert tracker.extended_of(POD) is None


def test_claims_of_other_pods_and_of_other_kinds_are_not_found() -> None:
    tracker = ClaimTracker(shares=False)
    at_once(tracker.cache.put(claim("other", uid="p-2")))
    at_once(tracker.cache.put(claim("own", other="true")))
    assert tracker.extended_of(POD) is None


def test_the_latest_object_counts_and_gives_way_to_the_one_before() -> None:
    tracker = ClaimTracker(shares=False)
    at_once(tracker.cache.put(claim("c", uid="p-2")))
    assumed = claim("c", version=2)
    assert at_once(tracker.cache.assume(assumed)) == ""
    assert tracker.extended_of(POD) is assumed.tree
    at_once(tracker.cache.restore("ns/c"))
    assert tracker.extended_of(POD) is None


def test_the_first_of_two_is_the_one_that_came_first() -> None:
    tracker = ClaimTracker(shares=False)
    first = claim("z")
    for each in (first, claim("a")):
        at_once(tracker.cache.put(each))
    assert tracker.extended_of(POD) is first.tree
