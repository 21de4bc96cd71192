from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.page.tree_changes import applied, changes

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"])
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)


def same(one, other) -> bool:
    """Equal, where True is not 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(TREES, TREES)
def test_changes_make_the_new_tree_of_the_old_one(old, new) -> None:
    assert same(applied(old, changes(old, new)), new)


@given(TREES)
def test_equal_trees_have_no_changes(tree) -> None:
    assert changes(tree, tree) == []
    assert changes({"a": tree}, {"a": tree}) == []


def test_a_change_names_its_place_and_no_more() -> None:
    old = {"spec": {"replicas": 1, "paused": True}, "status": {"conditions": [{"a": 1}, {"a": 2}]}}
    new = {"spec": {"replicas": 2}, "status": {"conditions": [{"a": 1}, {"a": 3}]}}
    assert changes(old, new) == [
        [["spec", "replicas"], 2],
        [["spec", "paused"]],
        [["status", "conditions", 1, "a"], 3],
    ]


def test_null_is_a_value_and_no_deletion() -> None:
    assert changes({"a": 1}, {"a": None}) == [[["a"], None]]


def test_what_did_not_change_is_shared() -> None:
    old = {"spec": {"a": [1]}, "status": {}}
    assert applied(old, [[["status", "phase"], "Running"]])["spec"] is old["spec"]
