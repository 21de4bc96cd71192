from __future__ import annotations

from controlplane.controllers.common.ownership import (
    Decision,
    adopt_patch,
    claim,
    controller_of,
    release_patch,
)
from tests.controllers.builders import owner, pod, replica_set

OURS = [owner("ReplicaSet", "web", "web")]


def decide(*candidates, matching=("app", "web"), owner_view=None):
    key, value = matching
    found = claim(
        owner_view or replica_set("web", 1), candidates, lambda each: each.labels.get(key) == value
    )
    return {candidate.name: decision for candidate, decision in found}


def test_what_the_owner_controls_and_selects_is_its_own():
    assert decide(pod("a", ownerReferences=OURS)) == {"a": Decision.MINE}


def test_what_it_controls_but_no_longer_selects_is_released():
    assert decide(pod("a", labels={}, ownerReferences=OURS)) == {"a": Decision.RELEASE}


def test_an_orphan_that_it_selects_is_adopted():
    assert decide(pod("a"), pod("b", labels={})) == {"a": Decision.ADOPT}


def test_what_another_controls_is_left_alone_even_under_the_same_name():
    other = [owner("ReplicaSet", "web", "an earlier uid")]
    assert decide(pod("a", ownerReferences=other)) == {}


def test_what_is_being_deleted_is_not_adopted():
    assert decide(pod("a", deleting=True)) == {}


def test_an_owner_that_is_being_deleted_neither_adopts_nor_releases():
    dying = replica_set("web", 1)
    dying = type(dying).from_tree(
        {
            **dying.tree,
            "metadata": {**dying.tree["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
        }
    )
    found = decide(
        pod("a"),
        pod("b", labels={}, ownerReferences=OURS),
        pod("c", ownerReferences=OURS),
        owner_view=dying,
    )
    assert found == {"c": Decision.MINE}


def test_only_a_controller_reference_counts():
    plain = [{**OURS[0], "controller": False}]
    assert controller_of(pod("a", ownerReferences=plain)) is None
    assert decide(pod("a", ownerReferences=plain)) == {"a": Decision.ADOPT}


def test_patches_carry_the_uid_of_what_they_change():
    owning = replica_set("web", 1)
    assert adopt_patch(owning, "u") == {"metadata": {"ownerReferences": OURS, "uid": "u"}}
    assert release_patch(owning, "u") == {
        "metadata": {"ownerReferences": [{"$patch": "delete", "uid": "web"}], "uid": "u"}
    }
