"""Pools gathered from slices."""

from __future__ import annotations

import attrs
import pytest

from controlplane.api.tree import Tree
from controlplane.scheduler.dra.features import Features
from controlplane.scheduler.dra.pools import Pool, PoolError, Slices, gather_pools
from tests.scheduler.dra.makers import ALL_ON, NODE, device, piece


def gathered(*slices: Tree, features: Features = ALL_ON) -> list[Pool]:
    return gather_pools(Slices(slices), NODE, features)


def of_generation(tree: Tree, generation: int, count: int) -> Tree:
    tree["spec"]["pool"].update(generation=generation, resourceSliceCount=count)
    return tree


def test_slices_of_other_nodes_are_left_out() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}
    found = gathered(
        piece("s1", device("a"), pool="p1", nodeName="n2"),
        piece("s2", device("a"), pool="p2", nodeSelector={"nodeSelectorTerms": [zone]}),
        piece("s3", device("a"), pool="p3", allNodes=True),
        piece("s4", device("a", nodeName="n1"), pool="p4", perDeviceNodeSelection=True),
    )
    assert [str(pool) for pool in found] == ["laser.example.org/p3", "laser.example.org/p4"]


def test_the_newest_generation_counts_and_must_be_complete() -> None:
    old, new = piece("s1", device("a")), piece("s2", device("b"))
    (pool,) = gathered(of_generation(old, 1, 1), of_generation(new, 2, 1))
    assert [each.name for each in pool.targeting] == ["s2"]
    (pool,) = gathered(of_generation(new, 2, 2))
    assert pool.incomplete


def test_a_pool_that_has_moved_to_other_nodes_is_out_of_date() -> None:
    here, there = piece("s1", device("a")), piece("s2", device("a"), nodeName="n2")
    assert gathered(of_generation(here, 1, 2), of_generation(there, 2, 1)) == []


def test_slices_are_ordered_by_name_and_pools_with_binding_conditions_are_last() -> None:
    first = piece("s1", device("a", bindingConditions=["ready"]), pool="a")
    second, third = piece("s3", device("a"), pool="b"), piece("s2", device("b"), pool="b")
    for each in (second, third):
        of_generation(each, 1, 2)
    found = gathered(first, second, third)
    assert [pool.name for pool in found] == ["b", "a"]
    assert [each.name for each in found[0].targeting] == ["s2", "s3"]


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ([piece("s", device("a"), device("a"))], "duplicate device name a"),
        (
            [piece("s", device("a", consumesCounters=[{"counterSet": "x", "counters": {}}]))],
            "counter set x not found",
        ),
    ],
)
def test_an_invalid_pool_says_why(slices: list[Tree], reason: str) -> None:
    (pool,) = gathered(*slices)
    assert pool.invalid == reason
    assert not pool.usable


def test_counters_and_device_selection_need_their_feature() -> None:
    off = attrs.evolve(ALL_ON, partitionable_devices=False)
    one = piece("s4", device("a", nodeName="n1"), perDeviceNodeSelection=True)
    assert gathered(one, features=off) == []


def test_a_wrong_node_selector_is_shown_as_go_prints_it() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a", "b"]}]}
    with pytest.raises(PoolError) as caught:
        gathered(piece("s", device("a"), nodeSelector={"nodeSelectorTerms": [term]}))
    assert str(caught.value).startswith(
        "failed to perform node selection for slice s: failed to parse node selector "
        "&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:"
        "[]NodeSelectorRequirement{NodeSelectorRequirement{Key:zone,Operator:Near,Values:[a b],},},"
        "MatchFields:[]NodeSelectorRequirement{},},},}: "
    )
